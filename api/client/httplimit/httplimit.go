package httplimit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sluice/api/client"
	"sluice/internal/tick"
	"sluice/rules/facts"
	"sluice/rules/host"
	"sluice/rules/profile"
)

// Options configure a Limiter. The zero Options check method, route, host and the address of the connection.
type Options struct {
	// Profile says which headers, cookies and claims the other facts come from, which methods are not checked, what a
	// missing fact means, and which client headers are sent. Fields that are empty have the defaults of a profile; name,
	// description and proof have no meaning here. Remember that a client sends what it likes: a program that
	// authenticates its users names them in Describe.
	Profile profile.Profile
	// TrustedProxies are the addresses and networks of proxies, added to Profile.ClientIP.Trusted. If one of them sends a
	// request with Profile.ClientIP.Header (X-Forwarded-For if empty), the client's address comes from that header, as for
	// a gateway, and the weight from the header of Profile.Weight. For any other request neither counts.
	TrustedProxies []string
	// Describe, if set, completes the check of a request: the authenticated user, a weight. It may replace it, such as by
	// a direct check.
	Describe func(*http.Request, *client.Check)
	// Skip, if set, names requests that are not checked.
	Skip func(*http.Request) bool
	// Near: this process decides frequent checks in its memory; see client.Near. Closing the client gives unused units
	// back.
	Near bool
	// Guard, if set, is a limit in this process that always holds, whether the service is available or not. A request
	// that it denies is not sent to the service and spends nothing there. A request that the service denies has spent
	// units of the guard. LocalLimit.Key names the bucket of a request. Each process counts for itself.
	Guard *client.LocalLimit
	// MostWaiting is how many requests, at least 1, may wait at once because the answer asks for a delay; 0 is 1,000.
	// While so many wait, further ones pass or are denied at once.
	MostWaiting int
	// OnError is called if a request could not be checked although the service is available: the token does not permit
	// it, or the check is invalid. The fail mode of the client then decides. nil logs with slog at level error.
	OnError func(*http.Request, error)
}

// Limiter limits requests. It is safe for concurrent use.
type Limiter struct {
	client  *client.Client
	check   func(context.Context, client.Check) (*client.Answer, error)
	guard   *client.Guard // nil: none
	opt     Options
	direct  *facts.Reader // of requests whose sender is not trusted
	proxied *facts.Reader
	trusted []netip.Prefix
	ipField string // the canonical name of the header with the client's address
	headers map[string]bool
	waiting atomic.Int64
}

const defaultWaiting = 1000

const defaultIPHeader = "X-Forwarded-For"

// New returns a Limiter that checks requests with c. An error names the wrong option.
func New(c *client.Client, opt Options) (*Limiter, error) {
	if c == nil {
		return nil, errors.New("httplimit: the client is nil")
	}
	if opt.MostWaiting < 0 {
		return nil, errors.New("httplimit: MostWaiting must be at least 1")
	}
	p := opt.Profile.Clone()
	p.Name = "httplimit" // which only has to be valid
	p.ClientIP.Trusted = append(p.ClientIP.Trusted, opt.TrustedProxies...)
	p.ClientIP.Header = cmp.Or(p.ClientIP.Header, defaultIPHeader)
	p.Normalize()
	if err := profile.Validate(&p); err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	l := &Limiter{client: c, opt: opt, ipField: http.CanonicalHeaderKey(p.ClientIP.Header), headers: map[string]bool{}}
	for _, text := range p.ClientIP.Trusted {
		network, err := host.ParseNetwork(text)
		if err != nil {
			return nil, fmt.Errorf("httplimit: %w", err)
		}
		l.trusted = append(l.trusted, network)
	}
	var err error
	if l.proxied, err = facts.New(&p); err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	p.ClientIP.Header, p.Weight = "", nil
	if l.direct, err = facts.New(&p); err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	for _, header := range profile.ClientHeaders {
		l.headers[header] = p.Sends(header)
	}
	if opt.Guard != nil {
		if l.guard, err = client.NewGuard(opt.Guard); err != nil {
			return nil, fmt.Errorf("httplimit: Guard: %w", err)
		}
	}
	if l.opt.MostWaiting == 0 {
		l.opt.MostWaiting = defaultWaiting
	}
	if l.opt.OnError == nil {
		l.opt.OnError = logError
	}
	if l.check = c.Check; opt.Near {
		l.check = client.NewNear(c, client.NearOptions{}).Check
	}
	return l, nil
}

