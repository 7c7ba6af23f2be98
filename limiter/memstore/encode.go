package memstore

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"

	"sluice/internal/wire"
	"sluice/limiter"
)

// The elements of a snapshot are unsigned and zigzag varints and strings after their
// length. decoder reads what the append functions write.

// appendBucket writes a bucket that is kept for another keep ms.
func appendBucket(b []byte, key *bucketKey, keep int64, st *limiter.State) []byte {
	b = binary.AppendUvarint(b, uint64(key.size()))
	b = binary.AppendUvarint(binary.AppendVarint(key.appendTo(b), keep), uint64(st.Born))
	for _, v := range [...]int64{st.At, st.Used, st.Prev, st.Scale} {
		b = binary.AppendVarint(b, v)
	}
	entries := st.AllEntries()
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for i := range entries {
		e := &entries[i]
		b = binary.AppendVarint(b, e.At)
		b = binary.AppendVarint(b, e.Weight)
		b = wire.AppendText(b, e.ID)
	}
	return b
}

// appendRecord writes a record that is kept for another keep ms.
func appendRecord(b []byte, name recordName, keep int64, r *record) []byte {
	b = wire.AppendText(b, name.tag)
	b = wire.AppendText(b, name.id)
	b = binary.AppendVarint(b, keep)
	b = binary.AppendVarint(b, r.at)
	b = appendBool(b, r.allowed)
	b = appendBool(b, r.refunded)
	b = binary.AppendUvarint(b, uint64(len(r.keys)))
	for i := range r.keys {
		b = wire.AppendText(b, string(r.keys[i]))
		b = binary.AppendVarint(b, r.charged[i].At)
		b = binary.AppendVarint(b, r.charged[i].Weight)
		b = appendLimit(b, &r.charged[i].Limit)
		b = binary.AppendUvarint(b, uint64(r.charged[i].Born))
		b = appendDecision(b, &r.limits[i])
	}
	b = appendBool(b, r.settled != nil)
	if r.settled != nil {
		b = binary.AppendVarint(b, r.settledAt)
		for i := range r.settled {
			b = appendDecision(b, &r.settled[i])
		}
	}
	return b
}

func appendLimit(b []byte, l *limiter.Limit) []byte {
	for _, v := range [...]int64{int64(l.Algorithm), l.Count, l.Window, l.Burst, int64(l.Align), l.Anchor, l.Buckets} {
		b = binary.AppendVarint(b, v)
	}
	return b
}

func appendDecision(b []byte, d *limiter.Decision) []byte {
	b = appendBool(b, d.Allowed)
	for _, v := range [...]int64{d.Limit, d.Limit - d.Used, d.RetryAfter, d.Reset, d.Delay, d.Refunded} {
		b = binary.AppendVarint(b, v)
	}
	return b
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

var errMalformed = errors.New("malformed element")

// decoder reads elements. After a failure every read returns zero.
type decoder struct{ wire.Reader }

// string reads a text of at most the remaining length.
func (d *decoder) string() string { return d.Text(int64(d.Len())) }

// exact reads a number within MaxExact.
func (d *decoder) exact() int64 {
	v := d.Varint()
	if v > limiter.MaxExact || v < -limiter.MaxExact {
		d.Fail()
		return 0
	}
	return v
}

// units reads a number of units: exact and not negative.
func (d *decoder) units() int64 {
	v := d.exact()
	if v < 0 {
		d.Fail()
		return 0
	}
	return v
}

// born reads the number of a bucket.
func (d *decoder) born() uint32 {
	return uint32(d.Number(math.MaxUint32)) //nolint:gosec // checked
}

// bucket reads what appendBucket wrote. It rejects states that no decision leaves
// and with which the arithmetic fails.
func (d *decoder) bucket() (key limiter.Key, keep int64, st limiter.State, err error) {
	key = limiter.Key(d.string())
	keep = d.units()
	st.Born = d.born()
	st = limiter.State{Exists: true, Born: st.Born, At: d.exact(), Used: d.units(), Prev: d.units(), Scale: d.units()}
	if n := d.Count(3); n > 0 {
		st.Entries = make([]limiter.Entry, n)
		for i := range st.Entries {
			st.Entries[i] = limiter.Entry{At: d.exact(), Weight: d.units(), ID: d.string()}
		}
	}
	if strings.HasSuffix(string(key), "|"+limiter.SlidingWindowBuckets.Kind()) && (st.Scale < 1 || st.Prev < 1) {
		d.Fail()
	}
	if strings.HasSuffix(string(key), "|"+limiter.SlidingWindowLog.Kind()) && !limiter.IsLog(&st) {
		d.Fail()
	}
	if strings.HasSuffix(string(key), "|"+limiter.Concurrency.Kind()) && !limiter.GatherSlots(&st) {
		d.Fail()
	}
	if d.Failed() {
		return "", 0, limiter.State{}, errMalformed
	}
	return key, keep, st, nil
}

// limit reads what appendLimit wrote.
func (d *decoder) limit() limiter.Limit {
	a := d.Varint()
	l := limiter.Limit{Count: d.units(), Window: d.units(), Burst: d.units()}
	align := d.Varint()
	l.Anchor, l.Buckets = d.exact(), d.units()
	if a < 0 || a > 255 || (a > 0 && !limiter.Algorithm(a).Exists()) || align < 0 || align > int64(limiter.AlignFirstHit) {
		d.Fail()
		return limiter.Limit{}
	}
	l.Algorithm, l.Align = limiter.Algorithm(a), limiter.Align(align)
	return l
}

// decision reads what appendDecision wrote.
func (d *decoder) decision() limiter.Decision {
	out := limiter.Decision{Allowed: d.Bool(), Limit: d.Varint()}
	out.SetRoom(d.Varint())
	out.RetryAfter, out.Reset, out.Delay, out.Refunded = d.Varint(), d.Varint(), d.Varint(), d.Varint()
	return out
}

// record reads what appendRecord wrote.
func (d *decoder) record() (name recordName, keep int64, r *record, err error) {
	name = recordName{tag: d.string(), id: d.string()}
	keep = d.units()
	r = &record{at: d.exact(), allowed: d.Bool(), refunded: d.Bool()}
	n := d.Count(10)
	if n < 1 || n > limiter.MaxLimits {
		d.Fail()
	} else {
		r.keys, r.charged, r.limits = make([]limiter.Key, n), make([]limiter.Charged, n), make([]limiter.Decision, n)
	}
	for i := range r.keys {
		r.keys[i] = limiter.Key(d.string())
		r.charged[i] = limiter.Charged{At: d.exact(), Weight: d.units()}
		r.charged[i].Limit, r.charged[i].Born = d.limit(), d.born()
		r.limits[i] = d.decision()
		r.limits[i].Rate = -1
		if l := r.charged[i].Limit; l.Algorithm != 0 {
			r.limits[i].Rate = l.Rate()
		}
	}
	if d.Bool() {
		r.settledAt, r.settled = d.exact(), make([]limiter.Decision, len(r.keys))
		for i := range r.settled {
			r.settled[i] = d.decision()
		}
	}
	if d.Failed() {
		return recordName{}, 0, nil, errMalformed
	}
	return name, keep, r, nil
}
