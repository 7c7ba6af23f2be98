package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/internal/access"
	"sluice/limiter"
	"sluice/rules/facts"
	"sluice/rules/host"
	"sluice/rules/match"
	"sluice/rules/profile"
)

// Deps are the dependencies of a Handler. Checker, Access, Now and Next are required.
type Deps struct {
	// Checker decides requests and has the profiles in force.
	Checker *decide.Checker
	// Access holds the API tokens in force.
	Access *access.Current
	// Certificates gives scopes to client certificates; nil gives none.
	Certificates *access.Certificates
	// Refused receives each question of a gateway that did not prove itself, with one of Faces as endpoint; it may be
	// nil.
	Refused func(endpoint string, r *access.Refusal)
	// Now is the wall clock, for the expiry of tokens.
	Now func() time.Time
	// ResetDelta makes X-RateLimit-Reset seconds from now instead of seconds since the epoch.
	ResetDelta bool
	// Asked is called for every question with its face and its result, a word of Results. It may be nil.
	Asked func(face, result string)
	// Used is called with the name of a profile for the first question that was read by it, and again after an edit of the
	// profile. It must not block; it may be nil.
	Used func(profile string)
	// Panicked is called after a panic; it may be nil.
	Panicked func()
	// Logger receives errors for operators; nil discards them.
	Logger *slog.Logger
	// Next serves every other request.
	Next http.Handler
}

// face is the form of questions and answers that a kind of gateway understands.
type face uint8

const (
	forward face = iota
	nginx
	extAuthz
	faceCount
)

// faceNames are segments of paths, and values of a metric label.
var faceNames = [faceCount]string{"forward", "nginx", "ext_authz"}

// Faces are the names of the faces.
func Faces() []string { return faceNames[:] }

// What became of a question: values of a metric label.
const (
	resultAllowed        = "allowed"
	resultDenied         = "denied"
	resultUnavailable    = "unavailable"
	resultSkipped        = "skipped"
	resultMissingFact    = "missing_fact"
	resultUnknownProfile = "unknown_profile"
	resultNoProof        = "no_proof"
	resultMissingHeader  = "missing_header"
	resultBadHeader      = "bad_header"
	resultNotReady       = "not_ready"
	resultError          = "error"
)

// Results are all values of the label result.
func Results() []string {
	return []string{resultAllowed, resultDenied, resultUnavailable, resultSkipped, resultMissingFact,
		resultUnknownProfile, resultNoProof, resultMissingHeader, resultBadHeader, resultNotReady, resultError}
}

// Paths are the paths of the faces, as openapi.yaml writes them.
func Paths() []string {
	return []string{prefix + "forward/{profile}", prefix + "nginx/{profile}", prefix + "ext_authz/{profile}/{path}"}
}

const prefix = "/ratelimit/"

// Route returns the element of Paths that matches a question, "" for every other request.
func Route(r *http.Request) string {
	if f, _, ok := faceOf(target(r)); ok {
		return Paths()[f]
	}
	return ""
}

// target is the path and the query of a request, as they were sent.
func target(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") {
		return r.RequestURI
	}
	return r.URL.RequestURI() // it was a whole URL
}

// Handler answers the questions of gateways. It is safe for concurrent use and starts no goroutine.
type Handler struct {
	deps    Deps
	gate    access.Gate
	style   reply.HeaderStyle
	buffers sync.Pool // of *buffers
	// compiled has the compiled profiles by name; mu is locked to replace it.
	compiled atomic.Pointer[map[string]*usable]
	mu       sync.Mutex
}

// New returns a Handler. It fails only if a required dependency is missing.
func New(d Deps) (*Handler, error) {
	if d.Checker == nil || d.Access == nil || d.Now == nil || d.Next == nil {
		return nil, errors.New("gateway: Checker, Access, Now and Next are required")
	}
	if d.Asked == nil {
		d.Asked = func(string, string) {}
	}
	if d.Used == nil {
		d.Used = func(string) {}
	}
	if d.Panicked == nil {
		d.Panicked = func() {}
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	gate := access.Gate{Tokens: d.Access, Certificates: d.Certificates, Now: d.Now, Refused: d.Refused}
	h := &Handler{deps: d, gate: gate, style: reply.HeaderStyle{ResetDelta: d.ResetDelta}}
	h.buffers.New = func() any { return new(buffers) }
	h.compiled.Store(&map[string]*usable{})
	return h, nil
}

// buffers is the pooled memory of one question.
type buffers struct {
	request facts.Request
	facts   facts.Facts
	q       decide.Question
	a       decide.Answer
	out     answer
}

// maxPooled keeps the memory of the largest answers out of the pool, in bytes.
const maxPooled = 16 << 10

func (h *Handler) putBack(x *buffers) {
	if cap(x.out.text) > maxPooled || cap(x.a.Limits) > limiter.MaxLimits {
		return
	}
	x.request, x.q = facts.Request{}, decide.Question{}
	x.facts.Forget()
	x.a.Forget()
	h.buffers.Put(x)
}

// ServeHTTP answers a question, or passes the request to Next. It reads neither the body nor the
// query: gateways pass on the client's query.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, rest, ok := faceOf(target(r))
	if !ok {
		h.deps.Next.ServeHTTP(w, r)
		return
	}
	x, _ := h.buffers.Get().(*buffers)
	x.out.begin(w, r, f)
	defer func() {
		if v := recover(); v != nil {
			h.recovered(&x.out, v)
			return // x may be in use
		}
		h.deps.Asked(faceNames[f], x.out.result)
		h.putBack(x)
	}()
	if r.ContentLength != 0 {
		sendFirst(w, r)
	}
	h.answer(x, rest, r)
	if r.ContentLength < 0 {
		h.discardBody(w, r)
	}
}

