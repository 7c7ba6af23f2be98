package app

import (
	"errors"
	"strings"
	"testing"

	"sluice/internal/config"
	"sluice/internal/testenv"
)

func TestRouteCase_FoldedRoutesShareABucket(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]config.Serve{"memory": settings(t), "redis": sharedSettings(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.RouteCase = config.CaseFold
			n := start(t, cfg)
			n.create(`{"name":"r","scope":"user+route","route":"/V1/*","method":"GET","limit":2,"window_ms":86400000}`)
			for i, step := range []struct {
				method, route string
				allowed       bool
			}{
				{"GET", "/v1/pay", true}, {"HEAD", "/V1/PAY", true}, {"GET", "/V1/pay", false}, {"HEAD", "/v1/pay", false},
				{"POST", "/v1/pay", true}, {"GET", "/v1/other", true},
			} {
				got := n.check(`{"user":"1","method":"` + step.method + `","route":"` + step.route + `"}`)
				if got["allowed"] != step.allowed {
					t.Errorf("step %d: got %v", i, got)
				}
			}
		})
	}
}

func TestAgreement_ANodeWithAnotherRouteCaseIsRefused(t *testing.T) {
	t.Parallel()
	url := testenv.Redis(t).URL()
	with := func(word string) error {
		a, _ := follower(t, url, func(cfg *config.Serve) { cfg.RouteCase = word })
		return a.compare(t.Context())
	}
	if err := with(config.CaseFold); err != nil {
		t.Fatalf("the first node: %v", err)
	}
	err := with(config.CaseKeep)
	if !errors.Is(err, errDiffers) || !strings.Contains(err.Error(), "--route-case (SLUICE_ROUTE_CASE) is") ||
		!strings.Contains(err.Error(), "HSET sl:settings route_case keep") {
		t.Errorf("another case: %v", err)
	}
}