func logError(r *http.Request, err error) {
	slog.ErrorContext(r.Context(), "a request could not be checked against its rate limits", "error", err)
}

// Handler returns a handler that runs next for the requests that are allowed. If next is an http.ServeMux, or if the
// handler is registered with one, the route is the pattern that matched, such as /users/{id}; if a pattern ends in /,
// the inner handler sees the rest of the path. Otherwise the route is the best match among Profile.Routes, or the path
// if none matches.
func (l *Limiter) Handler(next http.Handler) http.Handler {
	mux, _ := next.(*http.ServeMux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pattern := r.Pattern
		if mux != nil {
			_, pattern = mux.Handler(r)
		}
		l.Serve(w, r, routeOf(pattern), func(r *http.Request) { next.ServeHTTP(w, r) })
	})
}

// routeOf returns the route of a pattern of http.ServeMux, "" if the pattern does not say it.
func routeOf(pattern string) string {
	i := strings.IndexByte(pattern, '/')
	if i < 0 {
		return ""
	}
	path := pattern[i:] // without method and host
	if exact, ok := strings.CutSuffix(path, "{$}"); ok {
		return exact
	}
	if strings.HasSuffix(path, "/") {
		return ""
	}
	if strings.HasSuffix(path, "...}") {
		return path[:strings.LastIndexByte(path, '/')] + "/*"
	}
	return path
}

// Serve checks one request and either runs next or writes the denial. It is for routers whose middleware has another
// form. route is the template that the router matched, in the form of Sluice, or "" if it is unknown. The request that
// next gets carries the answer, see Answer.
func (l *Limiter) Serve(w http.ResponseWriter, r *http.Request, route string, next func(*http.Request)) {
	if l.opt.Skip != nil && l.opt.Skip(r) {
		next(r)
		return
	}
	var f facts.Facts
	if err := l.read(r, &f); err != nil {
		writeProblem(w, http.StatusBadRequest, client.Problem{Type: "about:blank", Title: "Bad Request",
			Status: http.StatusBadRequest, Detail: "The header " + err.Error() + "."})
		return
	}
	switch {
	case f.Skip:
		next(r)
		return
	case f.Denied != "":
		writeProblem(w, http.StatusForbidden, client.Problem{Type: "about:blank", Title: "Forbidden",
			Status: http.StatusForbidden, Detail: "The request lacks the fact " + f.Denied + "."})
		return
	}
	a := l.ask(r, l.question(r, route, &f))
	if a == nil {
		w.WriteHeader(http.StatusServiceUnavailable) // whoever ended the context may still read
		return
	}
	if a.Lease != "" {
		defer l.client.ReleaseLater(a.Lease)
	}
	l.setHeaders(w.Header(), r, a)
	switch {
	case !l.wait(r.Context(), time.Duration(a.DelayMS)*time.Millisecond):
		w.WriteHeader(http.StatusServiceUnavailable)
	case !a.Allowed:
		writeProblem(w, a.Status, l.bodyOf(a))
	default:
		next(r.WithContext(context.WithValue(r.Context(), answerKey{}, a)))
	}
}

// wait waits as long as an answer asks for, unless as many requests wait already as may. It returns false if the
// request's context ends.
func (l *Limiter) wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	defer l.waiting.Add(-1)
	return l.waiting.Add(1) > int64(l.opt.MostWaiting) || tick.Wait(ctx, d)
}

// read finds the facts of a request.
func (l *Limiter) read(r *http.Request, f *facts.Facts) error {
	reader := l.direct
	if len(r.Header[l.ipField]) > 0 && l.fromProxy(r) {
		reader = l.proxied
	}
	return reader.Read(&facts.Request{Method: r.Method, Target: r.URL.EscapedPath(), Host: r.Host, Header: r.Header,
		Peer: peerOf(r)}, f)
}

// peerOf returns the address of the connection; the zero address is a missing fact.
func peerOf(r *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	return from.Addr().Unmap().WithZone("")
}

