package sim

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"strconv"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules/match"
)

// client asks the nodes questions, repeats them if it got no answer, and gives back units that it
// does not need.
type client struct {
	w    *world
	ids  int
	past []ticket // named takes
}

// ticket is a named take that was answered.
type ticket struct {
	q     decide.Question
	lease string
}

// act selects the client's next action at random.
func (c *client) act() error {
	r := c.w.rng
	switch n := r.IntN(100); {
	case n < 66:
		return c.take(c.question(limiter.OpTake))
	case n < 72:
		return c.batch()
	case n < 78:
		return c.once(c.question(limiter.OpPeek))
	case n < 80:
		return c.charge(c.question(limiter.OpCharge))
	case n < 81:
		return c.once(c.question(limiter.OpReset))
	case n < 83:
		q := c.question(limiter.OpRefund)
		q.RequestID = ""
		return c.once(q)
	}
	if len(c.past) == 0 {
		return nil
	}
	t := c.past[len(c.past)-1-r.IntN(min(len(c.past), 12))]
	switch n := r.IntN(10); {
	case n < 5:
		t.q.Op = limiter.OpRefund
		return c.once(t.q)
	case n < 7 && t.lease != "":
		return c.token(pick(r, []limiter.Op{limiter.OpRelease, limiter.OpRenew}), t.lease)
	case n < 9:
		t.q.Op = pick(r, []limiter.Op{limiter.OpRelease, limiter.OpRenew})
		if t.q.IsDirect && !t.q.Direct.Limit.Algorithm.Traits().Slots {
			return nil
		}
		return c.once(t.q)
	}
	t.q.Op = pick(r, []limiter.Op{limiter.OpTake, limiter.OpTake, limiter.OpCharge}) // an old question again
	return c.take(t.q)
}

var addresses = []netip.Addr{netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("2001:db8::7")}

// question returns a random request from a small set of users, routes and addresses.
func (c *client) question(op limiter.Op) decide.Question {
	r := c.w.rng
	q := decide.Question{Op: op, Weight: pick(r, []int64{1, 1, 1, 1, 2, 3, 0, 9}), Descriptor: match.Descriptor{
		User: pick(r, []string{"ann", "bob", "ann", ""}), IP: pick(r, addresses),
		Route: pick(r, []string{"/v1/charges", "/v1/cards"}), Method: "GET",
	}}
	if r.IntN(8) == 0 {
		q.IsDirect = true
		q.Direct = decide.Direct{Key: "job:7", FailMode: pick(r, fails), Limit: limiter.Limit{Algorithm: limiter.FixedWindow,
			Count: 4, Window: 250}}
	}
	// Leases must be named, or the Checker would draw a name at random.
	named := r.IntN(3) > 0
	if (op == limiter.OpTake && (named || c.w.leases())) || (op == limiter.OpCharge && named) {
		c.ids++
		q.RequestID = "q" + strconv.Itoa(c.ids)
	}
	return q
}

// leases reports whether any rule is of concurrency.
func (w *world) leases() bool {
	for i := range w.book.rules {
		if w.book.rules[i].Traits().Slots {
			return true
		}
	}
	return false
}

// node returns a random node that is up, nil if none is.
func (c *client) node() *node {
	n := pick(c.w.rng, c.w.nodes)
	for range c.w.nodes {
		if !n.down {
			return n
		}
		n = c.w.nodes[n.id%len(c.w.nodes)]
	}
	return nil
}

// once asks one question and does not repeat it.
func (c *client) once(q decide.Question) error {
	_, err := c.ask(&q)
	return err
}

// charge charges units, which may be refunded by name.
func (c *client) charge(q decide.Question) error {
	if q.RequestID != "" {
		c.past = append(c.past, ticket{q: q})
	}
	return c.once(q)
}

// take makes a take. If it gets no answer and the question has a name, it repeats the question.
func (c *client) take(q decide.Question) error {
	a, err := c.ask(&q)
	if err != nil || a == nil || q.RequestID == "" || q.Op != limiter.OpTake {
		return err
	}
	c.past = append(c.past, ticket{q, a.Lease})
	deaf := 10
	if a.Degraded != "" {
		deaf = 50
	}
	if c.w.rng.IntN(100) < deaf {
		c.w.later(c.w.rng.Int64N(300), func() error {
			c.w.say("client: %s again", q.RequestID)
			return c.take(q)
		})
	}
	return nil
}

// ask asks a node a question and checks the answer. It returns nil if no node is up.
func (c *client) ask(q *decide.Question) (*decide.Answer, error) {
	n := c.node()
	if n == nil {
		return nil, nil
	}
	n.begin()
	c.w.say("node %d: %s %s user=%q ip=%s route=%s direct=%v weight %d", n.id, q.Op, q.RequestID, q.Descriptor.User,
		q.Descriptor.IP, q.Descriptor.Route, q.IsDirect, q.Weight)
	set := n.sets.Load()
	a := new(decide.Answer)
	err := n.checker.Do(context.Background(), q, a)
	if c.w.failed != nil {
		return nil, c.w.failed
	}
	return a, cmp.Or(c.w.judge(n, set, q, a, err), n.checkMetrics())
}

// batch asks several questions with one call.
func (c *client) batch() error {
	n := c.node()
	if n == nil {
		return nil
	}
	qs := make([]decide.Question, 2+c.w.rng.IntN(3))
	for i := range qs {
		qs[i] = c.question(pick(c.w.rng, []limiter.Op{limiter.OpTake, limiter.OpTake, limiter.OpPeek}))
	}
	n.begin()
	c.w.say("node %d: a batch of %d", n.id, len(qs))
	set, as := n.sets.Load(), make([]decide.Answer, len(qs))
	err := n.checker.DoAll(context.Background(), qs, as, nil)
	for i := range qs {
		if c.w.failed != nil {
			return c.w.failed
		}
		if err := c.w.judge(n, set, &qs[i], &as[i], err); err != nil {
			return err
		}
	}
	return n.checkMetrics()
}

// token releases or renews by a lease token.
func (c *client) token(op limiter.Op, token string) error {
	n := c.node()
	if n == nil {
		return nil
	}
	n.begin()
	c.w.say("node %d: %s by token", n.id, op)
	var a decide.Answer
	err := n.checker.Lease(context.Background(), op, token, decide.Origin{}, &a)
	if c.w.failed != nil {
		return c.w.failed
	}
	if errors.Is(err, decide.ErrBadLease) {
		return broken("a token made by an answer is refused")
	}
	return nil
}

// begin discards the records of the node's latest question.
func (n *node) begin() {
	n.link.sent, n.own.asks = nil, nil
	n.heard = observer{units: map[flow]int64{}, expected: map[flow]int64{}}
}
