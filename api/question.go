package api

import (
	"net/netip"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
)

// question validates what was read and makes the Question.
func (in *checkInput) question(op limiter.Op, q *decide.Question) {
	*q = decide.Question{Op: op, Weight: 1, RequestID: in.text[inRequestID]}
	if in.given(inWeight) {
		q.Weight = in.number[inWeight]
	}
	if in.given(inKey) {
		in.direct(q)
	} else {
		in.described(q)
	}
	in.operation(q)
	if in.given(inPayload) {
		in.payload(q)
	}
	if in.given(inTTL) && !in.reserve {
		in.wrong("ttl_ms", "is allowed only in a reserve")
	}
}

// payload says that a request may be deferred, and with what. A look never is.
func (in *checkInput) payload(q *decide.Question) {
	switch {
	case in.element > 0:
		in.wrong("payload", "is not allowed in a batch; check requests that can be deferred one at a time")
	case q.Op != limiter.OpTake || in.reserve:
		in.wrong("payload", "is allowed only in a check")
	case q.IsDirect:
		in.wrong("payload", "is not allowed with key; only rules defer requests")
	default:
		q.Deferrable, q.Payload = q.Weight > 0, in.text[inPayload]
	}
}

// direct makes the Question of a caller who brings the limit.
func (in *checkInput) direct(q *decide.Question) {
	q.IsDirect = true
	for i := inMethod; i <= inFields; i++ {
		if in.given(i) {
			in.wrong(checkMembers[i], "is not allowed with key; send either key and limit, or the facts of a request")
		}
	}
	if in.text[inKey] == "" && !in.complained("key") {
		in.wrong("key", "must be 1 to %d bytes long", maxText)
	}
	for _, i := range []int{inLimit, inWindow} {
		if !in.given(i) {
			in.wrong(checkMembers[i], "is required with key")
		}
	}
	q.Direct.Key = in.text[inKey]
	q.Direct.FailMode = in.failMode()
	in.limit(q)
}

func (in *checkInput) failMode() string {
	switch m := in.text[inFailMode]; {
	case !in.given(inFailMode) || in.complained("fail_mode"):
	case m == rules.FailOpen, m == rules.FailClosed, m == rules.FailLocal:
		return m
	default:
		in.wrong("fail_mode", "must be open, closed or local")
	}
	return rules.FailOpen
}

// limit resolves the limit, adding what is wrong with it unless the same field
// has been named already.
func (in *checkInput) limit(q *decide.Question) {
	spec := rules.LimitSpec{Algorithm: in.text[inAlgorithm], Limit: in.number[inLimit], WindowMS: in.number[inWindow]}
	if in.given(inAlgorithm) && spec.Algorithm == "" && !in.complained("algorithm") {
		_, err := limiter.ParseAlgorithm("")
		in.wrong("algorithm", "%s", err)
	}
	if in.given(inBurst) {
		spec.Burst = &in.number[inBurst]
	}
	if in.given(inAlign) {
		spec.Align = &in.text[inAlign]
	}
	if in.given(inAnchor) {
		spec.AnchorMS = &in.number[inAnchor]
	}
	if in.given(inBuckets) {
		spec.Buckets = &in.number[inBuckets]
	}
	l, err := spec.Resolve()
	if ve, ok := err.(*rules.ValidationError); ok { //nolint:errorlint // Resolve promises exactly this type
		for _, f := range ve.Fields {
			if !in.complained(f.Field) {
				in.wrong(f.Field, "%s", f.Message)
			}
		}
	}
	q.Direct.Limit = l
}

// complained: the field has an error already.
func (in *checkInput) complained(field string) bool {
	for i := range in.errs {
		if in.errs[i].Field == in.path(field) {
			return true
		}
	}
	return false
}

// described makes the Question of a caller who describes the request.
func (in *checkInput) described(q *decide.Question) {
	for i := inLimit; i <= inFailMode; i++ {
		if in.given(i) {
			in.wrong(checkMembers[i], "requires key; without key, limits come from the rules")
		}
	}
	facts := false
	for i := inMethod; i <= inFields; i++ {
		facts = facts || in.given(i)
	}
	if !facts && len(in.errs) == 0 {
		in.wrong("key", "is missing; send either key, limit and window_ms, or facts of the request such as method, route, ip or user")
	}
	d := &q.Descriptor
	d.Method, d.Route, d.User = in.text[inMethod], in.text[inRoute], in.text[inUser]
	d.APIKey, d.Tier = in.text[inAPIKey], in.text[inTier]
	d.Attributes, d.Fields = in.attributes, in.fields
	if in.given(inIP) && !in.complained("ip") {
		ip, err := netip.ParseAddr(in.text[inIP])
		if err != nil {
			in.wrong("ip", "must be an IPv4 or IPv6 address")
		}
		d.IP = ip
	}
}

// operation checks what only some operations demand.
func (in *checkInput) operation(q *decide.Question) {
	leases := q.IsDirect && q.Direct.Limit.Algorithm.Slots()
	switch q.Op {
	case limiter.OpRelease, limiter.OpRenew:
		if q.IsDirect && !leases && q.Direct.Limit.Algorithm != 0 && !in.complained("algorithm") {
			in.wrong("algorithm", "must be concurrency; only concurrency leases can be released or renewed")
		}
		if q.RequestID == "" && !in.complained("request_id") {
			in.wrong("request_id", "is required; it identifies the lease")
		}
	case limiter.OpCharge:
		if leases {
			in.wrong("algorithm", "must not be concurrency; leases are taken by a check and cannot be charged")
		}
	case limiter.OpRefund:
		if leases && q.RequestID == "" {
			in.wrong("request_id", "is required; it identifies the lease to release")
		}
	}
}
