package records

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"sluice/api/decide"
	"sluice/rules/match"
)

// Sink receives the encoded events of a Log, one call at a time.
type Sink interface {
	// Write receives events in order. It reports the result of each event, at once or later, by exactly one call of the
	// account of its Log. It may block: until it returns, the Log drops events that do not fit. It does not keep b
	// after it returns.
	Write(b Batch)
	// Oldest returns when the oldest event without a result was received, zero if there is none. It is safe for
	// concurrent use.
	Oldest() time.Time
	// Close delivers the remaining events until ctx ends, and reports the results of the rest.
	Close(ctx context.Context) error
}

// Batch is a number of encoded events.
type Batch struct {
	// Lines are the events, each with a line end.
	Lines [][]byte
	// Keys are their keys: events with the same key belong to one bucket and keep their order.
	Keys []string
}

// batchBytes is the size at which a batch is given to the sink.
const batchBytes = 256 << 10

// Options configure a Log. Sink, Account, Secret and Now are required.
type Options struct {
	Sink    Sink
	Account *Account
	// Rate is the percentage of entities whose allowed requests are recorded, 0 to 100.
	Rate float64
	// WholeWhileQuiet records all allowed requests while the last minute had at most QuietRate of them per second. Rate
	// is that of busier times. With a Rate of 0 it does nothing.
	WholeWhileQuiet bool
	// Address is AddressPrefix, AddressWhole, AddressHash or AddressNone.
	Address string
	// Network returns the network under which an address is counted (match.Options): addresses that rules count
	// together are one entity, and have one hash among the facts. Nil is the default.
	Network func(netip.Addr) netip.Prefix
	// Omit are facts that are never recorded: user, api_key, ip, route, method, host, tier, user_agent, attr:NAME and
	// field:NAME.
	Omit []string
	// Secret returns the key of the hashes of credentials, which is the same on every node, nil while it is unknown.
	Secret func() []byte
	Node   string
	// Now is the wall clock.
	Now func() time.Time
}

// Log is the decision log of a node with one sink. It observes decisions without blocking: events that do not fit into
// its buffer are dropped and counted. It is safe for concurrent use and owns one goroutine, Run.
type Log struct {
	decide.NopObserver
	opt     Options
	buffer  *buffer
	folds   *folds
	conceal conceal
	network func(netip.Addr) netip.Prefix // under which an address is counted
	quiet   quiet

	stop  chan struct{}
	ended chan struct{}
	once  sync.Once
	err   error           // of the sink's Close
	wait  context.Context //nolint:containedctx // of Close, for the sink

	raw   rawEvent
	spare []byte
	text  []byte
	batch Batch
}

// New creates a Log and starts its goroutine, which Close stops.
func New(opt Options) (*Log, error) {
	if opt.Sink == nil || opt.Account == nil || opt.Secret == nil || opt.Now == nil {
		return nil, errors.New("decision log: Sink, Account, Secret and Now are required")
	}
	l := &Log{opt: opt, buffer: newBuffer(), folds: newFolds(), stop: make(chan struct{}), ended: make(chan struct{})}
	if l.network = opt.Network; l.network == nil {
		l.network = match.Options{}.Network
	}
	l.conceal = conceal{secret: opt.Secret, address: opt.Address, network: l.network, omit: map[string]bool{}}
	for _, name := range opt.Omit {
		l.conceal.omit[name] = true
	}
	if opt.Address == AddressNone || l.conceal.omit["ip"] {
		l.conceal.address, l.conceal.omit["ip"] = AddressNone, true
	}
	l.conceal.omitted = slices.Sorted(maps.Keys(l.conceal.omit))
	go l.run()
	return l, nil
}

// ObserveDecision implements decide.Observer. It always records denials, and records allowed requests of sampled
// entities.
func (l *Log) ObserveDecision(d *decide.Decision) {
	if !recorded(d.Answer.Op) || d.Lease && !d.Answer.Allowed() { // a denied lease decides nothing
		return
	}
	by := drawn{rate: rateOf(d, l.rateNow(d))}
	by.drawn = draw(d, by.rate, l.network)
	denied, counts := !d.Answer.Allowed(), decisionsOf(d)
	if !by.drawn && !denied && (counts == nil || counts.Denied == 0) {
		return
	}
	by.now = l.opt.Now().UnixMilli()
	write := func(b []byte) []byte { return appendRaw(b, by, d) }
	if denied && counts == nil { // reports of callers already are sums
		if held, first := l.folds.hold(d, by, write); held {
			if !first {
				l.opt.Account.folded.Add(1)
			}
			return
		}
	}
	l.add(by.now, write)
}

