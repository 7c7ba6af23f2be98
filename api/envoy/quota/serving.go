package quota

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules/entries"
)

// Bounds of a bucket's name.
const (
	maxKeys      = 32
	maxBucketID  = 4 << 10
	maxOften     = 4 * maxBuckets // reports of buckets at once
	oftenPerMS   = 24             // and per ms afterwards; a full stream has 12
	messageCosts = 10             // as many of them
)

// serving is a stream that is served. Service.mu guards stream, domain, closed and level.
type serving struct {
	service  *Service
	stream   *Stream
	caller   string
	domain   string
	closed   bool
	level    int64 // of a leaky bucket of reports
	levelAt  int64
	reported chan struct{} // holds a token after a report
	failed   chan error    // receives at most one error from the reader and from each take

	// Of the goroutine of Service.Stream.
	takes   sync.WaitGroup
	running int
	done    chan func()
	back    []Return
	writes  chan *quotav3.RateLimitQuotaResponse
	written chan error
	writing time.Time // since when a message is being written; zero if none is
}

// read takes up reports until the stream ends.
func (x *serving) read(conn Conn) (err error) {
	defer x.service.caught(&err)
	for {
		b, err := conn.Recv()
		if errors.Is(err, io.EOF) { // the proxy ended the stream
			return nil
		}
		if err != nil {
			return err
		}
		m, err := decode(b)
		if err != nil {
			return x.refuseMessage(err)
		}
		list, err := x.report(m)
		if err != nil {
			return err
		}
		for i := range list {
			x.service.deps.Checker.ObserveReported(x.domain, list[i].bucket, list[i].decided, decide.Origin{Face: Face})
		}
		select {
		case x.reported <- struct{}{}:
		default:
		}
	}
}

// decode reads a message. An empty usage of two bytes would take a hundred bytes of memory, so it counts the usages
// first.
func decode(b []byte) (*quotav3.RateLimitQuotaUsageReports, error) {
	const usages = 2 // the number of the field
	count := 0
	for rest := b; len(rest) > 0; {
		field, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return nil, malformed("the message is no protobuf")
		}
		if field == usages {
			count++
		}
		rest = rest[n:]
	}
	if count > maxBuckets {
		return nil, malformed("a message reports at most " + strconv.Itoa(maxBuckets) + " buckets")
	}
	m := &quotav3.RateLimitQuotaUsageReports{}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, m); err != nil {
		return nil, malformed("the message is no protobuf, or has a text that is not UTF-8")
	}
	return m, nil
}

// refuseMessage refuses a message that decode could not read.
func (x *serving) refuseMessage(err error) error {
	x.service.mu.Lock()
	defer x.service.mu.Unlock()
	x.service.refuse(refusedInvalid, x.domain)
	return status.Error(codes.InvalidArgument, err.Error())
}

// write sends messages until the stream ends.
func (x *serving) write(conn Conn) {
	send := func(m *quotav3.RateLimitQuotaResponse) (err error) {
		defer x.service.caught(&err)
		return conn.Send(m)
	}
	for m := range x.writes {
		x.written <- send(m)
	}
}

// silent reports whether no message has come.
func (x *serving) silent() bool {
	x.service.mu.Lock()
	defer x.service.mu.Unlock()
	return x.domain == ""
}

// reported is what a message says of a bucket.
type reported struct {
	bucket  map[string]string
	decided decide.Decisions
}

