package memstore

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"sluice/limiter"
)

const (
	// defaultMaxRecordBytes is the default of Options.MaxRecordBytes. It holds the records of a minute with about 1,800
	// named requests per second. For more, use Redis, where records expire.
	defaultMaxRecordBytes = 64 << 20
	// keyFraction is the part of MaxRecordBytes that the IDs of one key may use: an eighth.
	keyFraction = 8
)

// recordShard is a part of the records. All records of one entity (limiter.Key.Tag)
// are in the same shard. Its lock is taken before any bucket's.
type recordShard struct {
	mu   sync.Mutex
	book recordBook
	// oldest is the number of the oldest record in book, math.MaxUint64 without any.
	// It is written under mu and read without it.
	oldest atomic.Uint64
}

// publishOldest sets oldest. Callers hold mu.
func (sh *recordShard) publishOldest() {
	if r := sh.book.order.first; r != nil {
		sh.oldest.Store(r.number)
		return
	}
	sh.oldest.Store(math.MaxUint64)
}

// recordBook holds records in two orders of arrival: of all records, and of those of
// each entity. It is not safe for concurrent use.
type recordBook struct {
	records  table[recordName, *record]
	entities table[string, *entity]
	order    recordList
}

// entity is shared by the records of one tag.
type entity struct {
	order recordList
	bytes int64
}

// recordList is a doubly linked list, oldest record first. Each record is in two
// lists: links[ofAll] and links[ofEntity].
type recordList struct{ first, last *record }

const (
	ofAll = iota
	ofEntity
)

type recordLinks struct{ previous, next *record }

func (l *recordList) push(r *record, which int) {
	r.links[which] = recordLinks{previous: l.last}
	if l.last == nil {
		l.first = r
	} else {
		l.last.links[which].next = r
	}
	l.last = r
}

func (l *recordList) unlink(r *record, which int) {
	at := &r.links[which]
	if at.previous == nil {
		l.first = at.next
	} else {
		at.previous.links[which].next = at.next
	}
	if at.next == nil {
		l.last = at.previous
	} else {
		at.next.links[which].previous = at.previous
	}
	*at = recordLinks{}
}

// add appends a record whose name is not in the book.
func (b *recordBook) add(seed maphash.Seed, r *record, deadline int64) {
	hash := maphash.Comparable(seed, r.name)
	b.records.add(slot[recordName, *record]{hash: hash, key: r.name, deadline: deadline, value: r})
	b.order.push(r, ofAll)
	tagHash := maphash.String(seed, r.name.tag)
	found := b.entities.find(tagHash, r.name.tag)
	if found == nil {
		b.entities.add(slot[string, *entity]{hash: tagHash, key: r.name.tag, value: new(entity)})
		found = b.entities.find(tagHash, r.name.tag)
	}
	found.value.order.push(r, ofEntity)
	found.value.bytes += r.bytes
}

// remove drops a record that is in the book.
func (b *recordBook) remove(seed maphash.Seed, r *record) {
	b.records.remove(maphash.Comparable(seed, r.name), r.name)
	b.forget(seed, r)
}

// forget drops a record from the lists, when it is no longer in the table.
func (b *recordBook) forget(seed maphash.Seed, r *record) {
	b.order.unlink(r, ofAll)
	e := b.entityOf(seed, r)
	e.order.unlink(r, ofEntity)
	if e.bytes -= r.bytes; e.order.first == nil {
		b.entities.remove(maphash.String(seed, r.name.tag), r.name.tag)
	}
}

// entityOf returns the entity of r.
func (b *recordBook) entityOf(seed maphash.Seed, r *record) *entity {
	return b.entities.find(maphash.String(seed, r.name.tag), r.name.tag).value
}

// resize updates the size of a changed record, and returns by how much it grew.
func (b *recordBook) resize(seed maphash.Seed, r *record) int64 {
	grown := recordBytes(r) - r.bytes
	r.bytes += grown
	b.entityOf(seed, r).bytes += grown
	return grown
}

// sweep is table.sweep for the records of the book.
func (b *recordBook) sweep(seed maphash.Seed, now int64, n int) (dropped int, bytes int64, done bool) {
	dropped, done = b.records.sweep(now, n, func(r **record) {
		bytes += (*r).bytes
		b.forget(seed, *r)
	})
	return dropped, bytes, done
}

// recordBytes is about the memory that a record uses, including the tables, which
// have between one and two places for each element.
func recordBytes(r *record) int64 {
	const slots = unsafe.Sizeof(slot[recordName, *record]{}) + unsafe.Sizeof(slot[string, *entity]{})
	const places = slots*3/2 + unsafe.Sizeof(entity{}) + 2*8
	n := unsafe.Sizeof(record{}) + places + uintptr(len(r.name.id)) + uintptr(cap(r.held))*unsafe.Sizeof(r.at)
	n += uintptr(len(r.keys))*(unsafe.Sizeof(limiter.Key(""))+unsafe.Sizeof(limiter.Charged{})) +
		uintptr(len(r.limits)+len(r.settled))*unsafe.Sizeof(limiter.Decision{})
	for _, k := range r.keys {
		n += uintptr(len(k))
	}
	return int64(n)
}
