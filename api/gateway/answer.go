package gateway

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/internal/access"
	"sluice/rules/profile"
)

// Headers that only faces send. Package reply names the others.
const (
	// headerStatus is the status for the client, for faces whose answers need another status. It does not depend on the
	// headers of the profile.
	headerStatus = "X-RateLimit-Status"
	headerMode   = "X-RateLimit-Mode"
	headerDelay  = "X-RateLimit-Delay-Ms"
	headerLease  = "X-RateLimit-Lease"
)

// headerSet has bit i for profile.ClientHeaders[i].
type headerSet uint16

// headersOf returns the headers that a profile sends.
func headersOf(p *profile.Profile) (s headerSet) {
	for i, header := range profile.ClientHeaders {
		if p.Sends(header) {
			s |= 1 << i
		}
	}
	return s
}

// namesLimits are the headers that contain the names of limits. If a profile sends none of them, its denials do not
// name limits either.
var namesLimits = headersOf(&profile.Profile{Headers: []string{"RateLimit", "RateLimit-Policy"}})

// answer writes the answer to one question. It is reused.
type answer struct {
	w      http.ResponseWriter
	head   bool // the question has the method HEAD
	length bool // Content-Length must be set: net/http does not add it
	face   face
	shows  headerSet
	result string
	sent   bool

	// values holds the values of the headers, text the bytes that they share; scratch is memory for
	// HeaderStyle.Headers.
	text, scratch []byte
	ends          []headerEnd
	values        [20]string
}

// headerEnd is a header whose value ends at a place in answer.text.
type headerEnd struct {
	name string
	end  int
}

func (o *answer) begin(w http.ResponseWriter, r *http.Request, f face) {
	*o = answer{w: w, head: r.Method == http.MethodHead, length: r.ContentLength < 0, face: f, text: o.text[:0],
		scratch: o.scratch, ends: o.ends[:0]}
}

// Values of headers that never change; net/http only reads them.
var (
	problemType   = []string{"application/problem+json"}
	noStore       = []string{"no-store"}
	statusMissing = []string{"403"}
)

// send sends the answer of the engine.
func (o *answer) send(a *decide.Answer, style reply.HeaderStyle) {
	b := style.Headers(a, o.scratch[:0], o.put)
	if a.Degraded != "" {
		b = append(b[:0], a.Degraded...)
		o.put(headerMode, b)
	}
	if ms := a.Delay(); ms > 0 {
		b = strconv.AppendInt(b[:0], ms, 10)
		o.put(headerDelay, b)
	}
	if a.Lease != "" {
		b = append(b[:0], a.Lease...)
		o.put(headerLease, b)
	}
	o.scratch = b
	h := o.headers()
	if a.Allowed() {
		o.result = resultAllowed
		o.write(http.StatusOK, nil)
		return
	}
	o.result = resultDenied
	status := reply.Status(a)
	if status == http.StatusServiceUnavailable {
		o.result = resultUnavailable
	}
	if o.face == nginx {
		h[headerStatus], status = []string{strconv.Itoa(status)}, http.StatusForbidden
	}
	h["Content-Type"], h["Cache-Control"] = problemType, noStore
	o.text = reply.AppendShortDenial(o.text[:0], a, o.shows&namesLimits != 0)
	o.write(status, o.text)
}

// put adds a header, unless the profile hides it.
func (o *answer) put(name string, value []byte) {
	i := slices.Index(profile.ClientHeaders, name) // one of a dialect is not among them
	if i >= 0 && o.shows&(1<<i) == 0 || len(o.ends) == len(o.values) {
		return
	}
	o.text = append(o.text, value...)
	o.ends = append(o.ends, headerEnd{name, len(o.text)})
}

// headers adds what put collected to the headers of the response, as parts of one string.
func (o *answer) headers() http.Header {
	h := o.w.Header()
	text, from := string(o.text), 0
	for i, e := range o.ends {
		o.values[i] = text[from:e.end]
		h[e.name] = o.values[i : i+1 : i+1]
		from = e.end
	}
	return h
}

// skip allows a request that is not checked.
func (o *answer) skip() {
	o.result = resultSkipped
	o.write(http.StatusOK, nil)
}

// denyMissing denies a request because it lacks a fact.
func (o *answer) denyMissing(fact string) {
	if o.face == nginx {
		o.w.Header()[headerStatus] = statusMissing
	}
	o.refuse(resultMissingFact, reply.Forbidden.Problem("The request lacks the fact "+fact+
		", which the profile requires."))
}

// refuseProof answers a gateway that did not prove itself.
func (o *answer) refuseProof(err error) {
	var refused *access.Refusal
	if errors.As(err, &refused) && refused.Reason == access.NotLoaded {
		o.refuse(resultNotReady, err)
		return
	}
	o.refuse(resultNoProof, reply.Credentials.Problem(err.Error()).With("WWW-Authenticate", "Sluice-Token"))
}

// refuse answers a question that cannot be decided with a problem document. nginx passes a 401 on
// to the client and makes a 500 of a 404, so on its face these are 400.
func (o *answer) refuse(result string, err error) {
	o.result = result
	p, ok := reply.ProblemOf(err)
	if !ok {
		p = reply.Internal.Problem("Try again.")
	}
	if o.face == nginx && (p.Status == http.StatusNotFound || p.Status == http.StatusUnauthorized) {
		p.Status, p.Header = http.StatusBadRequest, nil
	}
	h := o.w.Header()
	for name, value := range p.Header {
		h[name] = []string{value}
	}
	h["Content-Type"], h["Cache-Control"] = problemType, noStore
	o.write(p.Status, p.ForClient(http.StatusText(p.Status)).JSON())
}

// write sends status and body. It copies the headers, whose memory is reused.
func (o *answer) write(status int, body []byte) {
	o.sent = true
	if o.head || o.length {
		o.w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	if o.head {
		body = nil
	}
	o.w.WriteHeader(status)
	if len(body) > 0 {
		_, _ = o.w.Write(body) // fails only if the gateway closed the connection
	}
}
