package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/rules"
	"sluice/rules/match"
)

// A caller leaves while the first check of a batch is evaluated: the others are
// not, and nothing is spent.
func TestBatch_EndsWhenItsCallerLeaves(t *testing.T) {
	for name, when := range map[string]string{"a pattern": `user matches "^a"`, "no pattern": `user != ""`} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			var evaluated atomic.Int64
			evaluating, ended := make(chan struct{}), make(chan struct{})
			var request context.Context
			r := rules.Rule{ID: 1, Name: "costly", Scope: "user", Limit: 5, WindowMS: 1000, When: &when, IsActive: true}
			set, err := match.Compile([]rules.Rule{r}, 1, match.Options{Now: time.Now, ConditionTook: func(time.Duration) {
				if evaluated.Add(1) == 1 {
					close(evaluating)
					<-request.Done()
					_ = context.Cause(request) // waits until the contexts below it have ended too
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			f.sets.Store(set)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(ended)
				request = r.Context()
				f.echo.ServeHTTP(w, r)
			}))
			defer server.Close()

			ctx, leave := context.WithCancel(t.Context())
			body := `{"checks":[` + strings.Repeat(`{"user":"ada"},`, maxBatch-1) + `{"user":"ada"}]}`
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/ratelimit/check/batch",
				strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = f.host
			req.Header.Set("Content-Type", "application/json")
			go func() {
				select {
				case <-evaluating:
				case <-ended: // refused, or the condition was not evaluated
				}
				leave()
			}()
			if res, err := http.DefaultTransport.RoundTrip(req); err == nil {
				res.Body.Close()
				t.Fatalf("answered %d", res.StatusCode)
			}
			<-ended
			if n := evaluated.Load(); n != 1 {
				t.Errorf("%d checks were evaluated after the caller had left", n-1)
			}
			if n := len(f.store.asks); n != 0 {
				t.Errorf("%d checks were put to the store", n)
			}
		})
	}
}
