package app

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// slowClients has many clients misbehave at once while a good one is served.
func slowClients(t *testing.T, bin string) {
	c := spawn(t, bin, "")
	c.check(plenty)
	before := c.resident()
	addr := strings.TrimPrefix(c.url, "http://")
	head := "POST /ratelimit/check HTTP/1.1\r\nHost: " + addr + "\r\nContent-Type: application/json\r\n"
	bad := []struct {
		name, sent string
		breakOff   bool
		want       string // how the answer begins, if there is one; "" for none
	}{
		{"says nothing and leaves", "", true, ""}, // one that stays may do so for as long as between requests: see patient
		{"never ends its headers", head, false, ""},
		{"never ends its body", head + "Content-Length: 100\r\n\r\n{", false, "HTTP/1.1 408"},
		{"never ends the body of a charge", strings.Replace(head, "check", "charge", 1) + "Authorization: Bearer " +
			c.token + "\r\nContent-Length: 100\r\n\r\n{",
			false, "HTTP/1.1 408"},
		{"sends more headers than fit", head + strings.Repeat("X-Filler: "+strings.Repeat("x", 1000)+"\r\n", 40) + "\r\n",
			false, "HTTP/1.1 431"},
		{"announces a huge body", head + "Content-Length: 1000000000\r\n\r\n", false, "HTTP/1.1 413"},
		{"sends a huge body in chunks", head + "Transfer-Encoding: chunked\r\n\r\n20000\r\n" + strings.Repeat(" ", 0x20000) +
			"\r\n", false, "HTTP/1.1 413"},
		{"breaks off within its body", head + "Content-Length: 100\r\n\r\n{", true, ""},
	}
	const clients = 20 // of each kind
	var wg sync.WaitGroup
	told := make([]atomic.Int64, len(bad))
	for i, b := range bad {
		for range clients {
			wg.Go(func() {
				got, err := misbehave(t, addr, b.sent, b.breakOff)
				switch {
				case err != nil:
					t.Errorf("a client that %s: %v", b.name, err)
				case b.want != "" && strings.HasPrefix(got, b.want):
					told[i].Add(1)
				case got != "" && (b.want != "" || !strings.HasPrefix(got, "HTTP/1.1 408")):
					t.Errorf("a client that %s got %.60q, want %q", b.name, got, b.want)
				}
			})
		}
	}
	served := 0
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for waiting := true; waiting; served++ {
		c.check(plenty)
		select {
		case <-done:
			waiting = false
		default:
		}
	}
	for i, b := range bad {
		// An answer can be lost to the reset that follows it, but not most times.
		if n := told[i].Load(); b.want != "" && n < clients/2 {
			t.Errorf("%d of %d clients were told %s, of those of which each %s", n, clients, b.want, b.name)
		}
	}
	const budget = 64 // MiB that garbage may fill
	if after := c.resident(); after > before+64+budget {
		t.Errorf("%d MiB resident, %d before", after, before)
	}
	if n := c.metric("sluice_panics_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
	t.Logf("%d good requests served meanwhile", served)
}

// misbehave sends something that is no good request and reads until the server
// ends the connection, which it must do by itself within its time.
func misbehave(t *testing.T, addr, send string, breakOff bool) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return "", err
	}
	// The server may answer and close before everything was sent.
	_, _ = io.WriteString(conn, send)
	if breakOff {
		return "", nil
	}
	b, err := io.ReadAll(conn)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return "", fmt.Errorf("the server left the connection open; it said %.60q", b)
	}
	return string(b), nil // a reset after the answer is an end too
}
