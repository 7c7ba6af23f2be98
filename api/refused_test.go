package api

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/api/decide"
	"sluice/api/plain"
	"sluice/internal/access"
)

// refusals are the reported refusals of a fixture.
type refusals struct {
	mu   sync.Mutex
	seen []string
}

func (r *refusals) refused(endpoint string, why *access.Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, fmt.Sprint(endpoint, " ", why.Reason, " ", why.Token.ID))
}

// take returns the refusals since the last call.
func (r *refusals) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen
	r.seen = nil
	return seen
}

// withRefusals is a fixture with every route, and its tokens: revoked, and one that may only read rules.
func withRefusals(t *testing.T) (f *fixture, r *refusals, revoked, reader string) {
	r = &refusals{}
	f = newFixture(t, nil, func(_ *decide.CheckerOptions, d *Deps) {
		d.Metrics, d.Refused = http.NotFoundHandler(), r.refused
	})
	past := time.UnixMilli(epoch - 1)
	revoked, old := newToken(f, nil, access.ScopeAdmin)
	old.ID, old.RevokedAt = 7, &past
	reader, young := newToken(f, nil, access.ScopeRulesRead)
	young.ID = 8
	f.access.Store(access.NewKeyring([]access.Token{old, young}))
	return f, r, revoked, reader
}

// TestRoutes_ReportEachRefusalOnce under an endpoint of the closed list.
func TestRoutes_ReportEachRefusalOnce(t *testing.T) {
	f, r, revoked, _ := withRefusals(t)
	for _, route := range Table() {
		f.do(route.Method, concrete(route.Path), "", "Authorization", "Bearer "+revoked)
		got, endpoint := r.take(), route.Endpoint()
		want := []string{endpoint + " revoked 7"}
		if route.Scope == "" {
			want = nil
		} else if !slices.Contains(Endpoints(), endpoint) {
			t.Errorf("%s: the endpoint %s is not in the list", route.Path, endpoint)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", route.Method, route.Path, diff)
		}
	}
	for _, name := range []string{"check", "check/batch", "regions/exchange", "rules", "rules/import", "metrics"} {
		if !slices.Contains(Endpoints(), name) {
			t.Errorf("the endpoints %q lack %s", Endpoints(), name)
		}
	}
}

// TestChecks_ReportRefusals also if they are read straight from the connection, one by one and together.
func TestChecks_ReportRefusals(t *testing.T) {
	f, r, revoked, reader := withRefusals(t)
	call := func(secret string) access.Call { return access.Call{Authorization: []string{"Bearer " + secret}} }
	for _, secret := range []string{revoked, reader, "slk_x"} {
		f.server.Check(t.Context(), call(secret), &net.TCPAddr{}, nil, []byte(`{"user":"a"}`), nil)
	}
	want := []string{"check revoked 7", "check scope 8", "check unknown 0"}
	if diff := cmp.Diff(want, r.take()); diff != "" {
		t.Errorf("one by one (-want +got):\n%s", diff)
	}
	asks := []plain.Ask{{Call: call(revoked)}, {Call: call(reader)}, {Call: call("slk_x")}}
	for i := range asks {
		asks[i].Client, asks[i].Body = &net.TCPAddr{}, []byte(`{"user":"a"}`)
	}
	f.server.CheckAll(t.Context(), asks)
	if diff := cmp.Diff(want, r.take()); diff != "" {
		t.Errorf("together (-want +got):\n%s", diff)
	}
}

// TestRefund_ReportsAScopeThatOnlyTheBodyAsksFor.
func TestRefund_ReportsAScopeThatOnlyTheBodyAsksFor(t *testing.T) {
	f, r, _, _ := withRefusals(t)
	secret, token := newToken(f, nil, access.ScopeCheck)
	token.ID = 9
	f.access.Store(access.NewKeyring([]access.Token{token}))
	a := f.do(http.MethodPost, refundPath, `{"user":"a","weight":1}`, "Authorization", "Bearer "+secret)
	a.want(http.StatusForbidden)
	if diff := cmp.Diff([]string{refundEndpoint + " scope 9"}, r.take()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	i := slices.IndexFunc(table, func(r Route) bool { return r.Path == refundPath })
	if got := table[i].Endpoint(); got != refundEndpoint {
		t.Errorf("the endpoint of refunds is %s", got)
	}
}
