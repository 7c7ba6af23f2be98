package gateway

import (
	"net/http"
	"slices"
	"testing"
)

// The first question that a profile reads is reported once, and again after an edit. A question without proof, or that
// cannot be read, is none.
func TestFaces_ReportTheFirstQuestionOfAProfile(t *testing.T) {
	p := shop()
	f := newFixture(t, perUser(1), p)
	var used []string
	f.handler.deps.Used = func(name string) { used = append(used, name) }
	for _, header := range [][]string{{"Sluice-Token", ""}, {"X-Forwarded-For", ""}} {
		if a := f.forwarded("forward", "GET", "/", header...); a.status == http.StatusOK || len(used) > 0 {
			t.Errorf("%v: got %d, reported %q", header, a.status, used)
		}
	}
	for range 3 { // allowed once, then denied
		f.forwarded("forward", "GET", "/", "X-User", "1")
	}
	f.ask("GET", "/ratelimit/ext_authz/shop/", "X-Forwarded-For", "203.0.113.7")
	if !slices.Equal(used, []string{"shop"}) {
		t.Errorf("reported %q", used)
	}
	p.Version = 2
	f.load(2, perUser(1), p)
	f.forwarded("nginx", "OPTIONS", "/")
	if !slices.Equal(used, []string{"shop", "shop"}) {
		t.Errorf("after an edit: reported %q", used)
	}
}
