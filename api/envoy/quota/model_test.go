package quota

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/match"
)

// epoch is when tests begin, ms: a full minute.
const epoch = int64(1_795_260_000_000)

// world is nodes and proxies in virtual time, on one counter store.
type world struct {
	t       testing.TB
	random  *rand.Rand
	now     int64
	events  events
	store   *countingStore
	checker *decide.Checker
	nodes   []*simNode
	proxies []*simProxy
	board   map[int]map[string]entry // by node
	limit   limiter.Limit
	window  int64
	// What proxies let pass, in order of time: checked against a store of its own.
	check    *memstore.Store
	over     int64
	passed   map[int64]int64 // by window
	asked    map[int64]int64
	requests int64
	exchange int64
	delay    int64 // the longest of a message
}

type entry struct {
	demand Demand
	until  int64
}

type countingStore struct {
	limiter.Store
	calls atomic.Int64
	lose  func(ctx context.Context) bool // nil: it loses no answer
}

func (s *countingStore) Do(ctx context.Context, r *limiter.Request, res *limiter.Result) error {
	s.calls.Add(1)
	if err := s.Store.Do(ctx, r, res); err != nil || s.lose == nil || !s.lose(ctx) {
		return err
	}
	return &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: true, Err: context.DeadlineExceeded}
}

// left is how many units are left of the user's bucket.
func (w *world) left(t *testing.T) int64 {
	t.Helper()
	rule, err := w.checker.LumpRule("shop", user)
	if err != nil {
		t.Fatal(err)
	}
	req := limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{{Key: rule.Key, Limit: rule.Limit, Weight: 1}}}
	var res limiter.Result
	if err := w.store.Store.Do(context.Background(), &req, &res); err != nil {
		t.Fatal(err)
	}
	return res.Limits[0].Remaining
}

// event is something that happens at a time.
type event struct {
	at  int64
	seq int
	do  func()
}

type events struct {
	list []event
	seq  int
}

func (e *events) Len() int { return len(e.list) }
func (e *events) Less(i, j int) bool {
	return e.list[i].at < e.list[j].at || e.list[i].at == e.list[j].at && e.list[i].seq < e.list[j].seq
}
func (e *events) Swap(i, j int) { e.list[i], e.list[j] = e.list[j], e.list[i] }
func (e *events) Push(x any)    { v, _ := x.(event); e.list = append(e.list, v) }
func (e *events) Pop() any {
	last := e.list[len(e.list)-1]
	e.list = e.list[:len(e.list)-1]
	return last
}

// after does something after some ms.
func (w *world) after(ms int64, do func()) {
	w.events.seq++
	heap.Push(&w.events, event{w.now + ms, w.events.seq, do})
}

