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
// holds up to a number of buckets. For further ones it drops those that have waited longest, most likely for a
// region that is lost; they come again when their lease in the store has ended. It is not safe for concurrent
// use.
type Outbox struct {
	peers     []string
	most      int
	waiting   map[limiter.Key]*item
	order     []*item // of arrival; may have some that are no longer waiting
	confirmed []limiter.Exported
}

// item is one bucket, which peers lack it, and to which of those it is under way.
type item struct {
	sums            limiter.Exported
	lacks, underWay []string
}

// NewOutbox returns an empty outbox for some peers, for up to most buckets.
func NewOutbox(most int, peers ...string) *Outbox {
	return &Outbox{peers: peers, most: most, waiting: map[limiter.Key]*item{}}
}

// Add takes what was exported and returns how many buckets it has dropped.
func (o *Outbox) Add(sums []limiter.Exported) (dropped int) {
	for _, s := range sums {
		it := o.waiting[s.Key]
		if it == nil && len(o.waiting) >= o.most {
			o.drop()
			dropped++
		}
		if it == nil {
			it = &item{}
			o.waiting[s.Key] = it
			o.order = append(o.order, it)
		}
		if it.lacks == nil || !same(&it.sums.Sums, &s.Sums) {
			it.lacks, it.underWay = slices.Clone(o.peers), nil
		}
		it.sums = s
		if len(it.lacks) == 0 {
			o.done(s)
		}
	}
	return dropped
}

// drop forgets the bucket that has waited longest.
func (o *Outbox) drop() {
	for len(o.order) > 0 {
		it := o.order[0]
		o.order[0], o.order = nil, o.order[1:]
		if o.waiting[it.sums.Key] == it {
			delete(o.waiting, it.sums.Key)
			return
		}
	}
}

// same reports whether two sums of a bucket tell the same.
func same(a, b *limiter.Sums) bool {
	return a.Born == b.Born && a.Reset == b.Reset && a.Taken == b.Taken && a.Given == b.Given
}

// Skip confirms what is not worth telling.
func (o *Outbox) Skip(s limiter.Exported) { o.confirmed = append(o.confirmed, s) }

// Next returns up to n buckets that a peer lacks, those that came first. They are under way to it, and not returned
// again, until Told, Lost, or a change.
func (o *Outbox) Next(peer string, n int) (news []limiter.Exported) {
	kept := o.order[:0]
	for _, it := range o.order {
		if o.waiting[it.sums.Key] != it {
			continue
		}
		kept = append(kept, it)
		if len(news) < n && slices.Contains(it.lacks, peer) && !slices.Contains(it.underWay, peer) {
			it.underWay = append(it.underWay, peer)
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

// Lost says that a peer may not have applied what Next returned. It is told again, after what else there is.
func (o *Outbox) Lost(peer string, news []limiter.Exported) {
	lost := make(map[*item]bool, len(news))
	for _, s := range news {
		if it := o.waiting[s.Key]; it != nil && same(&it.sums.Sums, &s.Sums) {
			it.underWay = slices.DeleteFunc(it.underWay, func(p string) bool { return p == peer })
			lost[it] = true
		}
	}
	kept, last := make([]*item, 0, len(o.order)), make([]*item, 0, len(lost))
	for _, it := range o.order {
		if lost[it] {
			last = append(last, it)
		} else {
			kept = append(kept, it)
		}
	}
	o.order = append(kept, last...)
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
