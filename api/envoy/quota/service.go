package quota

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"sluice/api/decide"
)

// Face is where reports came in, for records.
const Face = "envoy_quota"

// Bounds of a node and of a stream.
const (
	maxStreams = 1000
	maxHolders = 300_000  // on all streams; each needs about half a KB
	maxNames   = 64 << 20 // bytes of their IDs; each is stored twice
	maxBuckets = 60_000   // on one stream; so many are 4 MiB
	// callerPart: one caller has at most this part of the streams, holders and names of a node.
	callerPart = 4
	// MaxMessage is the most bytes of a message of a proxy.
	MaxMessage = 4 << 20
	// maxTakes is how many questions of a stream are at the store at once.
	maxTakes = 16
	// maxActions bounds a message to a proxy.
	maxActions = 200
	// firstWait is how long a stream may be without a whole message. A message of 4 MiB fills the window of a stream, of
	// 64 KiB, 64 times, and each time takes a round trip.
	firstWait = 15 * time.Second
	// writeWait is how long a proxy may not read.
	writeWait = 10 * time.Second
	// admitEvery is how often the credentials of a stream are checked.
	admitEvery = time.Second
	// exchangeEvery is how often a node asks for the demand of other nodes, and boardLife the least time for which a
	// demand is valid, ms.
	exchangeEvery, boardLife = 5 * second, 10 * second
)

// Reasons why something was refused, besides decide.LumpRefusals: values of a metric label.
const (
	refusedInvalid = "invalid"
	refusedDomain  = "domain"
	refusedStreams = "too_many_streams"
	refusedCaller  = "too_many_of_caller"
	refusedBuckets = "too_many_buckets"
	refusedFlood   = "too_often"
)

// Refusals are all values of the label reason.
func Refusals() []string {
	return append(decide.LumpRefusals(), refusedInvalid, refusedDomain, refusedStreams, refusedCaller, refusedBuckets,
		refusedFlood)
}

// Units are what Observer counts: charged and sent to a proxy, reported as spent, and given back.
const (
	UnitsGranted  = "granted"
	UnitsSpent    = "spent"
	UnitsReturned = "returned"
	// UnitsDenied are the requests that proxies report as denied.
	UnitsDenied = "denied"
)

// Units are all values of the label what.
func Units() []string { return []string{UnitsGranted, UnitsSpent, UnitsReturned, UnitsDenied} }

// Observer counts. It is safe for concurrent use.
type Observer interface {
	// HoldQuota says how many streams and holders there are.
	HoldQuota(streams, holders int)
	// CountQuota counts units.
	CountQuota(what string, units int64)
	// RefuseQuota counts a stream or a question about a bucket that was refused.
	RefuseQuota(reason string)
}

// Deps are the dependencies of a Service. All but Board are required.
type Deps struct {
	Checker *decide.Checker
	// Board has the demand of other nodes; nil if there are none.
	Board Board
	// Now is the wall clock, of which only differences count.
	Now     func() time.Time
	Observe Observer
	// Recovered receives a panic, and returns the status of its stream.
	Recovered func(v any, stack []byte) error
	Logger    *slog.Logger
}

// Service serves streams. It is safe for concurrent use.
type Service struct {
	deps  Deps
	start time.Time

	mu      sync.Mutex
	book    *Book
	streams int
	callers map[string]*Caller // that have streams
	logged  map[string]int64   // when a refusal was logged last, by reason
}

// NewService returns a Service.
func NewService(d Deps) *Service {
	return &Service{deps: d, start: d.Now(), book: NewBook(), callers: map[string]*Caller{},
		logged: map[string]int64{}}
}

// Conn is a stream of gRPC. Recv returns an encoded RateLimitQuotaUsageReports of at most MaxMessage bytes.
type Conn interface {
	Context() context.Context
	Recv() ([]byte, error)
	Send(m *quotav3.RateLimitQuotaResponse) error
}

// now is the time of the Book.
func (s *Service) now() int64 { return s.deps.Now().Sub(s.start).Milliseconds() }

