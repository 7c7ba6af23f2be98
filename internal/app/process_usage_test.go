package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// killedStatements kills a node while charges and settlements of a meter run: once it is back and all is quiet, the
// statement is the sum of what was settled. Then it kills the node that leads statements: the other one takes over, and
// writes what only the killed node had noted.
func killedStatements(t *testing.T, bin string) {
	env := fleetEnv(t)
	b := newBalancer(t, spawn(t, bin, "", env...), spawn(t, bin, "", env...))
	asNode := func(i int) *node {
		c := b.nodes[i].Load()
		return &node{t: t, url: c.url, client: c.client, token: c.token}
	}
	asNode(0).create(`{"name": "meter", "scope": "user", "unlimited": true, "keep_periods": 2, "window_ms": 86400000,
		"algorithm": "fixed_window"}`)
	leader := -1
	leads := func() bool {
		for i := range b.nodes {
			if b.nodes[i].Load().metric("sluice_alerts_evaluating") == 1 {
				leader = i
				return true
			}
		}
		return false
	}
	for i := range b.nodes {
		eventually(t, "the meter counts", func() bool {
			limits, _ := asNode(i).check(`{"user": "probe", "weight": 0}`)["limits"].([]any)
			return len(limits) == 1
		})
	}
	eventually(t, "a node leads", leads)
	s := &settlements{b: b}
	s.run(200, func() {
		other := 1 - leader
		b.nodes[other].Load().kill()
		b.nodes[other].Store(spawn(t, bin, "", env...)) // before it counts as lost
	})
	s.areStated(b.nodes[leader].Load())
	eventually(t, "a node leads", leads)
	s.run(200, func() { b.nodes[leader].Load().kill() })
	s.areStated(b.nodes[1-leader].Load())
}

// settlements are what was settled and charged of a meter, each to a key of its own.
type settlements struct {
	b              *balancer
	last           atomic.Int64
	settled, units atomic.Int64
	mu             sync.Mutex
	broken         []string
}

// run settles until most more were settled, then something happens, and as many more are settled.
func (s *settlements) run(most int64, happens func()) {
	ctx, stop := context.WithCancel(s.b.t.Context())
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for ctx.Err() == nil {
				s.one()
			}
		})
	}
	serves := func() {
		from := s.settled.Load()
		eventually(s.b.t, "more is settled", func() bool { return s.settled.Load() >= from+most })
	}
	serves()
	happens()
	serves()
	stop()
	all.Wait()
}

// one reserves, settles and charges. Each call is repeated until it is answered: it counts once, by its id or token.
func (s *settlements) one() {
	n := s.last.Add(1)
	reserved := s.send("/ratelimit/reserve", fmt.Sprintf(`{"user":"u%d","weight":10,"request_id":"r%d"}`, n, n))
	s.send("/ratelimit/settle", fmt.Sprintf(`{"reservation":%q,"weight":%d}`, reserved.Reservation, n%20))
	s.send("/ratelimit/charge", fmt.Sprintf(`{"user":"u%d","weight":3,"request_id":"c%d"}`, n, n))
	s.units.Add(n%20 + 3)
	s.settled.Add(1)
}

func (s *settlements) send(path, body string) (answer struct{ Reservation string }) {
	for {
		n := s.b.next()
		if n == nil {
			continue // none is ready; the next round looks again
		}
		status, doc, err := n.ask("POST", path, body)
		switch {
		case errors.Is(err, errNotSent) || err != nil && n.killed.Load():
			n.ready.Store(false)
			continue
		case err == nil && status == http.StatusOK && json.Unmarshal([]byte(doc), &answer) == nil:
			return answer
		}
		s.mu.Lock()
		s.broken = append(s.broken, fmt.Sprintf("%s: %d %v %.200s", path, status, err, doc))
		s.mu.Unlock()
		return answer
	}
}

// areStated waits until the statement that a node shows is the sum of what was settled.
func (s *settlements) areStated(n *child) {
	t := s.b.t
	t.Helper()
	if len(s.broken) > 0 {
		t.Fatalf("%d calls failed, such as %s", len(s.broken), s.broken[0])
	}
	var stated int64
	eventually(t, "the statement is the sum of what was settled", func() bool {
		_, doc, err := n.ask("GET", "/ratelimit/usage?rule=meter&by=period", "")
		var page struct{ Usage []struct{ Spent int64 } }
		if err != nil || json.Unmarshal([]byte(doc), &page) != nil {
			return false
		}
		stated = 0
		for _, row := range page.Usage {
			stated += row.Spent
		}
		return stated == s.units.Load()
	})
	t.Logf("%d keys were settled to %d units, which is what the statement says", s.settled.Load(), stated)
}
