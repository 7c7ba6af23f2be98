package records

import (
	"net/netip"
	"strings"

	"sluice/api/decide"
	"sluice/limiter"
)

// Allowed requests are sampled by entity, not by request: either all events of a user are recorded or none, because one
// request in a hundred does not show the rate of a key. The entity is the first of these that exists: the user, the API
// key, the network under which the address is counted, the bucket. Every node selects the same entities, and an entity
// that is selected at 1 % is also selected at 10 %.

// rateOf returns the percentage of entities whose allowed requests are recorded: the largest log_percent of the rules
// of a decision, or usual if none sets it.
func rateOf(d *decide.Decision, usual float64) float64 {
	named := int64(-1)
	for i := range d.Answer.Limits {
		if of := d.Answer.Limits[i].Of; of != nil && of.LogPercent != nil {
			named = max(named, *of.LogPercent)
		}
	}
	if named >= 0 {
		return float64(named)
	}
	return usual
}

// draw reports whether the entity of a decision belongs to the given percentage of all entities. network returns the
// network under which an address is counted.
func draw(d *decide.Decision, percent float64, network func(netip.Addr) netip.Prefix) bool {
	switch {
	case percent >= 100:
		return true
	case percent <= 0:
		return false
	}
	return float64(entity(d, network)>>11)/(1<<53)*100 < percent
}

// entity returns a number that is uniformly distributed over the entities of decisions.
func entity(d *decide.Decision, network func(netip.Addr) netip.Prefix) uint64 {
	if q := d.Question; q != nil && !q.IsDirect {
		switch from := &q.Descriptor; {
		case from.User != "":
			return hash("user", from.User)
		case from.APIKey != "":
			return hash("api_key", from.APIKey)
		case from.IP.IsValid():
			ip := network(from.IP).Addr().As16()
			return hash("ip", string(ip[:]))
		}
	}
	if len(d.Answer.Limits) == 0 {
		return 0
	}
	// The part before the rule's number: all algorithms of a caller's key are one entity.
	facts, _, _ := strings.Cut(string(d.Answer.Limits[max(0, d.Answer.Strictest)].Key), "|")
	if user, ok := strings.CutPrefix(facts, "{user:"); ok {
		return hash("user", strings.TrimSuffix(user, "}")) // the same hash as for its checks
	}
	return hash("bucket", facts)
}

// hash is FNV-1a of 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/), with the finalizer of MurmurHash3, because
// draw uses the upper bits.
func hash(kind, value string) uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	for i := range len(kind) {
		h = (h ^ uint64(kind[i])) * prime
	}
	h *= prime // a byte of 0 between the two
	for i := range len(value) {
		h = (h ^ uint64(value[i])) * prime
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// recorded reports whether an operation is recorded: peeks are not.
func recorded(op limiter.Op) bool { return op != limiter.OpPeek }
