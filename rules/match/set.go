package match

import (
	"maps"
	"slices"
	"sync/atomic"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/override"
	"sluice/rules/profile"
	"sluice/rules/route"
	"sluice/rules/scope"
	"sluice/rules/when"
)

// Current holds the set in force. It is swapped as one pointer, so that every decision uses one
// version throughout. Load returns it, nil before the first Store. The zero value holds none.
type Current struct{ atomic.Pointer[Set] }

// Set is all active rules, compiled and immutable, safe for concurrent use. The zero value is not
// usable; create one with Compile.
type Set struct {
	version  int64
	opt      Options
	rules    ordered // by id
	names    ordered // the same, by name
	pools    map[string]*CompiledPool
	profiles map[string]*profile.Profile
	domains  map[string]*profile.Profile // the profiles with a domain, by domain
	index    index                       // of ordinary rules
	entries  byEntries                   // of rules with a descriptor
	keys     *byKeys                     // the orders of their keys
	// patterns is the total of PatternSize, oversized the rules with a pattern that is too large for
	// a new one.
	patterns  int
	oversized ordered

	overrides *override.Table
}

// Compiled is one rule of a Set. It is shared and must not be changed.
type Compiled struct {
	// Rule is the compiled rule, normalised.
	Rule rules.Rule
	// Limits are the rule's over time, with defaults applied. Match.Limit is the limit of a request.
	rules.Limits
	// Period is the period of the rule's calendar, nil without one.
	Period *rules.Period
	// SoftPercent and ElasticPercent say how far above the limit the rule goes with ThrottleSoft and ThrottleElastic, 0
	// otherwise.
	SoftPercent    int64
	ElasticPercent int64
	// Pool is the pool towards which the rule's traffic counts, nil for none. Priority is the
	// rule's priority in it, never "".
	Pool     *CompiledPool
	Priority string
	// Candidate is the candidate's limit, nil for none. Match.Candidate returns it for one
	// request.
	Candidate *limiter.Limit
	// Ban is the limit of the rule's ban, nil if it has none.
	Ban *limiter.Limit
	// Message is the text for denied clients, nil for the usual one.
	Message *rules.Message
	// Notify are the percentages of the limit at which a key is an alert, in ascending order; nil for none.
	Notify []int64
	// RetryJitter is the most by which retry-after grows, in ms.
	RetryJitter int64
	// HotRaise is the percentage by which the limit of a hot bucket is raised.
	HotRaise int64
	// ChargeReport: a check only looks, and a charge spends.
	ChargeReport bool
	// ChargeExplicit: an explicit addend is charged whether or not it fits.
	ChargeExplicit bool
	// Shadow: the rule is decided and counted but never denies.
	Shadow bool
	// Global: the limit spans regions, and there are several. Rule says how.
	Global bool
	// Exact: the limit is decided in the home region of each key (SpanGlobalExact), and there are several.
	Exact bool
	// Shares: the limit is divided among the regions, and there are several.
	Shares bool
	// SpanOf is the rule's id if a region may have to spend only a part of the limit, and 0 otherwise. Guard is the
	// guard mode of a limit that is Global; see limiter.Ask.
	SpanOf int64
	Guard  limiter.GuardMode
	// Hot says how hot buckets may be served.
	Hot limiter.HotMode

	replaces  bool  // it is enforced and names rules that it replaces
	varies    bool  // the limit of a request depends on its tier or on the time
	need      uint8 // bits of scope.Kind
	facts     []scope.Fact
	route     *route.Pattern // nil for every route
	path      string         // the route as it is compared, "" for every route
	host      string         // as parseHostPattern returns it, "" for every host
	suffix    string         // "|17|sc"
	banSuffix string         // "|17|bn", only if Exact
	globalKey limiter.Key    // the key when there are no facts

	candidate   *candidate // what Candidate does not say
	from, until int64      // life span, ms since the epoch
	former      *former    // nil unless an edit of the algorithm keeps what was spent
	when        *when.Condition
}