// Stream serves a stream until it ends, which is soon after admitted returns an error or stopped is closed. Streams
// with an equal caller are bounded together.
func (s *Service) Stream(conn Conn, caller string, admitted func() error, stopped <-chan struct{}) (err error) {
	defer s.caught(&err)
	x, err := s.open(caller)
	if err != nil {
		return err
	}
	defer s.close(x)
	ctx, cancel := context.WithCancel(conn.Context())
	defer x.takes.Wait()
	defer cancel()
	defer close(x.writes)
	go func() { x.failed <- x.read(conn) }() // the reader and the writer end with the stream
	go x.write(conn)
	first, timer, admit := time.NewTimer(firstWait), time.NewTimer(firstWait), time.NewTicker(admitEvery)
	defer first.Stop()
	defer timer.Stop()
	defer admit.Stop()
	for {
		select {
		case <-x.reported:
		case done := <-x.done:
			x.running--
			done()
		case err := <-x.written:
			if err != nil {
				return err
			}
			x.writing = time.Time{}
		case <-timer.C:
		case <-first.C:
			if x.silent() {
				return status.Error(codes.DeadlineExceeded, "no report came")
			}
		case <-admit.C:
			if err := admitted(); err != nil {
				return err
			}
			if !x.writing.IsZero() && s.deps.Now().Sub(x.writing) > writeWait {
				return status.Error(codes.ResourceExhausted, "the client does not read")
			}
		case err := <-x.failed:
			return err
		case <-stopped:
			return status.Error(codes.Unavailable, "the node is shutting down")
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
		if wait, ok := x.advance(ctx); ok {
			timer.Reset(wait)
		}
	}
}

// caught makes a panic that is under way the error of a stream. It is deferred.
func (s *Service) caught(err *error) {
	if v := recover(); v != nil {
		*err = s.deps.Recovered(v, debug.Stack())
	}
}

// locked calls do with mu locked, which a panic unlocks.
func (s *Service) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// open begins a stream.
func (s *Service) open(caller string) (*serving, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams >= maxStreams {
		s.refuse(refusedStreams, "")
		return nil, status.Errorf(codes.ResourceExhausted, "the node has %d streams", maxStreams)
	}
	c := s.callers[caller]
	if c == nil {
		c = &Caller{}
		s.callers[caller] = c
	}
	if c.streams >= maxStreams/callerPart {
		s.refuse(refusedCaller, "")
		return nil, status.Errorf(codes.ResourceExhausted, "these credentials have %d streams on the node, the most that "+
			"one "+
			"caller may have: give each group of proxies a token of its own, or use more nodes", maxStreams/callerPart)
	}
	s.streams++
	c.streams++
	x := &serving{
		service: s, stream: s.book.Open(c, maxBuckets), caller: caller, reported: make(chan struct{}, 1),
		done: make(chan func(), maxTakes), writes: make(chan *quotav3.RateLimitQuotaResponse, 1),
		written: make(chan error, 1), failed: make(chan error, 1+maxTakes),
	}
	s.observe()
	return x, nil
}

func (s *Service) close(x *serving) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.closed = true
	s.streams--
	x.stream.Close()
	if c := x.stream.caller; c.streams == 1 {
		delete(s.callers, x.caller)
	} else {
		c.streams--
	}
	s.observe()
}

// observe says how many streams and holders there are. mu is locked.
func (s *Service) observe() { s.deps.Observe.HoldQuota(s.streams, s.book.Holders()) }

// refuse counts a refusal, and logs it once a minute. mu is locked.
func (s *Service) refuse(reason, what string) {
	s.deps.Observe.RefuseQuota(reason)
	now := s.now()
	if last, ok := s.logged[reason]; ok && now-last < time.Minute.Milliseconds() {
		return
	}
	s.logged[reason] = now
	s.deps.Logger.Warn("a proxy gets no units; it denies by no_assignment_behavior", "reason", reason, "what", what)
}
