package updates

import (
	"slices"

	"sluice/limiter"
)

// Outbox is what a region has exported and other regions do not have yet, the latest export of each bucket. It holds up
// to a number of buckets. To make room it drops the buckets that have waited longest, most likely for an unreachable
// region. The store exports a dropped bucket again when its lease has ended. It is not safe for concurrent use.
type Outbox struct {
	peers     []string
	cutOff    []string // the peers that are disconnected
	most      int
	last      int64 // the number of the latest export
	waiting   map[limiter.Key]*item
	order     []*item // in order of arrival; may hold items that no longer wait
	confirmed []limiter.Exported
}

// Update is one bucket as it was exported, for Accepted and Lost. A later export of a bucket has a greater number.
type Update struct {
	limiter.Exported

	number int64
}

// item is one bucket: its latest export, the export that each peer has, without a number for none, and the peers to
// which the latest export is under way. everywhere is the number of the latest export that every peer has, and
// connected the number of the latest export that every peer has which is not cut off.
type item struct {
	latest                Update
	has                   []Update
	underWay              []string
	everywhere, connected int64
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
			o.confirmed = append(o.confirmed, limiter.Exported{Key: s.Key, Lease: it.latest.Lease})
		case len(o.waiting) >= o.most:
			o.drop()
			dropped++
		}
		if it == nil {
			it = &item{has: make([]Update, len(o.peers))}
			o.waiting[s.Key] = it
			o.order = append(o.order, it)
		}
		if !same(&it.latest.Sums, &s.Sums) {
			it.underWay = nil
		}
		o.last++
		it.latest = Update{s, o.last}
		for i := range it.has { // a peer that has the same sums needs no message
			if it.has[i].number != 0 && same(&it.has[i].Sums, &s.Sums) {
				it.has[i] = it.latest
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
		if o.waiting[it.latest.Key] == it {
			delete(o.waiting, it.latest.Key)
			return
		}
	}
}

// same reports whether two sums of a bucket say the same to another region.
func same(a, b *limiter.Sums) bool {
	return a.Born == b.Born && a.Reset == b.Reset && a.Taken == b.Taken && a.Given == b.Given && a.Denied == b.Denied
}

// Next returns up to n buckets that a peer lacks, in order of arrival. They are under way to the peer, and not returned
// again, until Accepted, Lost, or a change.
func (o *Outbox) Next(peer string, n int) (updates []Update) {
	kept, at := o.order[:0], slices.Index(o.peers, peer)
	for _, it := range o.order {
		if o.waiting[it.latest.Key] != it {
			continue
		}
		kept = append(kept, it)
		if len(updates) < n && it.has[at].number != it.latest.number && !slices.Contains(it.underWay, peer) {
			it.underWay = append(it.underWay, peer)
			updates = append(updates, it.latest)
		}
	}
	clear(o.order[len(kept):])
	o.order = kept
	return updates
}

// Accepted says that a peer has applied what Next returned. A bucket that has changed since is returned again.
func (o *Outbox) Accepted(peer string, updates []Update) {
	at := slices.Index(o.peers, peer)
	for _, n := range updates {
		if it := o.waiting[n.Key]; it != nil && n.number >= it.has[at].number {
			if it.has[at] = n; same(&it.latest.Sums, &n.Sums) {
				it.has[at] = it.latest
			}
			o.check(it)
		}
	}
}

// Lost says that a peer may not have applied what Next returned. Next returns it again, after all other buckets.
func (o *Outbox) Lost(peer string, updates []Update) {
	lost := make(map[*item]bool, len(updates))
	for _, n := range updates {
		if it := o.waiting[n.Key]; it != nil && same(&it.latest.Sums, &n.Sums) {
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

// SetCutOff sets the disconnected peers. The guard then depends on the sums that the other peers have.
func (o *Outbox) SetCutOff(peers []string) { o.cutOff = peers }

// check confirms the latest export that every peer has of a bucket, and the guard of the latest export that the
// connected peers have, each once.
func (o *Outbox) check(it *item) {
	oldest, near := &it.latest, &it.latest
	for i := range it.has {
		if it.has[i].number < oldest.number {
			oldest = &it.has[i]
		}
		if it.has[i].number < near.number && !slices.Contains(o.cutOff, o.peers[i]) {
			near = &it.has[i]
		}
	}
	if near.number > max(oldest.number, it.connected) {
		it.connected = near.number
		guard := near.Exported
		guard.Lease = 0 // it goes on
		o.confirmed = append(o.confirmed, guard)
	}
	if oldest.number <= it.everywhere && oldest.number != it.latest.number {
		return
	}
	it.everywhere = oldest.number
	o.confirmed = append(o.confirmed, oldest.Exported)
	if oldest.number == it.latest.number {
		delete(o.waiting, it.latest.Key)
	}
}

// Waiting returns the latest export of each bucket that a peer lacks.
func (o *Outbox) Waiting() (updates []Update) {
	for _, it := range o.waiting {
		updates = append(updates, it.latest)
	}
	return updates
}

// Len is the number of buckets that a peer lacks.
func (o *Outbox) Len() int { return len(o.waiting) }

// Confirmed returns, for limiter.Exporter.Confirm, the sums that every peer has received since the last call. It
// includes leases without a guard, which later leases have replaced, and guards without a lease.
func (o *Outbox) Confirmed() []limiter.Exported {
	out := o.confirmed
	o.confirmed = nil
	return out
}
