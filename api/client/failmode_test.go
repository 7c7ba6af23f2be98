package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errDead = errors.New("connection refused")

func dead(fakeCall) *failure { return &failure{err: errDead} }

func TestFailMode_DecidesWhileTheServiceIsUnavailable(t *testing.T) {
	status := func(n int, body string) func(fakeCall) *failure {
		return func(fakeCall) *failure { return &failure{status: n, body: body} }
	}
	silent := map[string]func(fakeCall) *failure{
		"connection": dead,
		"500":        status(500, `{"type":"/problems/internal","title":"Internal error","status":500}`),
		"503":        status(503, `{"type":"/problems/not-ready","title":"Node not ready","status":503}`),
		"502 page":   status(502, "<html>"),
		"overload":   status(429, ""),
	}
	unreadable := map[string]func(fakeCall) *failure{
		"no JSON":        status(200, "<html>welcome</html>"),
		"cut short":      status(200, `{"allowed":true,"status":200,"lim`),
		"no answer":      status(200, `{"status":"ok"}`),
		"empty":          status(200, `{}`),
		"null":           status(200, "null"),
		"list":           status(200, "[]"),
		"no body":        status(200, ""),
		"204":            status(204, ""),
		"no status":      status(200, `{"allowed":false,"status":0}`),
		"no allowed":     status(200, `{"status":200}`),
		"word":           status(200, `{"allowed":"yes","status":200}`),
		"wrong figure":   status(200, `{"allowed":true,"status":200,"remaining":"1"}`),
		"wrong limit":    status(200, `{"allowed":true,"status":200,"limits":[1]}`),
		"redirect":       status(302, ""),
		"redirect, JSON": status(307, `{"type":"/problems/x","title":"X","status":307}`),
		"huge":           func(fakeCall) *failure { return &failure{status: 200, body: "{}", size: maxAnswer + 1} },
		"header name":    status(200, `{"allowed":true,"status":200,"headers":{"X: y":"a"}}`),
		"no header name": status(200, `{"allowed":true,"status":200,"headers":{"":"a"}}`),
		"header value":   status(200, `{"allowed":true,"status":200,"headers":{"X":"a\r\nSet-Cookie: b"}}`),
	}
	causes := maps.Clone(silent)
	maps.Copy(causes, unreadable)
	local := &LocalLimit{Limit: 1, Window: time.Hour}
	for name, fail := range causes {
		for _, mode := range []string{"", FailOpen, FailClosed, FailLocal} {
			t.Run(name+" "+mode, func(t *testing.T) {
				var told []error
				var log bytes.Buffer
				c, f := newFake(t, Options{FailMode: mode, LocalLimit: local, Log: slog.New(slog.NewTextHandler(&log, nil)),
					OnDegraded: func(err error) { told = append(told, err) }})
				f.set(nil, fail)
				first, err := c.Check(t.Context(), direct("k"))
				if err != nil {
					t.Fatal(err)
				}
				second, err := c.Reserve(t.Context(), direct("k"), 0)
				if err != nil {
					t.Fatal(err)
				}
				want := map[string][2]int{"": {200, 200}, FailOpen: {200, 200}, FailClosed: {503, 503}, FailLocal: {200, 429}}[mode]
				for i, a := range []*Answer{first, second} {
					degraded := mode
					if mode == "" {
						degraded = FailOpen
					}
					if a.Status != want[i] || a.Allowed != (a.Status == 200) || a.Degraded != degraded || !a.ByClient {
						t.Errorf("answer %d: %+v, want status %d", i, a, want[i])
					}
					if !a.Allowed && (a.Headers["Retry-After"] == "" || !json.Valid(a.Body) ||
						!strings.Contains(string(a.Body), "violated-policies")) {
						t.Errorf("a denial without its headers or body: %v %s", a.Headers, a.Body)
					}
				}
				if len(told) != 2 || told[0] == nil {
					t.Errorf("told %v", told)
				}
				said := 0
				if unreadable[name] != nil {
					said = 1
				}
				if got := strings.Count(log.String(), "cannot read"); got != said {
					t.Errorf("said %d times that an answer is not readable, want %d: %s", got, said, &log)
				}
			})
		}
	}
}

func TestFailMode_DecidesBatchesThatLackAnswers(t *testing.T) {
	const fine = `{"allowed":true,"status":200}`
	for _, results := range []string{"null,null", "{},{}", fine, fine + `,{"allowed":true}`, fine + `,{"status":200}`,
		fine + `,{"allowed":"yes","status":200}`} {
		c, f := newFake(t, Options{FailMode: FailClosed})
		f.set(nil, func(fakeCall) *failure { return &failure{status: 200, body: `{"results":[` + results + `]}`} })
		answers, err := c.Batch(t.Context(), []Check{direct("a"), direct("b")})
		if err != nil || len(answers) != 2 || answers[0].Status != 503 || answers[1].Status != 503 {
			t.Errorf("%s: got %+v, %v", results, answers, err)
		}
	}
}

func TestFailMode_FrozenServiceCostsTheTimeoutAndThenNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newFake(t, Options{})
		f.set(make(chan struct{}), nil)
		begin := time.Now()
		for range 1000 {
			a, err := c.Check(t.Context(), direct("k"))
			if err != nil || !a.Allowed || a.Degraded != FailOpen {
				t.Fatalf("got %+v, %v", a, err)
			}
		}
		if got, want := time.Since(begin), failuresToOpen*defaultTimeout; got != want {
			t.Errorf("1000 checks of a frozen service took %v, want %v", got, want)
		}
		if n := len(f.seen()); n != failuresToOpen {
			t.Errorf("%d calls were made, want %d", n, failuresToOpen)
		}
	})
}