// report takes up a message of the proxy. It returns what the proxy has decided, to be counted once.
func (x *serving) report(m *quotav3.RateLimitQuotaUsageReports) ([]reported, error) {
	s := x.service
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.closed {
		return nil, status.Error(codes.Canceled, "the stream has ended")
	}
	now := s.now()
	x.level = max(0, x.level-(now-x.levelAt)*oftenPerMS) + int64(len(m.GetBucketQuotaUsages())) + messageCosts
	if x.levelAt = now; x.level > maxOften {
		s.refuse(refusedFlood, x.domain)
		return nil, status.Error(codes.ResourceExhausted, "reports come too often")
	}
	if reason, err := x.checkDomain(m.GetDomain()); err != nil {
		s.refuse(reason, x.domain)
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	spent, denied, list := int64(0), int64(0), []reported(nil)
	named := make(map[string]bool, len(m.GetBucketQuotaUsages()))
	for _, u := range m.GetBucketQuotaUsages() {
		id, err := bucketID(u.GetBucketId().GetBucket())
		if err == nil {
			err = checkCounts(u.GetNumRequestsAllowed(), u.GetNumRequestsDenied())
		}
		if err == nil && named[id] {
			err = malformed("a message has a bucket twice")
		}
		if err != nil {
			s.refuse(refusedInvalid, x.domain)
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		named[id] = true
		a, d := int64(u.GetNumRequestsAllowed()), int64(u.GetNumRequestsDenied()) //nolint:gosec // checked
		if !x.stream.Has(id) && x.stream.Full(id) {
			err = ErrTooManyBuckets
		} else {
			err = x.stream.Report(id, u.GetBucketId().GetBucket(), a, d, now)
		}
		if err != nil {
			s.refuse(refusedBuckets, x.domain)
			continue
		}
		spent, denied = min(spent+a, limiter.MaxExact), min(denied+d, limiter.MaxExact)
		if a+d > 0 {
			list = append(list, reported{u.GetBucketId().GetBucket(), decide.Decisions{Allowed: a, Denied: d}})
		}
	}
	s.deps.Observe.CountQuota(UnitsSpent, spent)
	s.deps.Observe.CountQuota(UnitsDenied, denied)
	s.observe()
	return list, nil
}

type malformed string

func (m malformed) Error() string { return string(m) }

// checkDomain takes up the domain of a message: the first one has it.
func (x *serving) checkDomain(domain string) (reason string, _ error) {
	switch {
	case x.domain == "" && domain == "":
		return refusedInvalid, malformed("the first message must have a domain")
	case len(domain) > entries.MaxDomain:
		return refusedInvalid, malformed("the domain is too long")
	case x.domain == "":
		x.domain = domain
	case domain != "" && domain != x.domain:
		return refusedDomain, malformed("a stream has one domain")
	}
	return "", nil
}

// checkCounts refuses numbers that no proxy can have counted since its last report.
func checkCounts(allowed, denied uint64) error {
	if allowed > uint64(limiter.MaxExact) || denied > uint64(limiter.MaxExact) {
		return malformed("the numbers of requests are too large")
	}
	return nil
}

// bucketID returns a text that only equal buckets have.
func bucketID(bucket map[string]string) (string, error) {
	if len(bucket) == 0 || len(bucket) > maxKeys {
		return "", malformed("a bucket must have 1 to " + strconv.Itoa(maxKeys) + " keys")
	}
	keys := make([]string, 0, len(bucket))
	for k := range bucket {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var id []byte
	for _, k := range keys {
		if k == "" || len(k) > entries.MaxKey {
			return "", malformed("a key must have 1 to " + strconv.Itoa(entries.MaxKey) + " bytes")
		}
		for _, text := range []string{k, bucket[k]} {
			id = append(append(strconv.AppendInt(id, int64(len(text)), 10), ':'), text...)
		}
		if len(id) > maxBucketID {
			return "", malformed("a bucket has at most " + strconv.Itoa(maxBucketID) + " bytes")
		}
	}
	return string(id), nil
}

// advance does what is due. It returns when it is to be called again, if nothing happens before.
func (x *serving) advance(ctx context.Context) (time.Duration, bool) {
	s := x.service
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for x.back = append(x.back, x.stream.Returns()...); len(x.back) > 0 && x.running < maxTakes; x.back = x.back[1:] {
		r := x.back[0]
		x.run(func() func() { return x.giveBack(ctx, &r) })
	}
	for _, h := range x.stream.Due(maxTakes-x.running, now) {
		x.run(func() func() { return x.ask(ctx, h) })
	}
	if x.writing.IsZero() {
		if list := x.stream.Actions(maxActions, now); len(list) > 0 {
			x.writing = s.deps.Now()
			x.writes <- s.message(list)
		}
	}
	at, ok := x.stream.Next()
	// With maxTakes running, the next one that ends advances.
	return time.Duration(max(1, at-now)) * time.Millisecond, ok && x.running < maxTakes
}

// run calls do in a new goroutine, and then the function that it returned in the goroutine of the stream.
func (x *serving) run(do func() func()) {
	x.running++
	guarded := func() (done func(), err error) {
		defer x.service.caught(&err)
		return do(), nil
	}
	x.takes.Go(func() {
		if done, err := guarded(); err != nil {
			x.failed <- err
		} else {
			x.done <- done
		}
	})
}

// ask asks the store about a holder.
func (x *serving) ask(ctx context.Context, h *Holder) func() {
	s := x.service
	s.mu.Lock()
	domain, sent := x.domain, s.now()
	s.mu.Unlock()
	a := Answer{Sent: sent}
	rule, err := s.deps.Checker.LumpRule(domain, h.Bucket)
	switch {
	case err != nil:
	case rule.Refused != "" || rule.Unlimited:
		a.Rule = ruleOf(&rule)
	default:
		a = x.take(ctx, h, &rule, sent)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if rule.Refused != "" {
			s.refuse(rule.Refused, domain+": "+rule.Rule)
		}
		x.stream.Answered(h, &a, s.now())
	}
}

// take charges a lump for a holder.
func (x *serving) take(ctx context.Context, h *Holder, rule *decide.LumpRule, sent int64) Answer {
	s, r := x.service, ruleOf(rule)
	if s.deps.Board != nil && sent-h.othersAt >= exchangeEvery {
		if others, err := s.exchange(ctx, h, &r, 0); err == nil {
			h.others, h.othersAt = others, sent
		} else {
			h.others = Demand{}
		}
	}
	var want, least int64
	s.locked(func() { want, least = s.book.Want(h, r, h.others, s.now()) })
	a := take(ctx, s.deps.Checker, h, rule, want, least, sent)
	if ctx.Err() != nil { // the stream ended, so that nobody gets the lump
		s.undo(context.WithoutCancel(ctx), h, &a)
	} else if s.deps.Board != nil && a.Units > 0 {
		_, _ = s.exchange(ctx, h, &r, a.Units) // only people need it
	}
	return a
}

// exchange sends the demand of this node, in which h holds units if they are above 0, and returns the demand of the
// other nodes.
func (s *Service) exchange(ctx context.Context, h *Holder, r *Rule, units int64) (Demand, error) {
	var own Demand
	s.locked(func() {
		own = s.book.Demand(h, r.Key)
		except := h
		if units == 0 {
			except = nil
		} else {
			own.Having, own.Held = 1, units
		}
		s.book.addHeld(&own, r.Key, except, s.now())
	})
	bounded, cancel := context.WithTimeout(ctx, second/4*time.Millisecond)
	defer cancel()
	return s.deps.Board.Exchange(bounded, r.Key, own, max(r.life(), boardLife))
}

// Held returns what proxies have of a bucket: on this node, and on others when these got units last.
func (s *Service) Held(ctx context.Context, key string) (d Demand) {
	if b := s.deps.Board; b != nil {
		bounded, cancel := context.WithTimeout(ctx, second/4*time.Millisecond)
		defer cancel()
		d, _ = b.Others(bounded, key) // else this node only
	}
	s.locked(func() { s.book.addHeld(&d, key, nil, s.now()) })
	return d
}

// undo gives back what a question has charged, or may have. It stays charged if that fails.
func (s *Service) undo(ctx context.Context, h *Holder, a *Answer) {
	if h.doubt != nil {
		_ = s.deps.Checker.GiveBackDoubt(ctx, h.doubt)
	}
	if l, _ := a.Token.(*decide.Lump); l != nil && a.Units > 0 {
		_ = s.deps.Checker.SettleLump(ctx, l, 0)
	}
}

// giveBack gives back what was not spent of a lump. It stays charged if that fails.
func (x *serving) giveBack(ctx context.Context, r *Return) func() {
	l, _ := r.Token.(*decide.Lump)
	if err := x.service.deps.Checker.SettleLump(ctx, l, r.Spent); err == nil {
		x.service.deps.Observe.CountQuota(UnitsReturned, r.Back)
	}
	return func() {}
}

// message returns the message with some actions, two for a lump: a changed token bucket would not begin full.
func (s *Service) message(list []Action) *quotav3.RateLimitQuotaResponse {
	m := &quotav3.RateLimitQuotaResponse{}
	for i := range list {
		a := &list[i]
		add := func(ttl int64, strategy *typev3.RateLimitStrategy) {
			m.BucketAction = append(m.BucketAction, &quotav3.RateLimitQuotaResponse_BucketAction{
				BucketId: &quotav3.BucketId{Bucket: a.Bucket},
				BucketAction: &quotav3.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{
					QuotaAssignmentAction: &quotav3.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{
						AssignmentTimeToLive: &durationpb.Duration{Seconds: ttl}, RateLimitStrategy: strategy,
					},
				},
			})
		}
		switch a.Act {
		case Abandon:
			m.BucketAction = append(m.BucketAction, &quotav3.RateLimitQuotaResponse_BucketAction{
				BucketId: &quotav3.BucketId{Bucket: a.Bucket},
				BucketAction: &quotav3.RateLimitQuotaResponse_BucketAction_AbandonAction_{
					AbandonAction: &quotav3.RateLimitQuotaResponse_BucketAction_AbandonAction{}},
			})
		case Deny:
			add(a.TTL, blanket(typev3.RateLimitStrategy_DENY_ALL))
		case Allow:
			add(a.TTL, blanket(typev3.RateLimitStrategy_ALLOW_ALL))
		case Spend:
			add(a.TTL, blanket(typev3.RateLimitStrategy_DENY_ALL))
			add(a.TTL, &typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_TokenBucket{
				TokenBucket: &typev3.TokenBucket{MaxTokens: uint32(min(a.Units, math.MaxUint32)), //nolint:gosec // bounded
					TokensPerFill: wrapperspb.UInt32(0), FillInterval: &durationpb.Duration{Seconds: 1}}}})
			s.deps.Observe.CountQuota(UnitsGranted, a.Units)
		}
	}
	return m
}

func blanket(r typev3.RateLimitStrategy_BlanketRule) *typev3.RateLimitStrategy {
	return &typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_BlanketRule_{BlanketRule: r}}
}
