package api

import (
	"fmt"
	"strconv"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
)

// readLimits reads the array of several direct limits.
func (in *checkInput) readLimits(s *scanner, depth int) error {
	if s.peek() != '[' {
		in.wrong("limits", "must be an array")
		return s.skip(depth)
	}
	s.pos++
	for n := 0; ; n++ {
		ok, err := s.more(']', n)
		if err != nil {
			return err
		}
		if !ok {
			if n == 0 || n > decide.MaxDirect {
				in.wrong("limits", "must have 1 to %d elements", decide.MaxDirect)
			}
			return nil
		}
		at := fmt.Sprintf("limits[%d]", n)
		if s.peek() != '{' {
			in.wrong(at, "must be an object")
			if err := s.skip(depth + 1); err != nil {
				return err
			}
			continue
		}
		one := checkInput{list: in.list, element: in.element, under: at + "."}
		if err := one.read(s, depth+1); err != nil {
			return err
		}
		if n < decide.MaxDirect {
			in.limits = append(in.limits, one)
		}
	}
}

// direct validates a direct limit.
func (in *checkInput) direct() decide.Direct {
	if in.text[inKey] == "" && !in.complained("key") {
		in.wrong("key", "must be 1 to %d bytes long", maxText)
	}
	for _, i := range []int{inLimit, inWindow} {
		if !in.given(i) {
			in.wrong(checkMembers[i], "is required with key")
		}
	}
	return decide.Direct{Name: in.text[inName], Key: in.text[inKey], FailMode: in.failMode(), Limit: in.limit()}
}

// several converts a check of several direct limits to a Question. Each has a bucket and a name of
// its own: no two have the same key, kind of algorithm and window.
func (in *checkInput) several(q *decide.Question) {
	q.IsDirect = true
	in.alone("limits", inKey, inFailMode, "it belongs to an element of limits")
	in.alone("limits", inMethod, inFields, "send either limits, or the facts of a request")
	buckets, names := map[limiter.Key]int{}, map[string]int{}
	for i := range in.limits {
		one := &in.limits[i]
		d := one.direct()
		switch {
		case one.given(inName) && !one.complained("name") && !field.ValidName(d.Name):
			one.wrong("name", "must be %s", field.NameHelp)
		case d.Name == "":
			d.Name = rules.DirectRule + "-" + strconv.Itoa(i+1)
		}
		if other, taken := names[d.Name]; taken {
			one.wrong("name", "must differ from that of limits[%d]", other)
		}
		names[d.Name] = i
		if bucket := match.DirectKey(d.Key, d.Limit); len(one.errs) == 0 {
			if other, taken := buckets[bucket]; taken {
				one.wrong("key", "must differ from that of limits[%d], because both count in one bucket", other)
			}
			buckets[bucket] = i
		}
		q.Several = append(q.Several, d)
		one.operate(q.Op, &d.Limit, q.RequestID)
		in.errs = append(in.errs, one.errs[:min(len(one.errs), maxFieldErrors-len(in.errs))]...)
	}
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

// limit resolves the limit. It adds its errors, except for fields that have an error
// already.
func (in *checkInput) limit() limiter.Limit {
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
	if ve, ok := err.(*field.ValidationError); ok { //nolint:errorlint // Resolve promises exactly this type
		for _, f := range ve.Fields {
			if !in.complained(f.Field) {
				in.wrong(f.Field, "%s", f.Message)
			}
		}
	}
	return l
}

// operate checks what an operation requires of a direct limit.
func (in *checkInput) operate(op limiter.Op, l *limiter.Limit, id string) {
	leases := l.Algorithm.Traits().Slots
	switch op {
	case limiter.OpRelease, limiter.OpRenew:
		if !leases && l.Algorithm != 0 && !in.complained("algorithm") {
			in.wrong("algorithm", "must be concurrency; only concurrency leases can be released or renewed")
		}
	case limiter.OpCharge:
		if leases {
			in.wrong("algorithm", "must not be concurrency; leases are taken by a check and cannot be charged")
		}
	case limiter.OpRefund:
		if leases && id == "" {
			in.wrong("request_id", "is required; it identifies the lease to release")
		}
	}
}
