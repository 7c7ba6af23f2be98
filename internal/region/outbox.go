package region

import (
	"slices"

	"sluice/limiter"
)

// finest is how fine news is: a bucket is told of once a region has spent a part of 1/(finest*regions) of its
// limit in it.
const finest = 100

// Worth reports whether the sums of a bucket are worth telling: whether they hold more than 1/(100*regions)
// of the limit, so that all that is not told adds up to 1 % at most, or tell of a reset or of units given back.
func Worth(l limiter.Limit, m *limiter.Sums, regions int) bool {
	if m.Reset > 0 || m.Given > 0 {
		return true
	}
	var units int64
	for _, w := range m.Windows {
		units += w.Units
	}
	return units > l.Capacity()/(finest*int64(max(regions, 1)))
}

// Outbox is what a region has exported and other regions do not have yet, the latest of each bucket. It
// holds up to a number of buckets; further ones are refused, and come again when their lease in the store
// has ended. It is not safe for concurrent use.
type Outbox struct {
	peers     []string
	most      int
	waiting   map[limiter.Key]*item
	order     []*item // of arrival; may have some that are no longer waiting
	confirmed []limiter.Exported
}

// item is one bucket, and which peers lack it.
type item struct {
	sums  limiter.Exported
	lacks []string
}

// NewOutbox returns an empty outbox for some peers, for up to most buckets.
func NewOutbox(most int, peers ...string) *Outbox {
	return &Outbox{peers: peers, most: most, waiting: map[limiter.Key]*item{}}
}

// Add takes what was exported and returns how many buckets had no room.
func (o *Outbox) Add(sums []limiter.Exported) (refused int) {
	for _, s := range sums {
		it := o.waiting[s.Key]
		if it == nil && len(o.waiting) >= o.most {
			refused++
			continue
		}
		if it == nil {
			it = &item{}
			o.waiting[s.Key] = it
			o.order = append(o.order, it)
		}
		if it.lacks == nil || !same(&it.sums.Sums, &s.Sums) {
			it.lacks = slices.Clone(o.peers)
		}
		it.sums = s
		if len(it.lacks) == 0 {
			o.done(s)
		}
	}
	return refused
}

// same reports whether two sums of a bucket tell the same.
func same(a, b *limiter.Sums) bool {
	return a.Born == b.Born && a.Reset == b.Reset && a.Taken == b.Taken && a.Given == b.Given
}

// Skip confirms what is not worth telling.
func (o *Outbox) Skip(s limiter.Exported) { o.confirmed = append(o.confirmed, s) }

// Next returns up to n buckets that a peer lacks, those that came first.
func (o *Outbox) Next(peer string, n int) (news []limiter.Exported) {
	kept := o.order[:0]
	for _, it := range o.order {
		if o.waiting[it.sums.Key] != it {
			continue
		}
		kept = append(kept, it)
		if len(news) < n && slices.Contains(it.lacks, peer) {
			news = append(news, it.sums)
		}
	}
	clear(o.order[len(kept):])
	o.order = kept
	return news
}

// Told says that a peer has applied what Next returned. What has changed since is told again.
func (o *Outbox) Told(peer string, news []limiter.Exported) {
	for _, s := range news {
		it := o.waiting[s.Key]
		if it == nil || !same(&it.sums.Sums, &s.Sums) {
			continue
		}
		it.lacks = slices.DeleteFunc(it.lacks, func(p string) bool { return p == peer })
		if len(it.lacks) == 0 {
			o.done(it.sums)
		}
	}
}

// done confirms a bucket.
func (o *Outbox) done(s limiter.Exported) {
	delete(o.waiting, s.Key)
	o.confirmed = append(o.confirmed, s)
}

// Len is the number of buckets that a peer lacks.
func (o *Outbox) Len() int { return len(o.waiting) }

// Confirmed returns what every peer has since the last call, for limiter.Exporter.Confirm.
func (o *Outbox) Confirmed() []limiter.Exported {
	out := o.confirmed
	o.confirmed = nil
	return out
}
