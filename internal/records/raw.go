package records

import (
	"encoding/binary"
	"math"
	"net/netip"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// The raw form of an event is what a check copies: numbers and the bytes of its texts, as they are. It is read once,
// in the order in which it was written, by the goroutine of the same Log.

// maxRawLimits bounds the limits of an event. The strictest one is always among them.
const maxRawLimits = 128

// drawn says how an event came to be recorded.
type drawn struct {
	now   int64 // the node's clock, ms since the epoch
	rate  float64
	drawn bool
}

// rawLimit is one limit in raw form.
type rawLimit struct {
	key, rule, degraded     string
	mode                    string
	direct, known, returned bool
	allowed, overloaded     bool
	conditionFailed         bool
	spec                    limiter.Limit
	version, weight         int64
	limit, used, retry      int64
}

// rawEvent is an event in raw form.
type rawEvent struct {
	folded              int64
	at                  int64
	by                  drawn
	op                  limiter.Op
	allowed             bool
	status              int
	degraded            string
	weight, retry       int64
	reserve, granted    int64
	decided             *decide.Decisions
	onlyBans            bool
	overloaded, unsure  bool
	strictest           int
	id                  string
	face, agent, trace  string
	hasFacts            bool
	method, route, host string
	ip                  netip.Addr
	user, apiKey, tier  string
	attributes          []pair
	fields              []number
	limits              []rawLimit
	more                int // limits left out
}

type pair struct{ name, value string }

type number struct {
	name  string
	value int64
}

// appendRaw copies a decision. The first eight bytes are the number of folded denials, for setFolded.
func appendRaw(b []byte, by drawn, d *decide.Decision) []byte {
	a, q := d.Answer, d.Question
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	at := a.At
	if at == 0 || a.Replayed { // the stored answer to a repeat has the time of the first request
		at = by.now
	}
	retry, _ := a.RetryAfter()
	if a.Allowed() {
		retry = 0
	}
	b = appendInt(b, at)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(by.rate))
	settled := d.Settled != nil && len(d.Settled.Fields) > 0
	b = appendBools(b, by.drawn, a.Allowed(), q != nil && !q.IsDirect || settled, q != nil && q.OnlyBans,
		a.Verdict == decide.Overloaded, a.DeferralUnknown())
	b = append(b, byte(a.Op))
	b = appendInt(b, int64(reply.Status(a)))
	b = appendText(b, a.Degraded)
	b = appendInt(b, retry)
	b = appendInt(b, a.ExpiresIn)
	b = appendInt(b, grantedOf(d))
	b = appendText(b, d.ID)
	b = appendText(appendText(appendText(b, d.Origin.Face), d.Origin.UserAgent), d.Origin.TraceID)
	var weight int64
	switch {
	case q != nil:
		weight = q.Weight * max(1, grantedOf(d))
	case d.Settled != nil:
		weight = max(-1, d.Settled.Weight)
	case a.Strictest >= 0:
		weight = a.Limits[a.Strictest].Weight
	}
	b = appendInt(b, weight)
	if q != nil && !q.IsDirect {
		b = appendFacts(b, &q.Descriptor)
	} else if settled {
		b = appendFacts(b, &match.Descriptor{Fields: d.Settled.Fields})
	}
	if by := decisionsOf(d); by != nil {
		b = appendInt(appendInt(append(b, 1), by.Allowed), by.Denied)
	} else {
		b = append(b, 0)
	}
	return appendLimits(b, a)
}

// grantedOf returns the number of requests that a check grants for its caller to decide, 0 for other checks.
func grantedOf(d *decide.Decision) int64 {
	if !d.Lease {
		return 0
	}
	return d.Answer.Granted
}

// decisionsOf returns the decisions of the caller that a settle reports, nil if there are none.
func decisionsOf(d *decide.Decision) *decide.Decisions {
	if d.Settled == nil {
		return nil
	}
	return d.Settled.Decisions
}

func appendFacts(b []byte, d *match.Descriptor) []byte {
	for _, text := range [...]string{d.Method, d.Route, d.Host, d.User, d.APIKey, d.Tier} {
		b = appendText(b, text)
	}
	if d.IP.IsValid() {
		ip := d.IP.Unmap()
		if ip.Is4() {
			four := ip.As4()
			b = append(append(b, 4), four[:]...)
		} else {
			six := ip.As16()
			b = append(append(b, 16), six[:]...)
		}
	} else {
		b = append(b, 0)
	}
	b = appendInt(b, int64(len(d.Attributes)))
	for name, v := range d.Attributes {
		b = appendText(appendText(b, name), v)
	}
	b = appendInt(b, int64(len(d.Fields)))
	for name, v := range d.Fields {
		b = appendInt(appendText(b, name), v)
	}
	return b
}

// appendLimits copies the limits, the strictest one first if there are too many.
func appendLimits(b []byte, a *decide.Answer) []byte {
	limits, strictest := a.Limits, a.Strictest
	more := max(0, len(limits)-maxRawLimits)
	if more > 0 {
		limits = limits[:maxRawLimits]
	}
	var last *decide.LimitAnswer
	if strictest >= len(limits) {
		last, strictest = &a.Limits[strictest], len(limits)-1
	}
	b = appendInt(b, int64(strictest))
	b = appendInt(b, int64(more))
	b = appendInt(b, int64(len(limits)))
	for i := range limits {
		if last != nil && i == strictest {
			b = appendLimit(b, last)
			continue
		}
		b = appendLimit(b, &limits[i])
	}
	return b
}

