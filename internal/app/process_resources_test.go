package app

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// noDescriptors opens idle connections until the process has no descriptor left.
func noDescriptors(t *testing.T, bin string) {
	c := spawn(t, bin, "ulimit -n 48")
	if limit := c.metric("process_max_fds"); limit != 48 {
		t.Errorf("the metrics show %v descriptors", limit)
	}
	c.check(plenty) // its connection stays open and in use
	var idle []net.Conn
	closeIdle := func() {
		for _, conn := range idle {
			conn.Close()
		}
		idle = nil
	}
	defer closeIdle()
	eventually(t, "the log says that new connections wait", func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(c.url, "http://"))
		if err == nil {
			// After a request it may stay idle for longer than before one.
			_, err = conn.Write([]byte("GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))
			idle = append(idle, conn)
		}
		if err != nil {
			t.Error(err)
		}
		return strings.Contains(c.log.String(), "new ones wait until others close")
	})
	for range 20 {
		if doc := c.check(plenty); !strings.HasPrefix(doc, `{"allowed":true`) {
			t.Errorf("a connection that was there before got %s", doc)
		}
	}
	closeIdle()
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	eventually(t, "new connections are served again", func() bool {
		status, _, err := requestOnce(t.Context(), fresh, "GET", c.url+"/readyz", "")
		return err == nil && status == http.StatusOK
	})
}

// fewDescriptors opens more connections than the process has descriptors, again and again. They wait, and all are
// served.
func fewDescriptors(t *testing.T, bin string) {
	for _, loop := range []string{"on", "off"} {
		c := spawn(t, bin, "ulimit -n 64", "SLUICE_LOOP="+loop)
		addr := strings.TrimPrefix(c.url, "http://")
		check := strings.Replace(plainCheck(plenty), "Host: x", "Host: localhost", 1)
		other := "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
		var clients sync.WaitGroup
		for i := range 100 {
			clients.Go(func() {
				for k := range 10 {
					conn := connect(t, addr, [...]string{check, other}[(i+k)%2])
					res, err := http.ReadResponse(bufio.NewReader(conn), nil)
					if err != nil {
						t.Errorf("loop %s: %v", loop, err)
						return
					}
					res.Body.Close()
					conn.Close()
				}
			})
		}
		clients.Wait()
		if strings.Contains(c.log.String(), "too many open files") {
			t.Errorf("loop %s: nothing is kept free", loop)
		}
	}
}

// floodOfKeys sends far more keys than the process may keep.
func floodOfKeys(t *testing.T, bin string) {
	const keep, flood, batch = 20_000, 200_000, 1000
	c := spawn(t, bin, "", "GOMEMLIMIT=64MiB", fmt.Sprintf("SLUICE_MAX_KEYS=%d", keep))
	for from := 0; from < flood; from += batch {
		checks := make([]string, batch)
		for i := range checks {
			checks[i] = fmt.Sprintf(`{"key":"flood-%032d","limit":5,"window_ms":3600000,"algorithm":"sliding_window_log"}`,
				from+i)
		}
		status, doc, err := c.ask("POST", "/ratelimit/check/batch", `{"checks":[`+strings.Join(checks, ",")+`]}`)
		if err != nil || status != http.StatusOK {
			t.Fatalf("a batch answered %d %.200s %v", status, doc, err)
		}
	}
	if keys := c.metric("sluice_memory_keys"); keys > keep {
		t.Errorf("%v keys kept, want at most %d", keys, keep)
	}
	if evicted := c.metric("sluice_memory_evictions_total"); evicted < flood-2*keep {
		t.Errorf("only %v evictions counted", evicted)
	}
	// The program itself and what the runtime does not count come on top.
	if mib := c.resident(); mib > 128 {
		t.Errorf("%d MiB resident under GOMEMLIMIT=64MiB", mib)
	} else {
		t.Logf("%d MiB resident", mib)
	}
}
