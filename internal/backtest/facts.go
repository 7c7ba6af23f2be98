package backtest

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"sluice/api/decide"
	"sluice/internal/records"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// factSet is a set of kinds of facts.
type factSet uint16

const (
	factUser factSet = 1 << iota
	factAPIKey
	factIP
	factHost
	factTier
	factRoute
	factMethod
	factAttributes
	factFields
)

// factNames are the names of facts in events, by which findings name them.
var factNames = []struct {
	fact factSet
	name string
}{
	{factUser, "user"}, {factAPIKey, "api_key"}, {factIP, "ip"}, {factHost, "host"}, {factTier, "tier"},
	{factRoute, "route"}, {factMethod, "method"}, {factAttributes, "attributes"}, {factFields, "fields"},
}

// factNamed returns a fact by its name in events, scopes, conditions and settings, 0 if it is none.
func factNamed(name string) factSet {
	if name == "apikey" {
		return factAPIKey
	}
	if strings.HasPrefix(name, "attr:") {
		return factAttributes
	}
	if strings.HasPrefix(name, "field:") {
		return factFields
	}
	for _, f := range factNames {
		if f.name == name {
			return f.fact
		}
	}
	return 0
}

// String lists the names of the facts.
func (s factSet) String() string {
	var names []string
	for _, f := range factNames {
		if s&f.fact != 0 {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, ", ")
}

// needs is the set of facts of a request that a rule needs for a replay.
type needs struct {
	name string
	// values are the facts whose own values it compares: with a condition, with an override, with a tier. A hash is not
	// enough for these.
	values factSet
	// any are all facts that it uses.
	any factSet
	// scope are the facts by which it counts.
	scope factSet
}

// needsOf returns the needs of a rule.
func needsOf(set *match.Set, c *match.Compiled) needs {
	n := needs{name: c.Rule.Name}
	for _, name := range c.ScopeFacts() {
		n.scope |= factNamed(name)
	}
	for _, name := range c.ConditionNames() {
		n.values |= factNamed(name)
	}
	if len(c.Rule.Tiers) > 0 {
		n.values |= factTier
	}
	if c.Rule.WeightField != nil {
		n.values |= factFields
	}
	if table := set.Overrides(); table != nil {
		if of := table.Of(c.Rule.ID); of != nil && (of.HasExact() || of.HasNetworks() || of.HasWildcards()) {
			n.values |= n.scope
		}
	}
	n.any = n.values | n.scope
	return n
}

// concealed returns the facts of an event whose values are hashes. bare is true if a value is hidden without a hash, so
// that nobody can see which values are equal.
func concealed(f *records.Facts) (hashed factSet, bare bool) {
	look := func(fact factSet, v string) {
		if is, equal := records.Concealed(v); is {
			hashed |= fact
			bare = bare || !equal
		}
	}
	look(factUser, f.User)
	look(factAPIKey, f.APIKey)
	look(factIP, f.IP)
	look(factHost, f.Host)
	look(factTier, f.Tier)
	for _, v := range f.Attributes {
		look(factAttributes, v)
	}
	return hashed, bare
}

// omitted returns the facts that the log of an event never has.
func omitted(e *records.Event) (out factSet) {
	for _, name := range e.Omitted {
		out |= factNamed(name)
	}
	return out
}

// entity returns the fact by which allowed requests were sampled for the log, 0 for direct limits: each of their
// buckets is sampled separately.
func entity(f *records.Facts) factSet {
	switch {
	case f == nil:
		return 0
	case f.User != "":
		return factUser
	case f.APIKey != "":
		return factAPIKey
	case f.IP != "":
		return factIP
	}
	return 0
}

// Reasons why an event is not replayed.
const (
	leftDescriptors = "descriptors"
	leftNotDrawn    = "not_drawn"
	leftHidden      = "hidden"
	leftShortened   = "shortened"
	leftToken       = "token"
	leftInvalid     = "invalid"
)

// Reasons why a limit is not judged.
const (
	partShared = "sampled_together"
	partHashed = "hashed"
	partAbsent = "not_recorded"
)

// leftOut is the error of an event that cannot be replayed.
type leftOut string

// Error implements error.
func (l leftOut) Error() string { return string(l) }

var errNoQuestion = errors.New("an operation by a token")

// question makes the question of an event. The error is a leftOut, or errNoQuestion for an operation by a token.
func question(e *records.Event, q *decide.Question) error {
	*q = decide.Question{Weight: e.Weight, RequestID: e.RequestID, OnlyBans: e.Only == records.OnlyBans}
	switch e.Op {
	case "check":
		q.Op = limiter.OpTake
	case "charge":
		q.Op = limiter.OpCharge
	case "refund":
		q.Op = limiter.OpRefund
	case "reset":
		q.Op = limiter.OpReset
	default:
		return errNoQuestion
	}
	if !fits(e) {
		return leftOut(leftInvalid)
	}
	if e.Facts == nil {
		return directQuestion(e, q)
	}
	if slices.ContainsFunc(e.Shortened, func(member string) bool {
		return strings.HasPrefix(member, "facts") || member == "route"
	}) {
		return leftOut(leftShortened)
	}
	f := e.Facts
	q.Descriptor = match.Descriptor{Method: f.Method, Route: f.Route, Host: f.Host, User: f.User, APIKey: f.APIKey,
		Tier: f.Tier, Attributes: f.Attributes, Fields: f.Fields}
	if _, bare := concealed(f); bare {
		return leftOut(leftHidden)
	}
	if f.IP != "" {
		ip, ok := address(f.IP)
		if !ok {
			return leftOut(leftHidden)
		}
		q.Descriptor.IP = ip
	}
	return nil
}

// fits reports whether the texts and numbers of an event are within the bounds of a check.
func fits(e *records.Event) bool {
	const maxID = 64
	if len(e.RequestID) > maxID {
		return false
	}
	f := e.Facts
	if f == nil {
		return true
	}
	for _, text := range []string{f.Method, f.Route, f.Host, f.User, f.APIKey, f.Tier} {
		if len(text) > decide.MaxText {
			return false
		}
	}
	for name, v := range f.Attributes {
		if len(name) > decide.MaxText || len(v) > decide.MaxText {
			return false
		}
	}
	for _, v := range f.Fields {
		if v < 0 || v > limiter.MaxExact {
			return false
		}
	}
	return true
}

// directQuestion makes a question of the limits that the caller sent.
func directQuestion(e *records.Event, q *decide.Question) error {
	if len(e.Limits) == 0 || e.Limits[0].Direct == nil {
		if slices.Contains(e.Shortened, "facts") || slices.Contains(e.Shortened, "limits") {
			return leftOut(leftShortened)
		}
		return leftOut(leftDescriptors)
	}
	if len(e.Limits) > decide.MaxDirect || slices.Contains(e.Shortened, "limits") {
		return leftOut(leftShortened)
	}
	q.IsDirect = true
	for i := range e.Limits {
		l := &e.Limits[i]
		if l.Direct == nil {
			return leftOut(leftInvalid)
		}
		algorithm, err := limiter.ParseAlgorithm(l.Direct.Algorithm)
		d := decide.Direct{Key: l.Key, Limit: limiter.Limit{Algorithm: algorithm, Count: l.Direct.Limit,
			Window: l.Direct.WindowMS, Burst: l.Direct.Burst, Anchor: l.Direct.AnchorMS, Buckets: l.Direct.Buckets}}
		if l.Direct.Align == limiter.AlignFirstHit.String() {
			d.Limit.Align = limiter.AlignFirstHit
		}
		if err != nil || d.Limit.Validate() != nil || len(d.Key) > decide.MaxText {
			return leftOut(leftInvalid)
		}
		if l.Rule != rules.DirectRule || len(e.Limits) > 1 {
			d.Name = l.Rule
			q.Several = append(q.Several, d)
		} else {
			q.Direct = d
		}
	}
	return nil
}

// address reads the address of an event. The hash of an address becomes an IPv6 address: equal hashes give equal
// addresses, and different hashes differ in the first 64 bits, by which IPv6 addresses are counted.
func address(text string) (netip.Addr, bool) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip, true
	}
	_, digits, isHash := strings.Cut(text, ":")
	sum, err := hex.DecodeString(digits)
	if concealed, equal := records.Concealed(text); !concealed || !equal || !isHash || err != nil || len(sum) == 0 {
		return netip.Addr{}, false
	}
	ip := [16]byte{0xfd} // the private addresses of RFC 4193
	copy(ip[1:], sum)
	return netip.AddrFrom16(ip), true
}