// faceOf finds the face of a path. rest is what follows the name of the face.
func faceOf(target string) (f face, rest string, ok bool) {
	target, ok = strings.CutPrefix(target, prefix)
	if !ok {
		return 0, "", false
	}
	for f, name := range faceNames {
		if rest, ok := strings.CutPrefix(target, name); ok && strings.HasPrefix(rest, "/") {
			return face(f), rest[1:], true //nolint:gosec // f < faceCount
		}
	}
	return 0, "", false
}

// answer answers a question. rest is the path from the profile on, with the query.
func (h *Handler) answer(x *buffers, rest string, r *http.Request) {
	out := &x.out
	set := h.deps.Checker.Set()
	if set == nil {
		out.refuse(resultNotReady, decide.ErrNoSet)
		return
	}
	end := strings.IndexAny(rest, "/?#")
	name, path := rest, ""
	if end >= 0 {
		name, path = rest[:end], rest[end:]
	}
	p := noProfile
	if stored := set.Profile(name); stored != nil && (out.face == extAuthz || !strings.HasPrefix(path, "/")) {
		p = h.profile(set, stored)
	}
	call := callOf(r)
	call.Endpoint = faceNames[out.face]
	if err := h.gate.AdmitGateway(call, &p.proof); err != nil {
		if out.refuseProof(err); p == noProfile && out.result == resultNoProof {
			out.result = resultUnknownProfile
		}
		return
	}
	if p == noProfile {
		out.refuse(resultUnknownProfile, reply.NotFound.Problem("There is no profile of this name. "+
			"GET /ratelimit/profiles lists the profiles."))
		return
	}
	if p.reader == nil {
		out.refuse(resultError, reply.Internal.Problem("The profile cannot be used by this node. The error was logged."))
		return
	}
	out.shows = p.shows
	wait, err := reply.TimeoutIn(r.Header)
	if err != nil {
		out.refuse(resultBadHeader, err)
		return
	}
	if missing := x.describe(p, path, r); missing != "" {
		out.refuse(resultMissingHeader, reply.Malformed.Problem("The header "+missing+" is missing. "+
			"The gateway must send it with every question."))
		return
	}
	ctx := r.Context()
	if wait > 0 {
		ctx = decide.WithGatewayPatience(ctx, wait)
	}
	h.decide(ctx, x, p, r)
}

// decide reads the facts, asks the engine and sends the answer.
func (h *Handler) decide(ctx context.Context, x *buffers, p *usable, r *http.Request) {
	out := &x.out
	if err := p.reader.Read(&x.request, &x.facts); err != nil {
		out.refuse(resultBadHeader, reply.Malformed.Problem("The header "+err.Error()+"."))
		return
	}
	if !p.used.Load() && p.used.CompareAndSwap(false, true) {
		h.deps.Used(p.stored.Name)
	}
	switch {
	case x.facts.Skip:
		out.skip()
		return
	case x.facts.Denied != "":
		out.denyMissing(x.facts.Denied)
		return
	}
	x.q = decide.Question{Op: limiter.OpTake, Descriptor: x.facts.Descriptor, Weight: x.facts.Weight,
		Dialect: p.stored.Dialect, Origin: decide.Origin{Face: faceNames[out.face], UserAgent: r.UserAgent(),
			TraceID: decide.TraceOf(r.Header.Get("Traceparent"))}}
	if err := h.deps.Checker.Do(ctx, &x.q, &x.a); err != nil {
		out.refuse(resultError, err)
		return
	}
	out.send(&x.a, h.style)
}

// describe fills in the client's request. It returns the name of a header that the gateway must
// send and did not, or "".
func (x *buffers) describe(p *usable, path string, r *http.Request) (missing string) {
	x.request = facts.Request{Method: r.Method, Target: path, Host: r.Host, Header: r.Header}
	if out := &x.out; out.face == extAuthz {
		if !strings.HasPrefix(path, "/") {
			x.request.Target = "/" // with or without a query
		}
	} else {
		x.request.Method, x.request.Target = last(r.Header["X-Forwarded-Method"]), last(r.Header["X-Forwarded-Uri"])
		host := last(r.Header["X-Forwarded-Host"]) // absent if an HTTP/1.0 client sent none
		// Apache adds its host to the client's line.
		x.request.Host = strings.TrimSpace(host[strings.LastIndexByte(host, ',')+1:])
		switch {
		case x.request.Method == "":
			return "X-Forwarded-Method"
		case x.request.Target == "":
			return "X-Forwarded-Uri"
		case len(r.Header[p.addressHeader]) == 0:
			return p.addressHeader
		}
	}
	return ""
}

