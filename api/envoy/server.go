package envoy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"sluice/api/decide"
	"sluice/api/envoy/quota"
	"sluice/api/reply"
	"sluice/internal/access"
	"sluice/limiter"
)

// Deps are the dependencies of a Server. Checker, Access, Ready and Now are required.
type Deps struct {
	// Checker decides calls and has the rules and profiles in force.
	Checker *decide.Checker
	// Access holds the API tokens in force.
	Access *access.Current
	// OpenMode: the gRPC listener is on a loopback address.
	OpenMode bool
	// Certificates gives scopes to client certificates; nil gives none. The connections of Serve then have
	// the method Chains.
	Certificates *access.Certificates
	// Refused receives each call without sufficient credentials, with one of Endpoints; it may be nil.
	Refused func(endpoint string, r *access.Refusal)
	// Ready returns nil while the node can answer calls.
	Ready func() error
	// Now is the wall clock, for the expiry of tokens.
	Now func() time.Time
	// ResetDelta makes X-RateLimit-Reset seconds from now instead of seconds since the epoch.
	ResetDelta bool
	// LimitHeaders adds the headers RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset to the answers of the
	// RateLimitService.
	LimitHeaders bool
	// Quotas has the demand of other nodes for what proxies hold; nil if there are none.
	Quotas quota.Board
	// MaxAge is the age at which clients are asked for a new connection; 0 for never.
	MaxAge time.Duration
	// Observe receives every call. It may be nil.
	Observe Observer
	// Trace makes the spans of calls; nil makes none. With it, grpc-go serves all connections.
	Trace stats.Handler
	// Loop makes connections be served by the loop.
	Loop bool
	// Panicked is called after a panic; it may be nil.
	Panicked func()
	// Logger receives errors for operators; nil discards them.
	Logger *slog.Logger
}

// Observer counts calls. Its methods must be safe for concurrent use.
type Observer interface {
	// CountCall counts a call by its endpoint and by its result, words of Faces and of Results.
	CountCall(face, result string)
	// CountDomain counts a call of the RateLimitService by its domain, which has rules or a profile.
	CountDomain(domain, result string)
	// CountFlood counts a connection that was closed because of the frames of its client, by a word of Floods.
	CountFlood(reason string)
	quota.Observer
}

type nopObserver struct{}

func (nopObserver) CountCall(string, string)   {}
func (nopObserver) CountDomain(string, string) {}
func (nopObserver) CountFlood(string)          {}
func (nopObserver) HoldQuota(int, int)         {}
func (nopObserver) CountQuota(string, int64)   {}
func (nopObserver) RefuseQuota(string)         {}

// face is a way to call.
type face uint8

const (
	rateLimit face = iota
	authorization
	rls // the RateLimitService as JSON
	quotas
	faceCount
)

var faceNames = [faceCount]string{"ratelimit", "ext_authz", "rls", "quota"}

// origins are the names of the endpoints in records.
var origins = [faceCount]string{"envoy_ratelimit", "envoy_ext_authz", "envoy_rls", quota.Face}

// Endpoints are the gRPC endpoints that Deps.Refused receives. RLS is called behind a gate.
func Endpoints() []string {
	return []string{origins[rateLimit], origins[authorization], origins[quotas]}
}

// Faces are the values of the label face.
func Faces() []string { return faceNames[:] }

// What became of a call: values of a metric label.
const (
	resultAllowed        = "allowed"
	resultDenied         = "denied"
	resultUnavailable    = "unavailable"
	resultSkipped        = "skipped"
	resultMissingFact    = "missing_fact"
	resultUnknownDomain  = "unknown_domain"
	resultUnknownProfile = "unknown_profile"
	resultRefused        = "refused"
	resultInvalid        = "invalid"
	resultNotReady       = "not_ready"
	resultError          = "error"
)

// Results are all values of the label result.
func Results() []string {
	return []string{resultAllowed, resultDenied, resultUnavailable, resultSkipped, resultMissingFact,
		resultUnknownDomain, resultUnknownProfile, resultRefused, resultInvalid, resultNotReady, resultError}
}

// Server serves calls. It is safe for concurrent use.
type Server struct {
	deps     Deps
	gate     access.Gate
	style    reply.HeaderStyle
	grpc     func() *grpc.Server // the same each time; from the first on it has goroutines, which Close stops
	loop     *loop               // nil: grpc-go serves all connections
	health   *health
	quotas   *quota.Service
	buffers  sync.Pool // of *buffers
	profiles profiles
	// messageWait equals the constant of the package, except in tests.
	messageWait time.Duration
}

