package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	stormChecks  = 1_000_000
	stormBatch   = 1000
	stormUsers   = 100
	stormLimit   = 3000 // of each user
	stormCallers = 4
	stormHogs    = 2
	// stormTime bounds the duration of the storm and of the hogs.
	stormTime = 2 * time.Minute
)

// measureEmbedded sends a storm of batches to a node that counts in memory, while two hogs run. The node needs no other
// server, so exactly the limit passes.
func measureEmbedded(ctx context.Context, b *bench) error {
	const name = "embedded, storm in batches beside 2 hogs"
	progress(name)
	ctx, cancel := context.WithTimeout(ctx, stormTime)
	defer cancel()
	n, err := b.embedded(ctx, fmt.Sprintf(`{"name":"per-user","scope":"user","limit":%d,"window_ms":86400000,`+
		`"algorithm":"fixed_window","align":"first_hit"}`, stormLimit))
	if err != nil {
		return err
	}
	defer n.stop()
	end, err := startHogs(ctx, n.dir, stormHogs, stormTime)
	if err != nil {
		return err
	}
	allowed, t, err := storm(ctx, n)
	if err := errors.Join(err, end()); err != nil {
		return err
	}
	counted, err := n.counters(ctx)
	if err != nil {
		return err
	}
	b.rows = append(b.rows, row{name: name, measured: measured{t, counted},
		note: fmt.Sprintf("%d passed, latencies of batches of %d", allowed, stormBatch), goals: []goal{
			atLeast("checks", float64(t.answered()), stormChecks),
			atMost("passed", float64(allowed), stormUsers*stormLimit),
			atLeast("passed", float64(allowed), stormUsers*stormLimit),
		}})
	return nil
}

// storm sends all batches and returns how many checks were allowed.
func storm(ctx context.Context, n *node) (allowed int, t *tally, err error) {
	checks := make([]string, stormBatch)
	for i := range checks {
		checks[i] = fmt.Sprintf(`{"user":"u%d"}`, i%stormUsers)
	}
	body := `{"checks":[` + strings.Join(checks, ",") + `]}`
	t = &tally{begin: time.Now()}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: stormCallers}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for range stormCallers {
		wg.Go(func() {
			for range stormChecks / stormBatch / stormCallers {
				sent := time.Now()
				answer, err := batch(ctx, client, n.Addr, body)
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
				}
				allowed += t.addBatch(answer, time.Since(sent))
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	t.length = time.Since(t.begin)
	t.during = t.verdicts[decided]
	return allowed, t, errors.Join(errs...)
}

// batch sends a batch until it has a place.
func batch(ctx context.Context, client *http.Client, addr, body string) ([]byte, error) {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/ratelimit/check/batch",
			strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		answer, err := io.ReadAll(res.Body)
		res.Body.Close()
		switch {
		case err != nil:
			return nil, err
		case res.StatusCode == http.StatusOK:
			return answer, nil
		case res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "":
			return nil, fmt.Errorf("a batch was answered %d: %.500s", res.StatusCode, answer)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// addBatch counts the results of a batch and returns how many were allowed. Only a result begins with allowed: the
// limits in it begin with their rule.
func (t *tally) addBatch(results []byte, took time.Duration) (allowed int) {
	if len(results) > 0 {
		t.took = append(t.took, took)
	}
	results = bytes.TrimPrefix(results, []byte(`{"results":[`))
	for len(results) > 0 {
		end := bytes.Index(results[1:], []byte(`{"allowed":`)) + 1
		if end == 0 {
			end = len(results)
		}
		var a answer
		judge(&a, results[:end])
		results = results[end:]
		t.sent++
		t.verdicts[a.verdict]++
		if a.allowed {
			allowed++
		}
	}
	return allowed
}