// rateNow is the percentage for a decision whose rules name none. It counts the decision if that was allowed.
func (l *Log) rateNow(d *decide.Decision) float64 {
	if !l.opt.WholeWhileQuiet || l.opt.Rate == 0 {
		return l.opt.Rate
	}
	if l.quiet.now(l.opt.Now().UnixMilli(), d.Answer.Allowed()) {
		return 100
	}
	return l.opt.Rate
}

// add produces one event.
func (l *Log) add(now int64, write func([]byte) []byte) {
	l.opt.Account.produced.Add(1)
	switch l.buffer.add(now, write) {
	case isFull:
		l.opt.Account.Drop(RingFull, 1)
	case isClosed:
		l.opt.Account.Drop(Shutdown, 1)
	}
}

// Age returns the age of the oldest event without a result, 0 if there is none.
func (l *Log) Age() time.Duration {
	oldest := l.opt.Sink.Oldest()
	if at := l.buffer.oldest(); at > 0 && (oldest.IsZero() || time.UnixMilli(at).Before(oldest)) {
		oldest = time.UnixMilli(at)
	}
	if oldest.IsZero() {
		return 0
	}
	return max(0, l.opt.Now().Sub(oldest))
}

// Totals returns the totals of the account, with the age of the oldest buffered event.
func (l *Log) Totals() Totals {
	t := l.opt.Account.Totals()
	t.Age = l.Age()
	return t
}

// Close writes the buffered events and closes the sink, within ctx. Later decisions are dropped.
func (l *Log) Close(ctx context.Context) error {
	l.once.Do(func() {
		l.wait = ctx
		close(l.stop)
	})
	<-l.ended
	return l.err
}

// run gives events to the sink until Close.
func (l *Log) run() {
	defer close(l.ended)
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-l.buffer.filled:
			l.gather()
			l.drain(context.Background())
		case <-second.C:
			l.endFolds(false)
		case <-l.stop:
			l.endFolds(true)
			l.buffer.close()
			l.drain(l.wait)
			l.err = l.opt.Sink.Close(l.wait)
			return
		}
	}
}

// gatherFor is how long events are collected before they are encoded: a wake-up for each event would cost more than the
// encoding. At 800,000 events per second, the buffer becomes full in that time.
const gatherFor = 20 * time.Millisecond

// gather waits for more events, or for Close.
func (l *Log) gather() {
	timer := time.NewTimer(gatherFor)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.stop:
	}
}

// endFolds produces the events that represent the denials of the last second. last is set at the end of the log.
func (l *Log) endFolds(last bool) {
	now := l.opt.Now().UnixMilli()
	l.folds.end(last, func(raw []byte) {
		l.add(now, func(b []byte) []byte { return append(b, raw...) })
	})
}

// drain passes the buffered events to the sink. It drops the rest when ctx ends.
func (l *Log) drain(ctx context.Context) {
	took := l.buffer.take(l.spare)
	defer l.buffer.done()
	l.spare = took
	for len(took) > 0 {
		if ctx.Err() != nil {
			n := 0
			for ; len(took) > 0; n++ {
				_, took = cut(took)
			}
			l.opt.Account.Drop(Shutdown, n)
			return
		}
		took = l.write(took)
	}
}

// write gives one batch to the sink and returns the rest.
func (l *Log) write(took []byte) []byte {
	l.text, l.batch.Lines, l.batch.Keys = l.text[:0], l.batch.Lines[:0], l.batch.Keys[:0]
	var ends []int
	for len(took) > 0 && len(l.text) < batchBytes {
		var raw []byte
		raw, took = cut(took)
		l.raw.readRaw(raw)
		e := l.conceal.event(&l.raw, l.opt.Node)
		l.text = append(appendShort(l.text, &e), '\n')
		ends = append(ends, len(l.text))
		l.batch.Keys = append(l.batch.Keys, e.Key)
	}
	from := 0
	for _, end := range ends {
		l.batch.Lines = append(l.batch.Lines, l.text[from:end])
		from = end
	}
	l.opt.Sink.Write(l.batch)
	return took
}

var _ decide.Observer = (*Log)(nil)
