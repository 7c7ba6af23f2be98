package history

import (
	"encoding/binary"
	"hash/maphash"
	"math"

	"sluice/internal/wire"
)

// postedVersion begins the figures of a second on the board. For each rule follow its name, with its length before it,
// and its figures, of all requests under "".
const postedVersion = 1

// appendPosted writes the figures of a rule.
func appendPosted(out []byte, rule string, f *Figures) []byte {
	out = wire.AppendText(out, rule)
	for _, n := range f.all() {
		out = binary.AppendUvarint(out, uint64(max(0, n)))
	}
	return out
}

// eachPosted visits the figures of rules that a node posted for a second. It skips unreadable figures, because figures
// on a page are not worth an error.
func eachPosted(text string, see func(rule string, f Figures)) {
	in := wire.Read([]byte(text))
	if in.Byte() != postedVersion {
		return
	}
	for in.Len() > 0 {
		rule := in.Text(maxRowName)
		var all allFigures
		for i := range all {
			all[i] = in.Number(math.MaxInt64)
		}
		if !in.Failed() {
			see(rule, all.figures())
		}
	}
}

// postedOf returns the figures of a rule in the post of a node for a second.
func postedOf(text, rule string) (of Figures) {
	eachPosted(text, func(name string, f Figures) {
		if name == rule {
			of = f
		}
	})
	return of
}

var hashSeed = maphash.MakeSeed()

// hashOf is a hash of fields and their values, in any order.
func hashOf(fields map[string]string) uint64 {
	hash := uint64(len(fields))
	for field, value := range fields {
		hash += maphash.Comparable(hashSeed, [2]uint64{maphash.String(hashSeed, field), maphash.String(hashSeed, value)})
	}
	return hash
}

// summedTen is what the nodes posted of ten seconds. It is not changed.
type summedTen struct {
	hash  uint64 // of the posts
	rules map[string]Figures
}
