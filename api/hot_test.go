package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"sluice/api/decide"
	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules"
)

func TestHot_NamesKeysAndRulesAndHidesCredentials(t *testing.T) {
	asked := 0
	f := newFixture(t, []rules.Rule{{Name: "by-key", Scope: "apikey", Limit: 10, WindowMS: 1000, IsActive: true}},
		func(_ *decide.CheckerOptions, d *Deps) {
			d.Hot = func(most int) []limiter.HotKey {
				asked = most
				return []limiter.HotKey{
					{Key: "{apikey:%hAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA}|1|sc", Heat: limiter.Heat{Rate: 4200,
						Hot: true, State: limiter.HotLeased, Since: epoch}},
					{Key: "{key:mine}|w1000|sc", Heat: limiter.Heat{Rate: 3}},
					{Key: "{user:42}|99|sc", Heat: limiter.Heat{Rate: 1}},
				}
			}
		})
	var got hotPage
	f.do(http.MethodGet, "/ratelimit/hot?page_size=3", "").want(http.StatusOK).decode(&got)
	if !got.Enabled || asked != 3 || len(got.HotKeys) != 3 {
		t.Fatalf("asked for %d, got %+v", asked, got)
	}
	first := got.HotKeys[0]
	if first.Rule == nil || *first.Rule != "by-key" || !strings.HasPrefix(first.Key, "apikey:sha256:") ||
		first.State != "leased" || first.Since == nil || first.Rate != 4200 {
		t.Errorf("got %+v", first)
	}
	if second := got.HotKeys[1]; second.Rule != nil || second.Key != "key:mine" || second.Hot || second.Since != nil ||
		second.State != "exact" {
		t.Errorf("got %+v", second)
	}
	if third := got.HotKeys[2]; third.Rule != nil {
		t.Errorf("a rule that is not in force was named: %+v", third)
	}
	f.do(http.MethodGet, "/ratelimit/hot?page_size=0", "").want(http.StatusUnprocessableEntity)
}

func TestHot_OfAllNodesAddsThemUp(t *testing.T) {
	var away error
	f := newFixture(t, []rules.Rule{{Name: "by-user", Scope: "user", Limit: 10, WindowMS: 1000, IsActive: true}},
		func(_ *decide.CheckerOptions, d *Deps) {
			d.Hot = func(int) []limiter.HotKey { return nil }
			d.HotEverywhere = func(context.Context) ([]history.HotLive, error) {
				return []history.HotLive{
					{HotKey: history.HotKey{Key: "user:42", RuleID: 1,
						Heat: limiter.Heat{Rate: 9000, Hot: true, Since: epoch, State: limiter.HotLeased}},
						Nodes: make([]history.HotNode, 3)},
					{HotKey: history.HotKey{Key: "key:mine", Heat: limiter.Heat{Rate: 3}}, Nodes: make([]history.HotNode, 1)},
				}, away
			}
		})
	var got hotPage
	f.do(http.MethodGet, "/ratelimit/hot?nodes=all", "").want(http.StatusOK).decode(&got)
	if len(got.HotKeys) != 2 || got.HotKeys[0].Nodes != 3 || got.HotKeys[0].Rate != 9000 ||
		*got.HotKeys[0].Rule != "by-user" || got.HotKeys[0].Since == nil || got.HotKeys[1].Rule != nil {
		t.Errorf("got %+v", got)
	}
	f.do(http.MethodGet, "/ratelimit/hot?nodes=all&page_size=1", "").want(http.StatusOK).decode(&got)
	if len(got.HotKeys) != 1 {
		t.Errorf("a page of one has %d", len(got.HotKeys))
	}
	f.do(http.MethodGet, "/ratelimit/hot?nodes=this", "").want(http.StatusOK).decode(&got)
	if len(got.HotKeys) != 0 {
		t.Errorf("this node has %+v", got.HotKeys)
	}
	f.do(http.MethodGet, "/ratelimit/hot?nodes=some", "").want(http.StatusUnprocessableEntity)
	away = errors.New("no board")
	f.do(http.MethodGet, "/ratelimit/hot?nodes=all", "").want(http.StatusServiceUnavailable)
}

func TestHot_SwitchedOffSaysSo(t *testing.T) {
	var got hotPage
	newFixture(t, nil).do(http.MethodGet, "/ratelimit/hot", "").want(http.StatusOK).decode(&got)
	if got.Enabled || got.HotKeys == nil || len(got.HotKeys) != 0 {
		t.Errorf("got %+v", got)
	}
}