// last returns the last value of a header: what the gateway itself added, if it adds to what the
// client sent.
func last(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return strings.TrimSpace(values[len(values)-1])
}

// peer returns the address of the connection.
func peer(r *http.Request) netip.Addr {
	addr, _ := netip.ParseAddrPort(r.RemoteAddr) // the zero address matches nothing
	return addr.Addr()
}

// callOf describes the sender of a question by facts that no client of the gateway can set.
func callOf(r *http.Request) access.GatewayCall {
	call := access.GatewayCall{Token: r.Header["Sluice-Token"], Peer: peer(r)}
	if r.TLS != nil {
		call.Chains = r.TLS.VerifiedChains
	}
	return call
}

// sendFirst makes net/http send the answer without waiting for the body. Some gateways copy the Content-Length of the
// client's request and send no body. The next bytes on such a connection could be the body or another question, so the
// connection is closed.
func sendFirst(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	// Where this is not supported, the answer may wait for the body until the read timeout.
	if r.ContentLength < 0 { // chunked: the end is known
		_ = c.EnableFullDuplex()
		return
	}
	w.Header()["Connection"] = closeConnection
	_ = c.SetReadDeadline(longAgo)
}

// maxBody is the number of bytes of a chunked body that are read to keep its connection. lingering is how long the rest
// is read before the connection is closed, so that the gateway receives the answer and no reset.
const (
	maxBody   = 64 << 10
	lingering = 500 * time.Millisecond
)

// discardBody reads a chunked body after the answer. If its end does not come, it closes the connection: net/http
// would read the rest, which a client wrote, as further requests.
func (h *Handler) discardBody(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	if c.Flush() != nil {
		return
	}
	if n, err := io.CopyN(io.Discard, r.Body, maxBody); n < maxBody && errors.Is(err, io.EOF) {
		return
	}
	conn, _, err := c.Hijack()
	if err != nil {
		return // not a connection of HTTP/1
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	if conn.SetReadDeadline(h.deps.Now().Add(lingering)) == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
	_ = conn.Close()
}

var (
	closeConnection = []string{"close"}
	longAgo         = time.Unix(1, 0)
)

// recovered ends a question whose handler panicked.
func (h *Handler) recovered(out *answer, v any) {
	if v == http.ErrAbortHandler { //nolint:errorlint // the value that net/http documents
		panic(v)
	}
	h.deps.Panicked()
	h.deps.Asked(faceNames[out.face], resultError)
	h.deps.Logger.Error("panic in a gateway's question", "face", faceNames[out.face], "panic", fmt.Sprint(v), "stack",
		string(debug.Stack()))
	if !out.sent {
		out.refuse(resultError, reply.Internal.Problem("The error was logged. Try again."))
	}
}

// profile is a profile that is ready for use.
type usable struct {
	stored *profile.Profile
	reader *facts.Reader // nil if the profile cannot be used
	proof  access.GatewayProof
	// addressHeader is the canonical name of the header with the client's address.
	addressHeader string
	shows         headerSet
	// used is set once the profile has read a question.
	used atomic.Bool
}

// noProfile stands for a name that no profile has. A token of the scope check is answered that there is none.
var noProfile = &usable{proof: access.GatewayProof{Token: true}}

// profile returns the compiled form of a profile of the set in force.
func (h *Handler) profile(set *match.Set, stored *profile.Profile) *usable {
	if p := (*h.compiled.Load())[stored.Name]; p != nil && p.stored == stored {
		return p
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	next := map[string]*usable{}
	for name, p := range *h.compiled.Load() {
		if set.Profile(name) == p.stored {
			next[name] = p
		}
	}
	p := next[stored.Name]
	if p == nil {
		p = h.compile(stored)
		next[stored.Name] = p
	}
	h.compiled.Store(&next)
	return p
}

// compile compiles a profile. One that cannot be used answers no gateway.
func (h *Handler) compile(stored *profile.Profile) *usable {
	p := &usable{
		stored: stored, addressHeader: http.CanonicalHeaderKey(stored.ClientIP.Header), shows: headersOf(stored),
		proof: access.GatewayProof{Token: stored.Proof.Token, Certificates: stored.Proof.Certificates},
	}
	reader, err := facts.New(stored)
	for _, text := range stored.Proof.Networks {
		network, bad := host.ParseNetwork(text)
		if err = errors.Join(err, bad); bad == nil {
			p.proof.Networks = append(p.proof.Networks, network)
		}
	}
	if err != nil {
		h.deps.Logger.Error("a profile cannot be used", "profile", stored.Name, "version", stored.Version, "error", err)
		return p
	}
	p.reader = reader
	return p
}
