package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
)

const batchPath = checkPath + "/batch"

// fill takes every place for large batches and returns what gives them back.
func (f *fixture) fill() (empty func()) {
	for range cap(f.server.places) {
		f.server.places <- struct{}{}
	}
	return func() {
		for range cap(f.server.places) {
			<-f.server.places
		}
	}
}

// checksOf is a batch of n equal checks.
func checksOf(n int, check string) string {
	return `{"checks":[` + strings.Repeat(check+",", n-1) + check + `]}`
}

// heavy are seven rules, so that 300 checks of a user have 2,100 limits.
func heavy() []rules.Rule {
	rs := make([]rules.Rule, 7)
	for i := range rs {
		rs[i] = perUser(fmt.Sprint("r", i), 100_000)
	}
	return rs
}

func TestLargeBatches_HaveAsManyPlacesAsProcessors(t *testing.T) {
	var refused atomic.Int64
	f := newFixture(t, heavy(), func(_ *decide.CheckerOptions, d *Deps) {
		d.LargeRefused = func() { refused.Add(1) }
	})
	if got, want := cap(f.server.places), runtime.GOMAXPROCS(0); got != want {
		t.Errorf("%d places, want %d", got, want)
	}
	large := checksOf(1000, `{"key":"k","limit":100000,"window_ms":60000,"algorithm":"fixed_window"}`)
	if len(large) <= maxBody {
		t.Fatalf("a batch of %d bytes is not large", len(large))
	}
	for name, tt := range map[string]struct {
		body string
		ok   bool
	}{
		"more than 64 KiB":         {large, false},
		"more than 2,000 limits":   {checksOf(300, `{"user":"a"}`), false},
		"few limits in few bytes":  {checksOf(200, `{"user":"a"}`), true},
		"too large for any place":  {strings.Repeat(" ", maxLargeBody+1), false},
		"large and not valid JSON": {strings.Repeat(" ", maxBody) + "{", false},
	} {
		t.Run(name, func(t *testing.T) {
			before, counted := len(f.store.asks), refused.Load()
			empty := f.fill()
			got := f.do(http.MethodPost, batchPath, tt.body)
			empty()
			charged := len(f.store.asks) - before
			switch {
			case tt.ok:
				got.want(http.StatusOK)
				if refused.Load() != counted {
					t.Error("a small batch was counted as refused")
				}
				return
			case name == "too large for any place":
				got.want(http.StatusRequestEntityTooLarge)
			default:
				got.want(http.StatusServiceUnavailable)
				if !strings.Contains(got.body, `"/problems/overloaded"`) || got.header.Get("Retry-After") != "1" {
					t.Errorf("got %s with Retry-After %q", got.body, got.header.Get("Retry-After"))
				}
				if refused.Load() != counted+1 {
					t.Errorf("%d refusals counted, want 1", refused.Load()-counted)
				}
			}
			if charged != 0 {
				t.Errorf("%d checks were put to the store", charged)
			}
		})
	}
	for range 3 * cap(f.server.places) { // each gives its place back, also one that is invalid
		f.post(batchPath, large)
		f.post(batchPath, checksOf(300, `{"user":"a"}`))
		f.do(http.MethodPost, batchPath, strings.Repeat(" ", maxBody)+"{").want(http.StatusBadRequest)
	}
}

// A body of unknown length needs a place before it is read, however short it turns out to be.
func TestLargeBatches_UnknownLengthNeedsAPlace(t *testing.T) {
	f := newFixture(t, nil)
	server := httptest.NewServer(f.echo)
	defer server.Close()
	send := func() (int, string) {
		body := io.MultiReader(strings.NewReader(checksOf(2, sharedCheck))) // net/http cannot tell its length
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+batchPath, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = f.host
		req.Header.Set("Content-Type", "application/json")
		res, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	empty := f.fill()
	if status, doc := send(); status != http.StatusServiceUnavailable || !strings.Contains(doc, "/problems/overloaded") {
		t.Errorf("without a place it got %d %s", status, doc)
	}
	empty()
	if status, doc := send(); status != http.StatusOK {
		t.Errorf("with a place it got %d %s", status, doc)
	}
	if n := len(f.store.asks); n != 2 {
		t.Errorf("%d checks were put to the store, want 2", n)
	}
}

const sharedCheck = `{"key":"k","limit":100,"window_ms":60000,"algorithm":"fixed_window"}`

// stopped is a store that begins a batch only when its caller has left.
type stopped struct{ limiter.Store }

func (s stopped) DoAll(ctx context.Context, calls []limiter.Call) {
	bounded, _ := ctx.(limiter.Bounded)
	<-bounded.Bound().Canceled
	s.Store.DoAll(ctx, calls)
}

// The server's time to write ends the decision of a large batch: nobody is charged for what could not be answered.
func TestLargeBatches_TimeToWriteEndsThem(t *testing.T) {
	f := newFixture(t, heavy(), func(o *decide.CheckerOptions, d *Deps) {
		o.Store = stopped{o.Store}
		d.WriteTimeout = 2 * time.Millisecond
	})
	for name, body := range map[string]string{
		"more than 64 KiB":       checksOf(1000, sharedCheck),
		"more than 2,000 limits": checksOf(300, `{"user":"a"}`),
	} {
		got := f.do(http.MethodPost, batchPath, body)
		if got.status != http.StatusRequestTimeout || !strings.Contains(got.body, "in time") {
			t.Errorf("%s: got %d %s", name, got.status, got.body)
		}
	}
	for _, of := range []string{sharedCheck, `{"user":"a"}`} {
		if a := f.check(strings.TrimSuffix(of, "}") + `,"weight":0}`); *a.Remaining != *a.Limit {
			t.Errorf("%s: %d of %d remain", of, *a.Remaining, *a.Limit)
		}
	}
}
