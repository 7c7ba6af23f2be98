package region

import (
	"slices"

	"sluice/limiter"
)

// Outbox is what a region has exported and other regions do not have yet, the latest of each bucket. It
// holds up to a number of buckets. For further ones it drops those that have waited longest, most likely for a
// region that is lost; they come again when their lease in the store has ended. It is not safe for concurrent use.
type Outbox struct {
	peers     []string
	cutOff    []string // those that are cut off
	most      int
	last      int64 // the number of the latest export
	waiting   map[limiter.Key]*item
	order     []*item // of arrival; may have some that are no longer waiting
	confirmed []limiter.Exported
}

// News is one bucket as it was exported, for Told and Lost. A later export of a bucket has a greater number.
type News struct {
	limiter.Exported

	number int64
}

// item is one bucket: its latest export, which one each peer has, without a number for none, and to which of them the
// latest is under way. told is the number of the latest that every peer has, and near that of the latest that all have
// that are not cut off.
type item struct {
	news       News
	has        []News
	underWay   []string
	told, near int64
}

// NewOutbox returns an empty outbox for some peers, for up to most buckets.
func NewOutbox(most int, peers ...string) *Outbox {
	return &Outbox{peers: peers, most: most, waiting: map[limiter.Key]*item{}}
}

// Add takes what was exported and returns how many buckets it has dropped.
func (o *Outbox) Add(sums []limiter.Exported) (dropped int) {
	for _, s := range sums {
		it := o.waiting[s.Key]
		switch {
		case it != nil: // the new lease is in place of the old one
			o.confirmed = append(o.confirmed, limiter.Exported{Key: s.Key, Lease: it.news.Lease})
		case len(o.waiting) >= o.most:
			o.drop()
			dropped++
		}
		if it == nil {
			it = &item{has: make([]News, len(o.peers))}
			o.waiting[s.Key] = it
			o.order = append(o.order, it)
		}
		if !same(&it.news.Sums, &s.Sums) {
			it.underWay = nil
		}
		o.last++
		it.news = News{s, o.last}
		for i := range it.has { // what tells the same needs not be told again
			if it.has[i].number != 0 && same(&it.has[i].Sums, &s.Sums) {
				it.has[i] = it.news
			}
		}
		o.check(it)
	}
	return dropped
}

// drop forgets the bucket that has waited longest.
func (o *Outbox) drop() {
	for len(o.order) > 0 {
		it := o.order[0]
		o.order[0], o.order = nil, o.order[1:]
		if o.waiting[it.news.Key] == it {
			delete(o.waiting, it.news.Key)
			return
		}
	}
}

// same reports whether two sums of a bucket tell the same.
func same(a, b *limiter.Sums) bool {
	return a.Born == b.Born && a.Reset == b.Reset && a.Taken == b.Taken && a.Given == b.Given && a.Denied == b.Denied
}

// Next returns up to n buckets that a peer lacks, those that came first. They are under way to it, and not returned
// again, until Told, Lost, or a change.
func (o *Outbox) Next(peer string, n int) (news []News) {
	kept, at := o.order[:0], slices.Index(o.peers, peer)
	for _, it := range o.order {
		if o.waiting[it.news.Key] != it {
			continue
		}
		kept = append(kept, it)
		if len(news) < n && it.has[at].number != it.news.number && !slices.Contains(it.underWay, peer) {
			it.underWay = append(it.underWay, peer)
			news = append(news, it.news)
		}
	}
	clear(o.order[len(kept):])
	o.order = kept
	return news
}

// Told says that a peer has applied what Next returned. What has changed since is told again.
func (o *Outbox) Told(peer string, news []News) {
	at := slices.Index(o.peers, peer)
	for _, n := range news {
		if it := o.waiting[n.Key]; it != nil && n.number >= it.has[at].number {
			if it.has[at] = n; same(&it.news.Sums, &n.Sums) {
				it.has[at] = it.news
			}
			o.check(it)
		}
	}
}

// Lost says that a peer may not have applied what Next returned. It is told again, after what else there is.
func (o *Outbox) Lost(peer string, news []News) {
	lost := make(map[*item]bool, len(news))
	for _, n := range news {
		if it := o.waiting[n.Key]; it != nil && same(&it.news.Sums, &n.Sums) {
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
	o.order = slices.Concat(kept, last)
}

// SetCutOff says which peers are cut off. What all others have sets the guard then, as if they were all.
func (o *Outbox) SetCutOff(peers []string) { o.cutOff = peers }

// check confirms what every peer has of a bucket, and the guard by what those have that are not cut off, if that is
// something new.
func (o *Outbox) check(it *item) {
	oldest, near := &it.news, &it.news
	for i := range it.has {
		if it.has[i].number < oldest.number {
			oldest = &it.has[i]
		}
		if it.has[i].number < near.number && !slices.Contains(o.cutOff, o.peers[i]) {
			near = &it.has[i]
		}
	}
	if near.number > max(oldest.number, it.near) {
		it.near = near.number
		guard := near.Exported
		guard.Lease = 0 // it goes on
		o.confirmed = append(o.confirmed, guard)
	}
	if oldest.number <= it.told && oldest.number != it.news.number {
		return
	}
	it.told = oldest.number
	o.confirmed = append(o.confirmed, oldest.Exported)
	if oldest.number == it.news.number {
		delete(o.waiting, it.news.Key)
	}
}

// Waiting returns the latest of each bucket that a peer lacks.
func (o *Outbox) Waiting() (news []News) {
	for _, it := range o.waiting {
		news = append(news, it.news)
	}
	return news
}

// Len is the number of buckets that a peer lacks.
func (o *Outbox) Len() int { return len(o.waiting) }

// Confirmed returns what every peer has since the last call, for limiter.Exporter.Confirm, leases that later ones have
// replaced, without a guard, and guards without a lease.
func (o *Outbox) Confirmed() []limiter.Exported {
	out := o.confirmed
	o.confirmed = nil
	return out
}
