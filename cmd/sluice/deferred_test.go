package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/deferred/runner"
)

// receiver is where deferred requests belong.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	got     []string
	tickets map[string]int
	// refuse is how many requests are still answered 500.
	refuse int
	// hold, if not nil, keeps each request until it is closed; arrived hears of it.
	hold    chan struct{}
	arrived chan struct{}
}

func receive(t *testing.T) *receiver {
	r := &receiver{tickets: map[string]int{}, arrived: make(chan struct{}, 100)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.tickets[req.Header.Get(runner.HeaderTicket)]++
		r.got = append(r.got, string(body))
		refused := r.refuse > 0
		if refused {
			r.refuse--
		}
		hold := r.hold
		r.mu.Unlock()
		r.arrived <- struct{}{}
		if hold != nil {
			<-hold
		}
		if refused {
			http.Error(w, "not now", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(r.Close)
	return r
}

// set changes how the receiver behaves.
func (r *receiver) set(change func(*receiver)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

// heard gives what has arrived so far, and how often each ticket has.
func (r *receiver) heard() (got []string, tickets map[string]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got), maps.Clone(r.tickets)
}

// deferRequests starts a server with a rule of one a tenth of a second and defers
// requests with the given payloads. The caller terminates it.
func deferRequests(t *testing.T, payloads ...string) *running {
	t.Helper()
	srv := launch(t, nil, serveArgs(dataDir(t))...)
	c := clientOf(t, srv.url)
	post := func(path string, doc map[string]any) map[string]any {
		t.Helper()
		raw, err := c.Post(t.Context(), path, doc)
		if err != nil {
			t.Fatal(err)
		}
		var out map[string]any
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	post("/ratelimit/rules", map[string]any{
		"name": "jobs", "scope": "global", "limit": 1, "window_ms": 100, "algorithm": "fixed_window", "over_limit": "defer",
	})
	for _, p := range payloads {
		for post("/ratelimit/check", map[string]any{"method": "POST", "payload": p})["status"] != float64(202) {
			continue // the window was fresh
		}
	}
	return srv
}

func depth(t *testing.T, url string) int64 {
	t.Helper()
	raw, err := clientOf(t, url).Do(t.Context(), http.MethodGet, "/ratelimit/deferred/jobs?max=0", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var st struct{ Depth int64 }
	if err := json.Unmarshal(raw, &st); err != nil {
		t.Fatal(err)
	}
	return st.Depth
}

func TestDeferredRun_DeliversInOrderAndEndsWithTheQueue(t *testing.T) {
	payloads := []string{"first", "{\"to\":\"ann\"}\r\n\x00\x1b[31m", ""}
	srv, r := deferRequests(t, payloads...), receive(t)
	defer srv.terminate()
	url := srv.url
	code, out, errs := sluice(t, "", "deferred", "run", "--server="+url, "--rule=jobs", "--to="+r.URL, "--once")
	if code != exitDone || !strings.Contains(out, "delivered 3, failed attempts 0, unacknowledged 0") {
		t.Errorf("exits %d: %s%s", code, out, errs)
	}
	if got, tickets := r.heard(); !slices.Equal(got, payloads) || len(tickets) != 3 {
		t.Errorf("got %q with tickets %v", got, tickets)
	}
	if n := depth(t, url); n != 0 {
		t.Errorf("%d left", n)
	}
}

func TestDeferredRun_WhatIsRefusedComesBackAndIsNeverLogged(t *testing.T) {
	srv, r := deferRequests(t, "very secret payload"), receive(t)
	defer srv.terminate()
	url := srv.url
	r.set(func(r *receiver) { r.refuse = 1 })
	code, out, errs := sluice(t, "", "deferred", "run", "--server="+url, "--rule=jobs", "--to="+r.URL, "--once",
		"--hold=1s", "--timeout=500ms")
	if code != exitDone || !strings.Contains(out, "delivered 1, failed attempts 1") {
		t.Errorf("exits %d: %s%s", code, out, errs)
	}
	if got, tickets := r.heard(); len(got) != 2 || len(tickets) != 1 {
		t.Errorf("got %q with tickets %v", got, tickets)
	}
	if strings.Contains(errs+out, "secret payload") || !strings.Contains(errs, "delivering a deferred request failed") {
		t.Errorf("log: %s", errs)
	}
}

func TestDeferredRun_OnSIGTERMFinishesWhatIsUnderWay(t *testing.T) {
	srv, r := deferRequests(t, "a", "b"), receive(t)
	defer srv.terminate()
	url := srv.url
	hold := make(chan struct{})
	r.set(func(r *receiver) { r.hold = hold })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "deferred", "run", "--server="+url, "--rule=jobs", "--to="+r.URL,
		"--max=1")
	cmd.Env = append(os.Environ(), asSluice+"=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.arrived:
	case <-ctx.Done():
		t.Fatal("nothing was delivered")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	close(hold)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("ended with %v: %s", err, &out)
	}
	// The signal may have come to be heard only after the first was done.
	got, tickets := r.heard()
	if n := depth(t, url) + int64(len(got)); n != 2 || len(tickets) != len(got) {
		t.Errorf("%d waiting or delivered, want 2; tickets %v: %s", n, tickets, &out)
	}
}

func TestDeferredRun_TwoRunnersDeliverEachRequestOnce(t *testing.T) {
	var payloads []string
	for i := range 8 {
		payloads = append(payloads, fmt.Sprint("job ", i))
	}
	srv, r := deferRequests(t, payloads...), receive(t)
	defer srv.terminate()
	url := srv.url
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if code, out, errs := sluice(t, "", "deferred", "run", "--server="+url, "--rule=jobs", "--to="+r.URL,
				"--once"); code != exitDone {
				t.Errorf("exits %d: %s%s", code, out, errs)
			}
		})
	}
	wg.Wait()
	got, _ := r.heard()
	slices.Sort(got)
	if !slices.Equal(got, payloads) {
		t.Errorf("got %q", got)
	}
}

func TestDeferredRun_RefusesWhatCannotWork(t *testing.T) {
	srv := deferRequests(t)
	defer srv.terminate()
	url := srv.url
	if _, err := clientOf(t, url).Post(t.Context(), "/ratelimit/rules",
		map[string]any{"name": "plain", "scope": "user", "limit": 1, "window_ms": 1000}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ want, arg string }{
		{"--to", "--to=nowhere"}, {"--max", "--max=101"}, {"--hold", "--hold=2h"}, {"--timeout", "--timeout=29s"},
		{"404", "--rule=other"},
		{"over_limit", "--rule=plain"},
	} {
		args := []string{"deferred", "run", "--server=" + url, "--rule=jobs", "--to=http://127.0.0.1:1", tt.arg}
		if code, _, errs := sluice(t, "", args...); code != exitError || !strings.Contains(errs, tt.want) {
			t.Errorf("%s exits %d with %q; want 2, naming %s", tt.arg, code, errs, tt.want)
		}
	}
}
