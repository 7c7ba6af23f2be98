package api

import (
	"net/http"
	"strings"
	"testing"

	"sluice/limiter"
	"sluice/rules"
)

func TestHot_NamesKeysAndRulesAndHidesCredentials(t *testing.T) {
	asked := 0
	f := newFixture(t, []rules.Rule{{Name: "by-key", Scope: "apikey", Limit: 10, WindowMS: 1000, IsActive: true}}, func(_ *CheckerOptions, d *Deps) {
		d.Hot = func(most int) []limiter.HotKey {
			asked = most
			return []limiter.HotKey{
				{Key: "{apikey:%hAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA}|1|sc", Rate: 4200, Hot: true, State: limiter.HotLeased, Since: epoch},
				{Key: "{key:mine}||sc", Rate: 3},
				{Key: "{user:42}|99|sc", Rate: 1},
			}
		}
	})
	var got hotPage
	f.do(http.MethodGet, "/ratelimit/hot?page_size=3", "").want(http.StatusOK).decode(&got)
	if !got.Enabled || asked != 3 || len(got.HotKeys) != 3 {
		t.Fatalf("asked for %d, got %+v", asked, got)
	}
	first := got.HotKeys[0]
	if first.Rule == nil || *first.Rule != "by-key" || !strings.HasPrefix(first.Key, "apikey:sha256:") || first.State != "leased" || first.Since == nil || first.Rate != 4200 {
		t.Errorf("got %+v", first)
	}
	if second := got.HotKeys[1]; second.Rule != nil || second.Key != "key:mine" || second.Hot || second.Since != nil || second.State != "exact" {
		t.Errorf("got %+v", second)
	}
	if third := got.HotKeys[2]; third.Rule != nil {
		t.Errorf("a rule that is not in force was named: %+v", third)
	}
	f.do(http.MethodGet, "/ratelimit/hot?page_size=0", "").want(http.StatusUnprocessableEntity)
}

func TestHot_SwitchedOffSaysSo(t *testing.T) {
	var got hotPage
	newFixture(t, nil).do(http.MethodGet, "/ratelimit/hot", "").want(http.StatusOK).decode(&got)
	if got.Enabled || got.HotKeys == nil || len(got.HotKeys) != 0 {
		t.Errorf("got %+v", got)
	}
}
