package override

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// format is the only one that Write writes and Read reads.
const format = 3

// maxStoredKey bounds a wildcard's text when it is read; it has at most MaxWildcard bytes, each
// written as up to three.
const maxStoredKey = 4 * MaxWildcard

// Write writes the collection for Read. It holds hashes of exact keys
// and the key of those hashes, no key in clear but wildcards and networks. All numbers are
// big-endian:
//
//	format uint32, seed 2 × uint64, seq int64, rules uint64, and of each rule
//	id int64, effects uint64 × (limit, burst, expires int64, calendars uint8 × (day, month uint8,
//	from, until int64, zone, at: length uint8, text)), calendars being 0 or 1,
//	exact uint64 × (hash 2 × uint64, id int64, effect uint32),
//	wildcards uint64 × (id int64, effect, length uint32, text),
//	effects as above,
//	networks uint64 × (hash 2 × uint64, address 2 × uint64, id int64, bits uint8, effect uint32)
//
// Write merges edits that are kept separately, and leaves out overrides that have ended by now (ms since the epoch).
func (o *Table) Write(w io.Writer, now int64) error {
	out := writer{w: bufio.NewWriterSize(w, 64<<10)}
	out.put32(format)
	out.put64(o.seed[0], o.seed[1], uint64(o.seq), uint64(len(o.byRule)))
	for _, id := range slices.Sorted(maps.Keys(o.byRule)) {
		r := o.byRule[id]
		t := r.base
		if r.recent != nil || t == nil {
			t = merge(r.base, r.recent, now)
		}
		out.put64(uint64(id))
		out.effects(t.effects)
		out.put64(uint64(t.count))
		for e := range t.all() {
			out.put64(e.a, e.b, uint64(e.id))
			out.put32(e.effect)
		}
		out.put64(uint64(len(r.prefixes)))
		for i := range r.prefixes {
			p := &r.prefixes[i]
			out.put64(uint64(p.id))
			out.effect(&p.effect)
			out.put32(uint32(len(p.match)))
			out.text(p.match)
		}
		out.networks(mergeNetworks(r.networks, r.recentNetworks, true, now))
	}
	return out.flush()
}

// writer keeps the first error.
type writer struct {
	w   *bufio.Writer
	err error
}

func (w *writer) write(b []byte) {
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
}

func (w *writer) put64(vs ...uint64) {
	var b [8]byte
	for _, v := range vs {
		binary.BigEndian.PutUint64(b[:], v)
		w.write(b[:])
	}
}

func (w *writer) put32(v uint32) { w.write(binary.BigEndian.AppendUint32(nil, v)) }

func (w *writer) text(s string) {
	if w.err == nil {
		_, w.err = w.w.WriteString(s)
	}
}

func (w *writer) effect(e *Effect) {
	w.put64(uint64(e.limit), uint64(e.burst), uint64(e.expires))
	c := e.Calendar()
	if c == (Calendar{}) {
		w.write([]byte{0})
		return
	}
	w.write([]byte{1, c.Day, c.Month})
	w.put64(uint64(c.From), uint64(c.Until))
	for _, s := range []string{c.Zone, c.At} {
		w.write([]byte{byte(len(s))})
		w.text(s)
	}
}

func (w *writer) effects(es []Effect) {
	w.put64(uint64(len(es)))
	for i := range es {
		w.effect(&es[i])
	}
}

func (w *writer) networks(t *networkTable) {
	if t == nil {
		t = &networkTable{}
	}
	w.effects(t.effects)
	w.put64(uint64(len(t.entries)))
	for i := range t.entries {
		e := &t.entries[i]
		w.put64(e.a, e.b, e.hi, e.lo, uint64(e.id))
		w.write([]byte{e.bits})
		w.put32(e.effect)
	}
}

func (w *writer) flush() error {
	if w.err != nil {
		return w.err
	}
	return w.w.Flush()
}

// errFormat reports content that Write does not write.
var errFormat = errors.New("not overrides in a known format")

// Read decodes the output of Write and trusts nothing: counts are bounded by the available bytes.
// data is not kept.
func Read(data []byte) (*Table, error) {
	in := reader{data: data}
	if got := in.get32(); got != format {
		return nil, fmt.Errorf("%w: format %d, and this version reads %d", errFormat, got, format)
	}
	o := &Table{byRule: map[int64]*OfRule{}}
	o.seed[0], o.seed[1] = in.get64(), in.get64()
	o.seq = int64(in.get64())
	for range in.count(8 * 4) {
		id := int64(in.get64())
		r := in.rule(o.seed)
		r.networks = in.networks()
		if in.failed {
			break
		}
		o.byRule[id] = r
	}
	if in.failed || len(in.data) > 0 {
		return nil, errFormat
	}
	return o, nil
}

type reader struct {
	data   []byte
	failed bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.data) {
		r.failed = true
		return make([]byte, min(n, maxStoredKey))
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) get64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }
func (r *reader) get32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }

// count reads how many items of at least size bytes follow.
func (r *reader) count(size int) int {
	n := r.get64()
	if n > uint64(len(r.data)/size) {
		r.failed = true
		return 0
	}
	return int(n)
}

func (r *reader) effect() Effect {
	e := Effect{limit: int64(r.get64()), burst: int64(r.get64()), expires: int64(r.get64())}
	calendars := r.take(1)[0]
	if e.limit < blocked || e.burst < -1 || calendars > 1 {
		r.failed = true
	}
	if calendars != 1 || r.failed {
		return e
	}
	c := Calendar{Day: r.take(1)[0], Month: r.take(1)[0], From: int64(r.get64()), Until: int64(r.get64())}
	for _, s := range []*string{&c.Zone, &c.At} {
		*s = string(r.take(int(r.take(1)[0])))
	}
	return e.with(c)
}

func (r *reader) effects() []Effect {
	effects := make([]Effect, r.count(25))
	for i := range effects {
		effects[i] = r.effect()
	}
	return effects
}

func (r *reader) networks() *networkTable {
	effects := r.effects()
	entries := make([]networkEntry, r.count(45))
	for i := range entries {
		e := &entries[i]
		e.network = network{a: r.get64(), b: r.get64(), hi: r.get64(), lo: r.get64()}
		e.id, e.bits, e.effect = int64(r.get64()), r.take(1)[0], r.get32()
		if int64(e.effect) >= int64(len(effects)) || !e.valid() {
			r.failed = true
		}
	}
	if r.failed {
		return nil
	}
	return makeNetworks(entries, effects)
}

func (r *reader) rule(seed hashSeed) *OfRule {
	out := &OfRule{seed: seed}
	effects := r.effects()
	entries := make([]hashEntry, r.count(28))
	for i := range entries {
		e := hashEntry{a: r.get64(), b: r.get64(), id: int64(r.get64()), effect: r.get32()}
		if int64(e.effect) >= int64(len(effects)) {
			r.failed = true
		}
		entries[i] = e
	}
	if len(entries) > 0 && !r.failed {
		out.base = makeTable(entries, effects)
	}
	edits := map[string]*prefixEntry{}
	for range r.count(8 + 25 + 4) {
		e := &prefixEntry{id: int64(r.get64()), effect: r.effect()}
		n := r.get32()
		if n == 0 || n > maxStoredKey {
			r.failed = true
			break
		}
		e.match = string(r.take(int(n)))
		edits[e.match] = e
	}
	if len(edits) > 0 {
		out.prefixes = prefixTable(nil).with(edits, 0)
	}
	return out
}
