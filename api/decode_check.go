package api

import (
	"fmt"
	"net/netip"
	"strconv"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules/field"
	"sluice/rules/host"
	"sluice/rules/profile"
)

// faceHTTP is where the questions of this package come in.
const faceHTTP = "http"

// Limits of a check, also in openapi.yaml.
const (
	maxText      = decide.MaxText // bytes of a key or any other string
	maxRequestID = 64
	maxPairs     = 64   // attributes, fields
	maxBatch     = 1000 // checks in a batch
)

// checkMembers are the members of a check. The index of one is its bit in
// checkInput.has.
var checkMembers = [...]string{
	"name", "key", "limit", "window_ms", "algorithm", "burst", "align", "anchor_ms", "buckets", "fail_mode",
	"limits", "method", "route", "host", "ip", "user", "api_key", "tier", "attributes", "fields",
	"weight", "request_id", "payload", "ttl_ms", "times", "least", "user_agent", "trace_id", "dialect", "on_expire",
}

const (
	inName = iota // of an element of limits only, as all up to inFailMode can be
	inKey
	inLimit
	inWindow
	inAlgorithm
	inBurst
	inAlign
	inAnchor
	inBuckets
	inFailMode
	inLimits
	inMethod
	inRoute
	inHost
	inIP
	inUser
	inAPIKey
	inTier
	inAttributes
	inFields
	inWeight
	inRequestID
	inPayload
	inTTL
	inTimes
	inLeast
	inUserAgent
	inTraceID
	inDialect
	inOnExpire
)

// checkInput is a check as it was sent, or one of its limits: its members, their values, and
// their errors. text and number have the indexes of checkMembers.
type checkInput struct {
	has        uint32
	text       [len(checkMembers)]string
	number     [len(checkMembers)]int64
	attributes map[string]string
	fields     map[string]int64
	limits     []checkInput
	reserve    bool   // it is for a reservation
	list       string // the batch that it is in, such as checks
	element    int    // its place in it, from 1; 0 for none
	// under is the name of a limit in errors with a dot behind it, such as limits[0]., and "" for
	// a check.
	under string
	// before has the texts of the previous check in a batch, or is nil. Most checks have
	// the same method and route, which then need not be copied.
	before *[len(checkMembers)]string
	errs   []field.Problem
}

func (in *checkInput) given(i int) bool { return in.has&(1<<i) != 0 }

// maxFieldErrors is the maximum number of errors in the response to a check.
const maxFieldErrors = 100

func (in *checkInput) wrong(member, format string, args ...any) {
	if len(in.errs) == maxFieldErrors {
		return
	}
	in.errs = append(in.errs, field.Problem{Field: in.path(member), Message: fmt.Sprintf(format, args...)})
}

// path returns the name of a field in an error.
func (in *checkInput) path(field string) string {
	if in.element == 0 {
		return in.under + field
	}
	return fmt.Sprintf("%s[%d].%s%s", in.list, in.element-1, in.under, field)
}

// decodeCheck reads a body that is one check. Its errors are *malformedError
// or *field.ValidationError.
func decodeCheck(data []byte, op limiter.Op, q *decide.Question) error {
	var s scanner
	if err := s.start(data); err != nil {
		return err
	}
	var in checkInput
	if err := in.read(&s, 0); err != nil {
		return err
	}
	if err := s.end(); err != nil {
		return err
	}
	if in.question(op, q); len(in.errs) > 0 {
		return &field.ValidationError{Fields: in.errs}
	}
	return nil
}

