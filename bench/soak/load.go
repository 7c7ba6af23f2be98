package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// startLoad sends requests at a steady rate, independent of the answers, until ctx ends. It
// finishes requests that are under way then.
func startLoad(ctx context.Context, s *settings, f *fleet, book *ledger) *sync.WaitGroup {
	var wg sync.WaitGroup
	// The server closes a connection that has sent nothing for two seconds. Closing it earlier
	// here prevents failed requests.
	transport := &http.Transport{MaxIdleConnsPerHost: s.clients, IdleConnTimeout: time.Second,
		DialContext: (&net.Dialer{Timeout: time.Second}).DialContext}
	gap := time.Second * time.Duration(s.clients) / time.Duration(s.rate)
	begin := time.Now()
	for i := range s.clients {
		c := &client{
			name: fmt.Sprintf("%x-%d", s.seed, i), s: s, f: f, book: book,
			http: &http.Client{Transport: transport, Timeout: 3 * time.Second},
			rand: rand.New(rand.NewPCG(s.seed, uint64(i))), //nolint:gosec // load that can be repeated, no secret
		}
		wg.Go(func() {
			due := begin.Add(gap * time.Duration(i) / time.Duration(s.clients))
			for ctx.Err() == nil {
				if late := time.Since(due); late > time.Second {
					due = due.Add(late) // missed requests are not made up for
				}
				wait(ctx, time.Until(due))
				if ctx.Err() == nil {
					c.one(context.WithoutCancel(ctx))
				}
				due = due.Add(gap)
			}
		})
	}
	return &wg
}

// client sends one request after another.
type client struct {
	name string
	n    int
	s    *settings
	f    *fleet
	book *ledger
	http *http.Client
	rand *rand.Rand
}

// one sends a request until it is answered or must not be repeated.
func (c *client) one(ctx context.Context) {
	c.n++
	h := heard{class: c.rand.IntN(len(classes)), user: c.rand.IntN(c.s.users), weight: 1 + c.rand.Int64N(3)}
	cl := &classes[h.class]
	if cl.ids {
		h.id = fmt.Sprintf("%s-%d", c.name, c.n)
	}
	body := cl.question(fmt.Sprintf("u%d", h.user), h.weight, c.s.limit, h.id)
	h.at = time.Now()
	var lease string
	var avoid *node
	for range 40 { // far more than two restarting nodes require
		n := c.f.next(avoid)
		p := n.now.Load()
		reply, err := c.ask(ctx, n.addr, body)
		if err == nil {
			h.answered, h.allowed, h.replayed = true, reply.Allowed, reply.Replayed
			if reply.Degraded != nil {
				h.degraded = *reply.Degraded
			}
			lease = reply.Lease
			break
		}
		avoid = n
		if refused(err) {
			// It was never sent, so a balancer tries the next node.
			n.inTurn.Store(false)
			wait(ctx, 10*time.Millisecond)
			continue
		}
		h.lost++
		if p.killed.Load() {
			c.book.excuse()
		} else {
			c.book.fail(err.Error())
		}
		if h.id == "" {
			break // a repeat could spend twice
		}
	}
	h.took = time.Since(h.at)
	switch {
	case h.answered:
	case h.lost == 0:
		c.book.fail("no node took the connection")
	case h.id != "":
		c.book.fail("a named request was repeated and still not answered")
	}
	c.book.note(h)
	if lease != "" {
		c.release(ctx, lease)
	}
}

// reply is the part of an answer that a client reads.
type reply struct {
	Allowed  bool    `json:"allowed"`
	Degraded *string `json:"degraded"`
	Replayed bool    `json:"replayed"`
	Lease    string  `json:"lease"`
}

func (c *client) ask(ctx context.Context, addr, body string) (*reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/ratelimit/check",
		strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.GetBody = nil // net/http must not repeat it
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("a check answered %d: %.200s", res.StatusCode, b)
	}
	var r reply
	return &r, json.Unmarshal(b, &r)
}

// release releases a lease. One that cannot be released expires.
func (c *client) release(ctx context.Context, lease string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, _, _ = send(ctx, http.MethodPost, "http://"+c.f.next(nil).addr+"/ratelimit/release",
		fmt.Sprintf(`{"lease":%q}`, lease))
}

// refused reports whether the connection was refused.
func refused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