// New returns a Server. It fails only if a required dependency is missing.
func New(d Deps) (*Server, error) {
	if d.Checker == nil || d.Access == nil || d.Ready == nil || d.Now == nil {
		return nil, errors.New("envoy: Checker, Access, Ready and Now are required")
	}
	if d.Observe == nil {
		d.Observe = nopObserver{}
	}
	if d.Panicked == nil {
		d.Panicked = func() {}
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		deps: d, gate: access.Gate{Tokens: d.Access, OpenMode: d.OpenMode, Certificates: d.Certificates, Now: d.Now,
			Refused: d.Refused},
		style: reply.HeaderStyle{ResetDelta: d.ResetDelta}, health: newHealth(d.Ready),
		messageWait: messageWait,
	}
	s.quotas = quota.NewService(quota.Deps{Checker: d.Checker, Board: d.Quotas, Now: d.Now, Observe: d.Observe,
		Recovered: func(v any, stack []byte) error { return s.logPanic(quotas, v, stack) }, Logger: d.Logger})
	s.buffers.New = func() any { return newBuffers() }
	s.profiles.log = d.Logger
	s.grpc = sync.OnceValue(func() *grpc.Server { return s.newGRPC(quota.MaxMessage, grpc.NumStreamWorkers(workers)) })
	if d.Loop && d.Trace == nil {
		s.loop = newLoop(s)
	}
	return s, nil
}

// serve answers one call.
func (s *Server) serve(ctx context.Context, m *method, read func(any) error) (out any, err error) {
	x := s.takeBuffers(m)
	defer func() {
		if v := recover(); v != nil {
			err = s.recovered(m.face, v, debug.Stack()) // x may be in use
			out = nil
			return
		}
		s.deps.Observe.CountCall(faceNames[m.face], x.result)
		s.putBack(x)
	}()
	if err := read(&x.in); err != nil {
		return nil, err
	}
	arrived(ctx)
	if n := len(x.in.message); n > maxMessage {
		x.result = resultInvalid
		return nil, tooLarge(n)
	}
	a, _ := ctx.Value(admission{}).(*admission) // see begin
	if a == nil {
		a = &admission{}
		a.result, a.err = s.authorize(m.face, senderOf(ctx))
	}
	if a.err != nil {
		x.result = a.result
		return nil, a.err
	}
	if s.deps.Checker.Set() == nil {
		return nil, x.fail(decide.ErrNoSet)
	}
	bounded, err := withMargin(ctx)
	if err != nil {
		return nil, x.fail(err)
	}
	x.out.begin()
	if err := s.askAndWrite(bounded, x, m.read, m.write); err != nil {
		return nil, x.fail(err)
	}
	return x.out.take(), nil
}

// tooLarge is the error of a message above maxMessage, in the words of grpc-go.
func tooLarge(n int) error {
	return status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", n, maxMessage)
}

// recovered counts a call that ended in a panic, and logs that. It returns the status of the call.
func (s *Server) recovered(f face, v any, stack []byte) error {
	s.deps.Observe.CountCall(faceNames[f], resultError)
	return s.logPanic(f, v, stack)
}

// logPanic is recovered for a call that is counted elsewhere.
func (s *Server) logPanic(f face, v any, stack []byte) error {
	s.deps.Panicked()
	s.deps.Logger.Error("panic in a call of Envoy", "face", faceNames[f], "panic", fmt.Sprint(v), "stack", string(stack))
	return status.Error(codes.Internal, "The error was logged. Try again.")
}

// invalid is the error of a call that has no meaning.
type invalid struct{ error }

// fail returns the status of a call that was not answered, and reports its result to the observer.
func (x *buffers) fail(err error) error {
	var bad invalid
	var store *limiter.StoreError
	code := codes.Internal
	switch {
	case errors.As(err, &bad):
		if x.result == resultError {
			x.result = resultInvalid
		}
		code = codes.InvalidArgument
	case errors.Is(err, decide.ErrNoSet):
		x.result, code = resultNotReady, codes.Unavailable
	case errors.As(err, &store):
		x.result, code = resultUnavailable, codes.Unavailable
		err = errors.New("the counter store is unavailable")
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		x.result, code = resultUnavailable, codes.DeadlineExceeded
	default:
		err = errors.New("internal error")
	}
	return status.Error(code, err.Error())
}

// margin is the part of the caller's time that is reserved for the way back. A quarter of the rest, and at most
// maxReserve, is reserved for the fail modes and for the timers, as the engine does with its own timeout.
const (
	margin      = 3 * time.Millisecond
	reservePart = 4
	maxReserve  = 4 * time.Millisecond
)

// withMargin returns a context that ends so much before the caller's. It has no timer: the engine watches the deadline.
func withMargin(ctx context.Context) (context.Context, error) {
	until, ok := ctx.Deadline()
	if !ok {
		return ctx, nil
	}
	return &earlier{Context: ctx, deadline: lessMargin(until, clock())}, ctx.Err()
}

// lessMargin is so much before the time until which a caller waits.
func lessMargin(until, now time.Time) time.Time {
	until = until.Add(-margin)
	return until.Add(-max(0, min(until.Sub(now)/reservePart, maxReserve)))
}

type earlier struct {
	context.Context
	deadline time.Time
}

// Deadline implements context.Context.
func (e *earlier) Deadline() (time.Time, bool) { return e.deadline, true }