// run lets time pass.
func (w *world) run(ms int64) {
	end := w.now + ms
	for w.events.Len() > 0 && w.events.list[0].at <= end {
		e, _ := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = end
}

// perUser is a rule with buckets of users.
func perUser(edit func(*rules.Rule)) rules.Rule {
	r := rules.Rule{ID: 1, Name: "per-user", Limit: 2000, WindowMS: 60_000, Algorithm: "fixed_window", IsActive: true,
		FailMode: rules.FailClosed, Version: 1,
		Descriptor: &rules.RuleDescriptor{Domain: "shop", Entries: []entries.Element{{Key: "user"}}}}
	if edit != nil {
		edit(&r)
	}
	r.Normalize()
	return r
}

var user = map[string]string{"user": "42"}

func newWorld(t testing.TB, seed uint64, r rules.Rule, nodes int) *world {
	t.Helper()
	w := &world{t: t, now: epoch, random: rand.New(rand.NewPCG(seed, 1)), board: map[int]map[string]entry{}, delay: 40,
		passed: map[int64]int64{}, asked: map[int64]int64{}}
	set, err := match.Compile([]rules.Rule{r}, 1, match.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var sets match.Current
	sets.Store(set)
	clock := func() int64 { return w.now }
	store := memstore.New(memstore.Options{Clock: clock})
	w.check = memstore.New(memstore.Options{Clock: clock})
	t.Cleanup(func() { store.Close(); w.check.Close() })
	w.store = &countingStore{Store: store}
	w.checker, err = decide.NewChecker(decide.CheckerOptions{Sets: &sets, Store: w.store,
		Now: func() time.Time { return time.UnixMilli(w.now).UTC() }})
	if err != nil {
		t.Fatal(err)
	}
	found, err := w.checker.LumpRule("shop", user)
	if err != nil || found.Refused != "" {
		t.Fatalf("the rule has no lumps: %q, %v", found.Refused, err)
	}
	w.limit, w.window = found.Limit, found.Limit.Window
	for i := range nodes {
		w.nodes = append(w.nodes, &simNode{w: w, id: i, book: NewBook()})
	}
	return w
}

// spend is a proxy that lets n requests pass.
func (w *world) spend(n int64) {
	w.passed[w.now/w.window] += n
	key := "{replay}|1|" + limiter.Key(w.limit.Algorithm.Kind())
	req := limiter.Request{Op: limiter.OpTake, Asks: []limiter.Ask{{Key: key, Limit: w.limit, Weight: n}}}
	var res limiter.Result
	if err := w.check.Do(context.Background(), &req, &res); err != nil {
		w.t.Fatal(err)
	}
	if !res.Allowed {
		w.over += n
	}
}

// simNode is a node.
type simNode struct {
	w     *world
	id    int
	book  *Book
	links map[*link]struct{}
	down  bool
}

// link is a stream. Each end may know before the other that it is broken.
type link struct {
	node         *simNode
	proxy        *simProxy
	stream       *Stream
	up, down     bool  // the end of the node and of the proxy are broken
	lost         bool  // messages are lost
	pumpAt       int64 // the next time that it pumps, if that is not over
	lastDownward int64 // messages arrive in order
	lastUpward   int64
}

func (n *simNode) open(p *simProxy) *link {
	l := &link{node: n, proxy: p, stream: n.book.Open(&Caller{}, 1000)}
	if n.links == nil {
		n.links = map[*link]struct{}{}
	}
	n.links[l] = struct{}{}
	return l
}

// end ends the end of the node.
func (l *link) end() {
	if l.up {
		return
	}
	l.up = true
	l.stream.Close()
	delete(l.node.links, l)
}

// kill ends a node. Proxies know at once.
func (n *simNode) kill() {
	n.down = true
	for l := range n.links {
		l.end()
		l.down = true
	}
	n.book = NewBook()
}

// report takes up a report at the node.
func (l *link) report(allowed, denied int64) {
	if l.up {
		return
	}
	if err := l.stream.Report("42", user, allowed, denied, l.node.w.now); err != nil {
		l.node.w.t.Error(err)
	}
	l.pump()
}

// pump does what is due.
func (l *link) pump() {
	w := l.node.w
	if l.up {
		return
	}
	for _, r := range l.stream.Returns() {
		token, _ := r.Token.(*decide.Lump)
		if err := w.checker.SettleLump(context.Background(), token, r.Spent); err != nil {
			w.t.Error(err)
		}
	}
	for _, h := range l.stream.Due(1, w.now) {
		l.ask(h)
	}
	l.send()
	at, ok := l.stream.Next()
	if !ok || l.pumpAt > w.now && l.pumpAt <= at {
		return
	}
	l.pumpAt = max(at, w.now+1)
	w.after(l.pumpAt-w.now, l.pump)
}

// ask asks the store about a holder, with the delays of the way there and back.
func (l *link) ask(h *Holder) {
	w, n, sent := l.node.w, l.node, l.node.w.now
	rule, err := w.checker.LumpRule("shop", h.Bucket)
	if err != nil {
		w.t.Fatal(err)
	}
	r := ruleOf(&rule)
	own := n.book.Demand(h, r.Key)
	if w.board[n.id] == nil {
		w.board[n.id] = map[string]entry{}
	}
	w.board[n.id][r.Key] = entry{own, w.now + r.life() + 2*second}
	w.exchange += 2 // before and after
	var others Demand
	for id := range w.nodes {
		if e := w.board[id][r.Key]; id != n.id && e.until > w.now {
			others.Holders, others.PerSecond = others.Holders+e.demand.Holders, others.PerSecond+e.demand.PerSecond
		}
	}
	want, least := n.book.Want(h, r, others, w.now)
	w.after(w.random.Int64N(5), func() {
		a := take(context.Background(), w.checker, h, &rule, want, least, sent)
		w.after(w.random.Int64N(5), func() {
			if !n.down {
				l.stream.Answered(h, &a, w.now)
				l.pump()
			}
		})
	})
}

// send delivers what there is to say.
func (l *link) send() {
	w := l.node.w
	for _, a := range l.stream.Actions(100, w.now) {
		if l.lost || l.down {
			continue
		}
		l.lastDownward = max(l.lastDownward, w.now+w.random.Int64N(w.delay+1))
		w.after(l.lastDownward-w.now, func() {
			if !l.lost && !l.down && !l.proxy.down {
				l.proxy.apply(&a)
			}
		})
	}
}

// simProxy is an Envoy with one bucket.
type simProxy struct {
	w         *world
	perSecond float64
	rest      float64
	link      *link
	has       bool // the bucket exists
	tokens    int64
	until     int64
	allowed   int64
	denied    int64
	down      bool
	// moody: it spends every other lump at once, just before the lump ends.
	moody, late bool
}

const tick = 100

// addProxy adds a proxy that runs from now on, with so many requests per second.
func (w *world) addProxy(perSecond float64) *simProxy {
	p := &simProxy{w: w, perSecond: perSecond}
	w.proxies = append(w.proxies, p)
	w.after(w.random.Int64N(tick), p.tick)
	w.after(w.random.Int64N(5*second), p.reports)
	return p
}

func (p *simProxy) tick() {
	w := p.w
	w.after(tick, p.tick)
	if p.down {
		return
	}
	p.rest += p.perSecond * tick / second
	n := int64(p.rest)
	if p.rest -= float64(n); n == 0 {
		return
	}
	w.asked[w.now/w.window] += n
	w.requests += n
	pass := int64(0)
	if p.has && w.now < p.until {
		if pass = min(n, p.tokens); p.moody {
			if pass = 0; !p.late || w.now+tick >= p.until {
				pass = p.tokens
				n = max(n, pass)
			}
		}
		p.tokens -= pass
	}
	if pass > 0 {
		w.spend(pass)
	}
	p.allowed, p.denied = p.allowed+pass, p.denied+n-pass
	if !p.has {
		p.has = true
		p.report()
	}
}

// reports reports every 5 s.
func (p *simProxy) reports() {
	p.w.after(5*second, p.reports)
	if p.has && !p.down {
		p.report()
	}
}

func (p *simProxy) report() {
	w := p.w
	if p.link == nil || p.link.down {
		p.link = nil
		for _, i := range w.random.Perm(len(w.nodes)) {
			if !w.nodes[i].down {
				p.link = w.nodes[i].open(p)
				break
			}
		}
		if p.link == nil {
			return // dropped
		}
	}
	l, allowed, denied := p.link, p.allowed, p.denied
	p.allowed, p.denied = 0, 0
	if !l.lost {
		l.lastUpward = max(l.lastUpward, w.now+w.random.Int64N(w.delay+1))
		w.after(l.lastUpward-w.now, func() { l.report(allowed, denied) })
	}
}

func (p *simProxy) apply(a *Action) {
	switch a.Act {
	case Abandon:
		p.has, p.tokens, p.allowed, p.denied = false, 0, 0, 0
	case Deny:
		p.tokens = 0
	case Spend:
		p.tokens, p.until, p.late = a.Units, p.w.now+a.TTL*second, p.w.random.IntN(2) == 0
	case Allow:
		p.w.t.Error("everything was allowed")
	}
}

// kill ends a proxy, which loses what it has; its node knows.
func (p *simProxy) kill() {
	p.down, p.has, p.tokens, p.allowed, p.denied = true, false, 0, 0, 0
	if p.link != nil {
		p.link.down = true
		p.link.end()
		p.link = nil
	}
}

// cutOff loses all messages of the stream from now on. The ends know after some time.
func (p *simProxy) cutOff() {
	l := p.link
	if l == nil {
		return
	}
	l.lost = true
	p.w.after(p.w.random.Int64N(20*second), func() { l.down = true })
	p.w.after(p.w.random.Int64N(80*second), l.end)
}

// stall holds up the reports of the stream from now on. Then they arrive together.
func (p *simProxy) stall(ms int64) {
	if p.link != nil {
		p.link.lastUpward = max(p.link.lastUpward, p.w.now+ms)
	}
}

func (w *world) wantNoneOver() {
	if w.t.Helper(); w.over > 0 {
		w.t.Errorf("%d units over the limit %+v", w.over, w.limit)
	}
}

func (w *world) String() string {
	return fmt.Sprintf("%d requests, %d calls of the store, %d exchanges", w.requests, w.store.calls.Load(), w.exchange)
}
