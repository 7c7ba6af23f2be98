package quota

import (
	"math"

	"sluice/limiter"
)

// Times are in ms of one clock.
const (
	second = 1000
	// maxLife is the longest time to live.
	maxLife = 60 * second
	// margin is kept off the time to live, for the way to the proxy.
	margin = 50
	// maxSilence is how long after the last report of a bucket it gets lumps, and forgetAfter how long after that report
	// it is abandoned. Proxies report all their buckets every 5 s.
	maxSilence, forgetAfter = 11 * second, maxLife
	// maxDelay is how long a question to the store takes at most, unless its answer is lost and asked for again.
	maxDelay = 2 * second
	// idleReports is the number of reports without requests after which a bucket is abandoned. endReports is the number
	// of reports after the end of a lump by which all its spent units are known.
	idleReports, endReports = 2, 2
	// endWait is how long after the end of a lump the first of these reports comes at least, and endEvery the next one
	// after it. Reports that were held up come at once, and may have been sent before the end.
	endWait, endEvery = 6 * second, 4 * second
	// firstInterval is the time to which the first report of a bucket is taken to refer, and minInterval the shortest.
	firstInterval, minInterval = 5 * second, second / 2
	// headroom is how much more than its demand a holder gets.
	headroom = 1.2
	// floorPart: all holders of a bucket together get at least this part of it, whatever their demand is: a demand may
	// grow, or be unknown. A further lump of a holder that has spent its share is at most as large.
	floorPart = 20
	// leastPart: if units become free continuously, a holder waits until this part of its demand is free. A tiny lump
	// would keep it from a larger one until its next report.
	leastPart = 4
	// minRetry and maxRetry bound the time between two questions to the store about a holder.
	minRetry, maxRetry = second, maxLife
	// slideRetry is maxRetry where units become free all the time.
	slideRetry = 5 * second
	// maxOwed is how many ended lumps of a holder wait for reports.
	maxOwed = 8
)

// Kind is how units of a bucket cease to count.
type Kind uint8

// The kinds.
const (
	Ends   Kind = iota // when the window ends
	Slides             // after the window or sub-window
	Drains             // at the rate of the limit
)

// Rule is what a Book knows of the limit of a bucket.
type Rule struct {
	// Key names the bucket on all streams.
	Key string
	// Limit is in units per Window. A lump lives no longer than a Part of it, a window or sub-window. Both are in ms.
	Limit, Window, Part int64
	Kind                Kind
	// Capacity is the capacity of a bucket that drains.
	Capacity int64
	// Refused: there are no lumps. Unlimited: none are needed.
	Refused, Unlimited bool
}

// life is the time for which a lump may live at most, ms.
func (r *Rule) life() int64 {
	if r.Kind != Drains {
		return min(r.Part, maxLife)
	}
	const least, most, part = 3 * second, 10 * second, 10
	drain := most * part
	if r.Limit > 0 {
		drain = int(min(float64(most*part), float64(r.Capacity)*float64(r.Window)/float64(r.Limit)))
	}
	return int64(max(least, min(most, drain/part)) + second)
}

// Free is how many units of the capacity a lump leaves free.
func (r *Rule) Free() int64 {
	if r.Kind != Drains {
		return 0
	}
	return int64(math.Ceil(float64(r.Limit) * float64(r.life()) / float64(r.Window)))
}

// Demand is the demand of the holders of one bucket on one node, and their units.
type Demand struct {
	Holders   int
	PerSecond float64
	// Having of them have Held units, which are charged and not reported as spent.
	Having int
	Held   int64
}

// Caller is what the streams of one caller have.
type Caller struct{ streams, holders, names int }

// Book knows what all streams of a node hold.
type Book struct {
	shared  map[string][]*Holder // by Rule.Key
	holders int
	names   int // bytes of the IDs of holders
}

// NewBook returns an empty Book.
func NewBook() *Book { return &Book{shared: map[string][]*Holder{}} }

// Holders is how many buckets the streams have, each counted for each stream.
func (b *Book) Holders() int { return b.holders }

// Full reports whether there is no room on the node, or for the caller of a stream, for a further bucket with that ID.
func (s *Stream) Full(id string) bool {
	b, c := s.book, s.caller
	return b.holders >= maxHolders || b.names+len(id) > maxNames ||
		c.holders >= maxHolders/callerPart || c.names+len(id) > maxNames/callerPart
}