// read reads one check. It collects wrong types and ranges, and returns an error only
// for text that is not JSON and for unknown or duplicate members.
func (in *checkInput) read(s *scanner, depth int) error {
	if s.peek() != '{' {
		return s.fail("a JSON object is expected")
	}
	s.pos++
	for n := 0; ; n++ {
		ok, err := s.more('}', n)
		if err != nil || !ok {
			return err
		}
		name, err := s.member()
		if err != nil {
			return err
		}
		i := -1
		if len(name) < len(membersBy) {
			for _, m := range membersBy[len(name)] {
				if checkMembers[m] == string(name) {
					i = m
					break
				}
			}
		}
		if i < 0 || (in.under == "" && i == inName) || (in.under != "" && i > inFailMode) {
			return s.fail("unknown member %s%s", strconv.Quote(clip(string(name))), meant(string(name), checkMembers[:]))
		}
		if in.given(i) {
			return s.fail("member %q appears twice", checkMembers[i])
		}
		in.has |= 1 << i
		switch i {
		case inLimit, inWindow, inBurst, inBuckets, inWeight, inTTL, inTimes, inLeast:
			err = in.integer(s, checkMembers[i], 0, limiter.MaxExact, &in.number[i], depth+1)
		case inAnchor:
			err = in.integer(s, checkMembers[i], -limiter.MaxWindow, limiter.MaxExact, &in.number[i], depth+1)
		case inLimits:
			err = in.readLimits(s, depth+1)
		case inAttributes:
			err = in.readAttributes(s, depth+1)
		case inFields:
			err = in.readFields(s, depth+1)
		case inOnExpire:
			err = in.readOnExpire(s, depth+1)
		default:
			most := maxText
			switch i {
			case inRequestID:
				most = maxRequestID
			case inPayload:
				most = decide.MaxPayload
			case inUserAgent, inTraceID: // cut where they are recorded: a client must not fail checks by its own
				most = maxBody
			}
			if in.before != nil {
				in.text[i] = in.before[i]
			}
			err = in.string(s, checkMembers[i], most, &in.text[i], depth+1)
		}
		if err != nil {
			return err
		}
	}
}

// membersBy groups the members by the length of their names, so that few names are
// compared.
var membersBy = func() (t [16][]int) {
	for i, name := range checkMembers {
		t[len(name)] = append(t[len(name)], i)
	}
	return t
}()

// string reads a text of at most most bytes into dst, unless dst has the same text.
func (in *checkInput) string(s *scanner, field string, most int, dst *string, depth int) error {
	if s.peek() != '"' {
		in.wrong(field, "must be a string")
		return s.skip(depth)
	}
	v, err := s.str()
	switch {
	case err != nil:
		return err
	case len(v) > most:
		in.wrong(field, "must not be longer than %d bytes", most)
	case *dst != string(v):
		*dst = string(v)
	}
	return nil
}

func (in *checkInput) integer(s *scanner, field string, least, most int64, dst *int64, depth int) error {
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		in.wrong(field, "must be an integer")
		return s.skip(depth)
	}
	text, err := s.number()
	if err != nil {
		return err
	}
	v, kind := parseInteger(text)
	switch {
	case kind == notInteger:
		in.wrong(field, "must be an integer, written without a decimal point or exponent")
	case kind == outOfRange || v < least || v > most:
		in.wrong(field, "must be between %d and %d", least, most)
	default:
		*dst = v
	}
	return nil
}

const (
	isInteger = iota
	notInteger
	outOfRange
)

// parseInteger reads the text of a JSON number that is written as an integer.
func parseInteger(text []byte) (v int64, kind int) {
	digits := text
	if digits[0] == '-' {
		digits = digits[1:]
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, notInteger
		}
		if v > limiter.MaxExact {
			continue
		}
		v = v*10 + int64(c-'0')
	}
	if v > limiter.MaxExact {
		return 0, outOfRange
	}
	if text[0] == '-' {
		v = -v
	}
	return v, isInteger
}

// pairs reads an object of up to maxPairs members, each by value.
func (in *checkInput) pairs(s *scanner, field string, depth int, seen func(name string) bool,
	value func(name string) error) error {
	if s.peek() != '{' {
		in.wrong(field, "must be an object")
		return s.skip(depth)
	}
	s.pos++
	for n := 0; ; n++ {
		ok, err := s.more('}', n)
		if err != nil {
			return err
		}
		if !ok {
			if n > maxPairs {
				in.wrong(field, "must not have more than %d members", maxPairs)
			}
			return nil
		}
		raw, err := s.member()
		if err != nil {
			return err
		}
		name := string(raw)
		if seen(name) {
			return s.fail("member %s appears twice", strconv.Quote(clip(name)))
		}
		if name == "" || len(name) > maxText {
			in.wrong(field, "member names must be 1 to %d bytes long", maxText)
		}
		if err := value(name); err != nil {
			return err
		}
	}
}