func appendLimit(b []byte, la *decide.LimitAnswer) []byte {
	b = appendText(b, string(la.Key))
	b = appendText(b, la.Name())
	b = appendText(b, la.Degraded)
	b = appendBools(b, la.Direct, la.Known, la.Returned, la.Decision.Allowed, la.Shadow, la.Candidate,
		la.Overloaded, la.ConditionFailed)
	for _, n := range [...]int64{la.Version, la.Weight, la.Decision.Limit, la.Decision.Used, la.Decision.RetryAfter} {
		b = appendInt(b, n)
	}
	if la.Direct {
		l := la.Limit
		b = append(b, byte(l.Algorithm), byte(l.Align))
		for _, n := range [...]int64{l.Count, l.Window, l.Burst, l.Anchor, l.Buckets} {
			b = appendInt(b, n)
		}
	}
	return b
}

// setFolded sets the number of further denials that a raw event represents.
func setFolded(raw []byte, n int64) { binary.LittleEndian.PutUint64(raw, uint64(n)) } //nolint:gosec // n is positive

// readRaw decodes raw into e. The texts share one copy of raw, and the slices of e are reused.
func (e *rawEvent) readRaw(raw []byte) {
	r := reader{text: string(raw)}
	*e = rawEvent{attributes: e.attributes[:0], fields: e.fields[:0], limits: e.limits[:0]}
	e.folded = int64(r.fixed()) //nolint:gosec // written by setFolded
	e.at = r.int()
	e.by.rate = math.Float64frombits(r.fixed())
	flags := r.byte()
	e.by.drawn, e.allowed, e.hasFacts = flags&1 != 0, flags&2 != 0, flags&4 != 0
	e.onlyBans, e.overloaded, e.unsure = flags&8 != 0, flags&16 != 0, flags&32 != 0
	e.op = limiter.Op(r.byte())
	e.status = int(r.int())
	e.degraded = r.string()
	e.retry = r.int()
	e.reserve, e.granted = r.int(), r.int()
	e.id = r.string()
	e.face, e.agent, e.trace = r.string(), r.string(), r.string()
	e.weight = r.int()
	if e.hasFacts {
		e.readFacts(&r)
	}
	if r.byte() == 1 {
		e.decided = &decide.Decisions{Allowed: r.int(), Denied: r.int()}
	}
	e.strictest = int(r.int())
	e.more = int(r.int())
	for range r.int() {
		e.limits = append(e.limits, r.limit())
	}
}

func (e *rawEvent) readFacts(r *reader) {
	e.method, e.route, e.host = r.string(), r.string(), r.string()
	e.user, e.apiKey, e.tier = r.string(), r.string(), r.string()
	if n := int(r.byte()); n > 0 {
		e.ip, _ = netip.AddrFromSlice([]byte(r.take(n)))
	}
	for range r.int() {
		e.attributes = append(e.attributes, pair{r.string(), r.string()})
	}
	for range r.int() {
		e.fields = append(e.fields, number{r.string(), r.int()})
	}
}

func (r *reader) limit() rawLimit {
	l := rawLimit{key: r.string(), rule: r.string(), degraded: r.string()}
	flags := r.byte()
	l.direct, l.known, l.returned, l.allowed = flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0
	l.overloaded, l.conditionFailed = flags&64 != 0, flags&128 != 0
	switch {
	case flags&32 != 0:
		l.mode = decide.ModeCandidate
	case flags&16 != 0:
		l.mode = rules.ModeShadow
	default:
		l.mode = rules.ModeEnforce
	}
	l.version, l.weight, l.limit, l.used, l.retry = r.int(), r.int(), r.int(), r.int(), r.int()
	if l.direct {
		l.spec.Algorithm, l.spec.Align = limiter.Algorithm(r.byte()), limiter.Align(r.byte())
		l.spec.Count, l.spec.Window, l.spec.Burst, l.spec.Anchor, l.spec.Buckets = r.int(), r.int(), r.int(), r.int(), r.int()
	}
	return l
}

func appendInt(b []byte, n int64) []byte { return binary.AppendVarint(b, n) }

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendBools(b []byte, bits ...bool) []byte {
	var n byte
	for i, bit := range bits {
		if bit {
			n |= 1 << i
		}
	}
	return append(b, n)
}

// reader reads what the functions above wrote. Nobody else writes it, so it has no errors.
type reader struct{ text string }

func (r *reader) take(n int) string {
	s := r.text[:n]
	r.text = r.text[n:]
	return s
}

func (r *reader) byte() byte { return r.take(1)[0] }

func (r *reader) fixed() uint64 { return binary.LittleEndian.Uint64([]byte(r.take(8))) }

func (r *reader) int() int64 {
	u := r.uint()
	return int64(u>>1) ^ -int64(u&1) //nolint:gosec // as binary.Varint does
}

func (r *reader) uint() (u uint64) {
	for shift := 0; ; shift += 7 {
		c := r.byte()
		if u |= uint64(c&0x7f) << shift; c < 0x80 {
			return u
		}
	}
}

func (r *reader) string() string { return r.take(int(r.uint())) } //nolint:gosec // the length of a string