// fromProxy reports whether one of the trusted proxies sent the request.
func (l *Limiter) fromProxy(r *http.Request) bool {
	peer := peerOf(r)
	return slices.ContainsFunc(l.trusted, func(p netip.Prefix) bool { return p.Contains(peer) })
}

// question makes the check of a request.
func (l *Limiter) question(r *http.Request, route string, f *facts.Facts) client.Check {
	d := &f.Descriptor
	q := client.Check{Method: d.Method, Route: cmp.Or(route, d.Route), Host: d.Host, User: d.User, APIKey: d.APIKey,
		Tier: d.Tier, Attributes: d.Attributes, Fields: d.Fields, UserAgent: userAgent(r), TraceID: traceID(r)}
	if d.IP.IsValid() {
		q.IP = d.IP.String()
	}
	if f.Weight != 1 {
		q.Weight = &f.Weight
	}
	if l.opt.Describe != nil {
		l.opt.Describe(r, &q)
	}
	return q
}

// userAgent is as much of the user agent as the decision log has.
func userAgent(r *http.Request) string {
	const most = 512
	agent := r.UserAgent()
	return strings.ToValidUTF8(agent[:min(len(agent), most)], "")
}

// traceID returns the trace id of the header traceparent (https://www.w3.org/TR/trace-context/), "" if there is none.
func traceID(r *http.Request) string {
	const length = 32
	if parts := strings.SplitN(r.Header.Get("Traceparent"), "-", 4); len(parts) == 4 && len(parts[1]) == length {
		return parts[1]
	}
	return ""
}

// ask returns the answer to a check, nil if the request's context has ended. If the guard denies, the service is not
// asked.
func (l *Limiter) ask(r *http.Request, q client.Check) *client.Answer {
	if l.guard != nil {
		if a := l.guard.Deny(&q); a != nil {
			return a
		}
	}
	a, err := l.check(r.Context(), q)
	switch {
	case err == nil:
		return a
	case r.Context().Err() != nil:
		return nil
	}
	l.opt.OnError(r, err)
	return l.client.Fallback(q, err)
}

// figures are the headers that belong together: they describe one decision.
var figures = []string{"RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining",
	"X-RateLimit-Reset", "X-RateLimit-Mode"}

func hasFigures(h http.Header) bool {
	return slices.ContainsFunc(figures, func(name string) bool { return h.Get(name) != "" })
}

// setHeaders writes the client headers of an answer. It leaves the figures to a gateway that sends its own, which it
// knows from the request, and to whoever has written some before the request was allowed.
func (l *Limiter) setHeaders(h http.Header, r *http.Request, a *client.Answer) {
	leaves := a.Allowed && hasFigures(h) || hasFigures(r.Header) && l.fromProxy(r)
	if !leaves {
		for _, name := range figures {
			h.Del(name)
		}
		if a.Degraded != "" && l.headers["X-RateLimit-Mode"] {
			h.Set("X-RateLimit-Mode", a.Degraded)
		}
	}
	for name, value := range a.Headers {
		if l.headers[name] && (!leaves || !slices.Contains(figures, name)) {
			h.Set(name, value)
		}
	}
}

// bodyOf returns the body of a denial. It has the names of limits only if the headers have them.
func (l *Limiter) bodyOf(a *client.Answer) json.RawMessage {
	var members map[string]json.RawMessage
	if l.headers["RateLimit"] || l.headers["RateLimit-Policy"] || json.Unmarshal(a.Body, &members) != nil {
		return a.Body
	}
	delete(members, "violated-policies")
	body, err := json.Marshal(members)
	if err != nil {
		return nil
	}
	return body
}

// writeProblem sends a problem document, or the notice for a request that is deferred.
func writeProblem(w http.ResponseWriter, status int, document any) {
	body, err := json.Marshal(document)
	if err != nil {
		body = []byte("{}")
	}
	kind := "application/problem+json"
	if status < http.StatusBadRequest {
		kind = "application/json"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only if the client closed the connection
}

// answerKey is the key of the answer in a request's context.
type answerKey struct{}

// Answer returns the answer that allowed a request: what remains, whether a fail mode decided, the Lease to renew while
// a long request runs. It is nil for a request that was not checked.
func Answer(ctx context.Context) *client.Answer {
	a, _ := ctx.Value(answerKey{}).(*client.Answer)
	return a
}