func TestBreaker_ProbesOneAtATimeAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newFake(t, Options{})
		check := func() *Answer {
			a, err := c.Check(t.Context(), direct("k"))
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		f.set(nil, dead)
		for range failuresToOpen {
			check()
		}
		made := len(f.seen())
		check()
		if len(f.seen()) != made {
			t.Fatal("an open breaker let a call through")
		}
		// The pauses grow to the longest; each ends with one probe.
		for _, ms := range []int{100, 200, 400, 800, 1000, 1000} {
			pause := time.Duration(ms) * time.Millisecond
			<-time.After(pause - 1)
			check()
			if len(f.seen()) != made {
				t.Fatalf("a probe before the pause of %v was over", pause)
			}
			<-time.After(1)
			check()
			check()
			if made++; len(f.seen()) != made {
				t.Fatalf("%d calls after the pause of %v, want one", len(f.seen())-made+1, pause)
			}
		}
		// While a probe is in flight, nothing else is.
		<-time.After(time.Second)
		gate := make(chan struct{})
		f.set(gate, nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			if a := check(); a.Degraded != "" {
				t.Errorf("the probe got %+v", a)
			}
		})
		synctest.Wait()
		if a := check(); a.Degraded != FailOpen {
			t.Errorf("beside a probe: %+v", a)
		}
		close(gate)
		wg.Wait()
		f.set(nil, nil)
		if a := check(); a.Degraded != "" {
			t.Errorf("after the service recovered: %+v", a)
		}
	})
}

// A probe whose caller leaves says nothing about the service, and makes room for the next.
func TestBreaker_ProbeOfACallerThatLeavesIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newFake(t, Options{})
		f.set(nil, dead)
		for range failuresToOpen {
			if _, err := c.Check(t.Context(), direct("k")); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(firstPause)
		f.set(make(chan struct{}), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := c.Check(ctx, direct("k")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		f.set(nil, nil)
		if a, err := c.Check(t.Context(), direct("k")); err != nil || a.Degraded != "" {
			t.Errorf("got %+v, %v", a, err)
		}
	})
}

func TestCheck_WrongRequestIsAnErrorAndNoOutage(t *testing.T) {
	c, f := newFake(t, Options{FailMode: FailClosed})
	for _, status := range []int{400, 401, 403, 404, 413, 415, 422} {
		f.set(nil, func(fakeCall) *failure {
			return &failure{status: status, body: `{"type":"/problems/x","title":"X","status":1}`}
		})
		for range failuresToOpen + 1 {
			var p *Problem
			if _, err := c.Check(t.Context(), direct("k")); !errors.As(err, &p) || p.Status != status || Unavailable(err) {
				t.Errorf("status %d: %v", status, err)
			}
		}
	}
}

func TestOperations_HaveNoFailMode(t *testing.T) {
	c, f := newFake(t, Options{})
	f.set(nil, func(fakeCall) *failure {
		return &failure{status: 503, body: `{"type":"/problems/store-unavailable","title":"No counters","status":503}`}
	})
	for range failuresToOpen + 1 {
		var p *Problem
		if _, err := c.Charge(t.Context(), direct("k")); !Unavailable(err) || !errors.As(err, &p) ||
			p.Type != "/problems/store-unavailable" {
			t.Errorf("got %v", err)
		}
	}
	f.set(nil, nil)
	if a, err := c.Check(t.Context(), direct("k")); err != nil || a.Degraded != "" {
		t.Errorf("charges without counters opened the breaker: %+v, %v", a, err)
	}
}

func TestLocalLimit_IsExactForEachKeyAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newFake(t, Options{FailMode: FailLocal,
			LocalLimit: &LocalLimit{Limit: 10, Window: time.Second, MaxKeys: 3}})
		f.set(nil, dead)
		admitted := func(q Check, n int) int {
			var mu sync.Mutex
			var wg sync.WaitGroup
			count := 0
			for range n {
				wg.Go(func() {
					a, err := c.Check(t.Context(), q)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					if a.Allowed {
						count++
					}
				})
			}
			wg.Wait()
			return count
		}
		for _, q := range []Check{{User: "a"}, {User: "b", IP: "::1"}, {Key: "a", Limit: &Limit{Count: 1, WindowMS: 1}}} {
			if got := admitted(q, 50); got != 10 {
				t.Errorf("%+v: %d of 50 admitted, want 10", q, got)
			}
		}
		// All buckets are in use: further keys share one.
		if got := admitted(Check{User: "c"}, 6) + admitted(Check{User: "d"}, 50); got != 10 {
			t.Errorf("%d admitted beyond MaxKeys, want 10", got)
		}
		<-time.After(300 * time.Millisecond)
		if got := admitted(Check{User: "a"}, 50); got != 3 {
			t.Errorf("%d admitted after 300 ms, want 3", got)
		}
		<-time.After(time.Second)
		if got := admitted(Check{User: "e"}, 50); got != 10 {
			t.Errorf("%d admitted for a new key when the old ones are unused, want 10", got)
		}
		if n := len(c.local.buckets); n > 3 {
			t.Errorf("%d buckets, want at most 3", n)
		}
		if a, err := c.Check(t.Context(), Check{User: "z", Weight: new(int64(11))}); err != nil || a.Allowed ||
			*a.RetryAfterMS != -1 || a.Headers["Retry-After"] != "" {
			t.Errorf("a weight above the limit: %+v, %v", a, err)
		}
		if a, err := c.Check(t.Context(), Check{User: "e", Weight: new(int64(-5))}); err != nil || *a.Remaining != 0 {
			t.Errorf("a negative weight gave back: %+v, %v", a, err)
		}
	})
}