// count counts a bucket with that ID, n being 1 or -1.
func (s *Stream) count(id string, n int) {
	s.book.holders, s.book.names = s.book.holders+n, s.book.names+n*len(id)
	s.caller.holders, s.caller.names = s.caller.holders+n, s.caller.names+n*len(id)
}

// Demand returns the demand of this node for a bucket, which h has.
func (b *Book) Demand(h *Holder, key string) (d Demand) {
	b.join(h, key)
	seen, part := b.sample(key)
	for _, o := range seen {
		d.Holders++
		d.PerSecond += o.demand * part
	}
	d.Holders = int(float64(d.Holders) * part)
	return d
}

// addHeld adds to d what holders of a bucket have, except one of them.
func (b *Book) addHeld(d *Demand, key string, except *Holder, now int64) {
	for _, h := range b.shared[key] {
		if l := h.lump; l != nil && h != except && now < l.end && !l.spent() {
			d.Having, d.Held = d.Having+1, d.Held+l.units-l.used
		}
	}
}

// sample returns the holders of a bucket that are not idle. Of more than maxSeen it looks at an even sample, in which
// each one stands for so many.
func (b *Book) sample(key string) (seen []*Holder, part float64) {
	all := b.shared[key]
	n := min(len(all), maxSeen)
	for i := range n {
		if o := all[i*len(all)/n]; o.idle < idleReports {
			seen = append(seen, o)
		}
	}
	return seen, float64(len(all)) / float64(max(1, n))
}

// join makes h one of the holders of its bucket.
func (b *Book) join(h *Holder, key string) {
	if h.key == key {
		return
	}
	b.leave(h)
	h.key = key
	h.place = len(b.shared[key])
	b.shared[key] = append(b.shared[key], h)
}

func (b *Book) leave(h *Holder) {
	if h.key == "" {
		return
	}
	list := b.shared[h.key]
	last := list[len(list)-1]
	list[h.place], last.place = last, h.place
	list[len(list)-1] = nil
	if b.shared[h.key] = list[:len(list)-1]; len(list) == 1 {
		delete(b.shared, h.key)
	}
	h.key = ""
}

// Want returns how many units to charge for a holder that is due, and how many at least. others is the demand of other
// nodes.
func (b *Book) Want(h *Holder, r Rule, others Demand, now int64) (want, least int64) {
	b.join(h, r.Key)
	life := r.life()
	whole, span := r.Limit, r.Window
	if r.Kind == Drains { // the units that drain in this time, and the rest if no other holder wants it
		span = life
		whole = max(1, int64(float64(r.Limit)*float64(life)/float64(r.Window)))
	}
	part := max(1, int64(float64(whole)*float64(min(life, span))/float64(span))) // of one life
	units := func(perSecond float64, ms int64) int64 {
		return int64(min(perSecond*headroom*float64(ms)/second, float64(limiter.MaxExact/2))) + 1
	}
	demands := []int64{units(h.demand, span)}
	seen, stands := b.sample(r.Key)
	for _, o := range seen {
		if o != h {
			demands = append(demands, units(o.demand, span))
		}
	}
	all := max(1, int64(float64(len(demands))*stands)) + int64(others.Holders)
	for range min(others.Holders, maxSeen) {
		demands = append(demands, units(others.PerSecond/float64(others.Holders), span))
	}
	floor := floorPart * all
	divided := whole // the part for the holders that are considered
	if looked := int64(len(demands)); looked < all {
		divided = max(1, int64(float64(whole)*float64(looked)/float64(all)))
	}
	share := limiter.Divide(divided, max(1, whole/floor), demands)[0]
	if r.Kind == Drains && len(demands) == 1 {
		share = max(1, r.Capacity-r.Free())
	}
	left := min(life, span)
	if now < h.gotUntil { // a further lump in the same window
		left = min(left, h.gotUntil-now)
		share = max(share-h.got, whole/floorPart)
	}
	want = max(1, min(max(units(h.demand, left), part/floor), share, math.MaxUint32)) // Envoy's tokens have 32 bits
	if r.Kind == Ends {
		return want, 1
	}
	return want, max(1, want/leastPart)
}

// maxSeen bounds the holders of this node, and of other nodes, that are considered.
const maxSeen = 200