func (in *checkInput) readAttributes(s *scanner, depth int) error {
	in.attributes = map[string]string{}
	return in.pairs(s, "attributes", depth,
		func(name string) bool { _, dup := in.attributes[name]; return dup },
		func(name string) error {
			var v string
			err := in.string(s, "attributes."+shownName(name), maxText, &v, depth+1)
			in.attributes[name] = v
			return err
		})
}

func (in *checkInput) readFields(s *scanner, depth int) error {
	in.fields = map[string]int64{}
	return in.pairs(s, "fields", depth,
		func(name string) bool { _, dup := in.fields[name]; return dup },
		func(name string) error {
			var v int64
			err := in.integer(s, "fields."+shownName(name), 0, limiter.MaxExact, &v, depth+1)
			in.fields[name] = v
			return err
		})
}

// question validates the check and converts it to a Question.
func (in *checkInput) question(op limiter.Op, q *decide.Question) {
	*q = decide.Question{Op: op, Weight: 1, RequestID: in.text[inRequestID],
		Origin: decide.Origin{Face: faceHTTP, UserAgent: in.text[inUserAgent], TraceID: in.text[inTraceID]}}
	if in.given(inWeight) {
		q.Weight = in.number[inWeight]
	}
	switch {
	case in.given(inLimits):
		in.several(q)
	case in.given(inKey):
		q.IsDirect = true
		in.alone("key", inMethod, inFields, "send either key and limit, or the facts of a request")
		q.Direct = in.direct()
	default:
		in.described(q)
	}
	in.operation(q)
	if in.given(inPayload) {
		in.payload(q)
	}
	if in.given(inDialect) && !in.complained("dialect") {
		in.dialect(q)
	}
	for _, i := range [...]int{inTTL, inTimes, inLeast, inOnExpire} {
		if in.given(i) && !in.reserve {
			in.wrong(checkMembers[i], "is allowed only in a reserve")
		}
	}
}

// dialect sets the dialect of what the caller passes on to its client.
func (in *checkInput) dialect(q *decide.Question) {
	switch q.Dialect = in.text[inDialect]; {
	case q.Op != limiter.OpTake && q.Op != limiter.OpPeek && q.Op != limiter.OpCharge:
		in.wrong("dialect", "is allowed only in a check, a charge or a reserve")
	case q.Dialect != profile.DialectOpenAI && q.Dialect != profile.DialectAnthropic && q.Dialect != profile.DialectMCP:
		in.wrong("dialect", "must be openai, anthropic or mcp")
	}
}

// payload sets the payload of a request that may be deferred; a peek never is.
func (in *checkInput) payload(q *decide.Question) {
	switch {
	case in.element > 0:
		in.wrong("payload", "is not allowed in a batch; check requests that can be deferred one at a time")
	case q.Op != limiter.OpTake || in.reserve:
		in.wrong("payload", "is allowed only in a check")
	case q.IsDirect:
		in.wrong("payload", "is not allowed with key or limits; only rules defer requests")
	default:
		q.Deferrable, q.Payload = q.Weight > 0, in.text[inPayload]
	}
}

// alone refuses the members from one to another together with a member that excludes them.
func (in *checkInput) alone(with string, from, to int, instead string) {
	for i := from; i <= to; i++ {
		if in.given(i) {
			in.wrong(checkMembers[i], "is not allowed with %s; %s", with, instead)
		}
	}
}

// complained reports whether the field has an error already.
func (in *checkInput) complained(field string) bool {
	for i := range in.errs {
		if in.errs[i].Field == in.path(field) {
			return true
		}
	}
	return false
}

// described converts a check by rules to a Question.
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
		in.wrong("key", "is missing; send either key, limit and window_ms, or limits, or facts of the request such as "+
			"method, route, ip or user")
	}
	d := &q.Descriptor
	if in.text[inHost] != "" && !in.complained("host") {
		host, err := host.Parse(in.text[inHost])
		if err != nil {
			in.wrong("host", "%s", err)
		}
		d.Host = host
	}
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

// operation checks the requirements of single operations.
func (in *checkInput) operation(q *decide.Question) {
	if q.IsDirect && len(q.Several) == 0 {
		in.operate(q.Op, &q.Direct.Limit, q.RequestID)
	}
	if (q.Op == limiter.OpRelease || q.Op == limiter.OpRenew) && q.RequestID == "" && !in.complained("request_id") {
		in.wrong("request_id", "is required; it identifies the lease")
	}
}