type candidate struct {
	suffix  string // "|17.c|sc"
	follows bool   // the calendar sets its windows
}

// Match is one rule that applies to a descriptor.
type Match struct {
	Rule *Compiled
	// Key names the bucket.
	Key limiter.Key
	// Limit is the limit of the request: the rule's limit after tier, schedule, calendar and
	// Override.
	Limit limiter.Limit
	// Override is the override that applied, zero if none did.
	Override override.Applied
	// Former is the limit that the bucket had before the last edit of the rule's algorithm, nil for none or once nothing
	// of it counts. Each match has its own.
	Former *FormerLimit
	// Weight is in units: the request's, or the value of the rule's weight_field.
	Weight int64
	// ConditionFailed: the rule's condition could not be evaluated and therefore counted as true.
	ConditionFailed bool
}

// Display returns the bucket's name for people, such as user:42. See DisplayKey.
func (m *Match) Display() string { return DisplayKey(m.Key) }

// Version returns the version of the rules that the set was compiled from.
func (s *Set) Version() int64 { return s.version }

// Options returns the settings that the set was compiled with, including defaults.
func (s *Set) Options() Options { return s.opt }

// Len returns the number of active rules.
func (s *Set) Len() int { return s.rules.len() }

// At returns the i-th active rule ordered by id, 0 <= i < Len.
func (s *Set) At(i int) *Compiled { return s.rules.at(i) }

// Get returns the active rule with an id, nil if there is none.
func (s *Set) Get(id int64) *Compiled {
	for c := range s.rules.from(func(c *Compiled) bool { return c.Rule.ID < id }) {
		if c.Rule.ID != id {
			break
		}
		return c
	}
	return nil
}

// ForRoute returns the active rules whose route and method match, without regard to host, facts and conditions. They
// are in order of id. It reads every rule.
func (s *Set) ForRoute(method, path string) []*Compiled {
	k := s.keyer(&Descriptor{Method: method, Route: path})
	var out []*Compiled
	for c := range s.rules.all() {
		if c.Rule.Descriptor == nil && (c.Rule.Method == nil || route.Covers(*c.Rule.Method, k.method)) &&
			(c.route == nil || c.route.Matches(k.route)) {
			out = append(out, c)
		}
	}
	return out
}

// Named returns the active rule with a name, nil if there is none.
func (s *Set) Named(name string) *Compiled {
	for c := range s.names.from(func(c *Compiled) bool { return c.Rule.Name < name }) {
		if c.Rule.Name != name {
			break
		}
		return c
	}
	return nil
}

// Profile returns the profile with a name, nil if there is none. It is shared and must not be
// changed.
func (s *Set) Profile(name string) *profile.Profile { return s.profiles[name] }

// ProfileOf returns the profile that reads the descriptors of a domain, nil if there is none: rules with a descriptor
// then apply to them.
func (s *Set) ProfileOf(domain string) *profile.Profile { return s.domains[domain] }

// Profiles returns the profiles ordered by name. They are shared and must not be changed.
func (s *Set) Profiles() []profile.Profile {
	list := make([]profile.Profile, 0, len(s.profiles))
	for _, name := range slices.Sorted(maps.Keys(s.profiles)) {
		list = append(list, *s.profiles[name])
	}
	return list
}

// Pool returns the pool with a name, nil if there is none.
func (s *Set) Pool(name string) *CompiledPool { return s.pools[name] }

// Pools returns the pools ordered by name.
func (s *Set) Pools() []*CompiledPool {
	list := make([]*CompiledPool, 0, len(s.pools))
	for _, name := range slices.Sorted(maps.Keys(s.pools)) {
		list = append(list, s.pools[name])
	}
	return list
}

// ScopeFacts returns the facts of the rule's scope as written there, in the order of keys; none if it counts all
// requests together.
func (c *Compiled) ScopeFacts() []string {
	out := make([]string, len(c.facts))
	for i := range c.facts {
		out[i] = c.facts[i].Name()
	}
	return out
}
