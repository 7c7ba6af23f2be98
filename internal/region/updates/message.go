package updates

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"sluice/internal/region"
	"sluice/internal/wire"
	"sluice/limiter"
)

const (
	// Version is the first byte of a message. Others are refused.
	Version byte = 2
	// MaxBuckets is the largest number of buckets in a message.
	MaxBuckets = 100_000
	// maxKey bounds a key, in bytes, and maxCutOff the regions of Message.CutOff.
	maxKey, maxCutOff = 2048, 50
	// mostAhead is how far the times in a message may be ahead of the receiver's clock, in ms: a hundred years.
	mostAhead = 100 * 365 * 24 * 3_600_000
	// enough is the length at which the body of a message ends: a bucket more always fits.
	enough = region.MaxMessage - (maxKey + (3+maxCutOff)*(region.MaxName+1) + 64 + 20*limiter.MaxSumWindows)
)

// Message is what one region sends to another: the sums of buckets, each once. One without buckets says that the sender
// is there.
type Message struct {
	region.Head

	// CutOff are the regions that the sender is cut off from, in order.
	CutOff  []string
	Buckets []Bucket
}

// Bucket is the sums of one bucket.
type Bucket struct {
	Key  limiter.Key
	Sums limiter.Sums
}

// A message is its version and a zstd frame of
//
//	from, to, prefix   texts
//	at, set  varints
//	cut off  how many, uvarint, and as many texts
//	count    uvarint
//	buckets  in the order of their keys, each compared with the one before it (at first with nothing):
//	           how many bytes of the key are the same, uvarint; the rest of it, text
//	           born less that of the one before (at first less at), varint; reset, 0 or born-reset+1, varint
//	           shape less that before, varint; taken less the units of the windows and given, uvarint; given, uvarint;
//	           denied, uvarint
//	           limit less that before, varint, and burst less that before, varint
//	           number of windows, uvarint; the number of the first less that before, varint, and its units, uvarint;
//	           of each further one how much older it is than the one before it, and its units, uvarint

var (
	packer, _   = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	unpacker, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(region.MaxMessage))
)

// Encode returns a message, as several messages if its buckets need it. It changes their order.
func Encode(m *Message) [][]byte {
	buckets := m.Buckets
	slices.SortFunc(buckets, func(a, b Bucket) int { return cmp.Compare(a.Key, b.Key) })
	var messages [][]byte
	for len(buckets) > 0 || messages == nil {
		e := encoder{}
		n := 0
		for n < len(buckets) && n < MaxBuckets && len(e.b) < enough {
			e.bucket(&buckets[n], m.At)
			n++
		}
		body := binary.AppendUvarint(m.Append(nil), uint64(len(m.CutOff)))
		for _, name := range m.CutOff {
			body = wire.AppendText(body, name)
		}
		body = append(binary.AppendUvarint(body, uint64(n)), e.b...) //nolint:gosec // not negative
		messages = append(messages, packer.EncodeAll(body, []byte{Version}))
		buckets = buckets[n:]
	}
	return messages
}

// encoder has the buckets so far, and the last of them.
type encoder struct {
	b    []byte
	last Bucket
}

func (e *encoder) bucket(b *Bucket, at int64) {
	m, last := &b.Sums, &e.last.Sums
	if e.last.Key == "" {
		last.Born = at
	}
	same := 0
	for same < min(len(b.Key), len(e.last.Key)) && b.Key[same] == e.last.Key[same] {
		same++
	}
	e.uvarint(int64(same))
	e.b = wire.AppendText(e.b, string(b.Key[same:]))
	e.varint(m.Born - last.Born)
	if m.Reset == 0 {
		e.varint(0)
	} else {
		e.varint(pastZero(m.Born - m.Reset))
	}
	e.varint(m.Shape - last.Shape)
	e.uvarint(m.Taken - m.Given - held(m))
	e.uvarint(m.Given)
	e.uvarint(m.Denied)
	e.varint(m.Count - last.Count)
	e.varint(m.Burst - last.Burst)
	e.uvarint(int64(len(m.Windows)))
	for i, w := range m.Windows {
		if i == 0 {
			e.varint(w.Number - first(last))
		} else {
			e.uvarint(m.Windows[i-1].Number - w.Number)
		}
		e.uvarint(w.Units)
	}
	e.last = Bucket{Key: b.Key, Sums: *m}
}

func (e *encoder) varint(n int64)  { e.b = binary.AppendVarint(e.b, n) }
func (e *encoder) uvarint(n int64) { e.b = binary.AppendUvarint(e.b, uint64(n)) } //nolint:gosec // not negative

// pastZero keeps 0 free for "none": 0 and more become 1 and more.
func pastZero(n int64) int64 {
	if n >= 0 {
		return n + 1
	}
	return n
}

// first is the number of the newest window, 0 without one.
func first(m *limiter.Sums) int64 {
	if len(m.Windows) == 0 {
		return 0
	}
	return m.Windows[0].Number
}

// held is the units in the windows.
func held(m *limiter.Sums) (units int64) {
	for _, w := range m.Windows {
		units += w.Units
	}
	return units
}

// Decode reads a message that arrives at a time, ms since the epoch. It refuses everything that Encode would not write,
// and times that are far ahead: an incarnation that begins at the largest time leaves no time for the next one, so that
// this region would send messages that others refuse.
func Decode(b []byte, now int64) (*Message, error) {
	if len(b) == 0 || len(b) > region.MaxMessage {
		return nil, fmt.Errorf("%w: %d bytes, must be 1 to %d", region.ErrMessage, len(b), region.MaxMessage)
	}
	if b[0] != Version {
		return nil, fmt.Errorf("%w: version %d, and this node reads %d", region.ErrMessage, b[0], Version)
	}
	body, err := unpacker.DecodeAll(b[1:], nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", region.ErrMessage, err)
	}
	d := decoder{Reader: wire.Read(body)}
	m := &Message{Head: region.ReadHead(&d.Reader)}
	m.CutOff = d.names()
	n := d.Number(MaxBuckets)
	if n > int64(d.Len()) {
		d.Fail()
	}
	m.Buckets = make([]Bucket, 0, min(n, int64(d.Len())/9+1))
	for i := int64(0); i < n && !d.Failed(); i++ {
		b := d.bucket(m.At)
		if max(b.Sums.Born, b.Sums.Reset) > now+mostAhead {
			d.Fail()
		}
		m.Buckets = append(m.Buckets, b)
	}
	if !d.Done() {
		return nil, region.ErrMessage
	}
	return m, nil
}

type decoder struct {
	wire.Reader

	last Bucket
}

// names reads Message.CutOff.
func (d *decoder) names() (names []string) {
	for range d.Number(maxCutOff) {
		if d.Failed() {
			return nil
		}
		name := d.Text(region.MaxName)
		if len(names) > 0 && name <= names[len(names)-1] || name == "" {
			d.Fail()
		}
		names = append(names, name)
	}
	return names
}

// bucket reads what encoder.bucket wrote.
func (d *decoder) bucket(at int64) Bucket {
	last := &d.last.Sums
	if d.last.Key == "" {
		last.Born = at
	}
	same := d.Number(int64(len(d.last.Key)))
	var key strings.Builder
	key.WriteString(string(d.last.Key[:same]))
	key.WriteString(d.Text(maxKey - same))
	b := Bucket{Key: limiter.Key(key.String())}
	m := &b.Sums
	m.Born = last.Born + d.exact()
	switch reset := d.exact(); {
	case reset > 0:
		m.Reset = m.Born - (reset - 1)
	case reset < 0:
		m.Reset = m.Born - reset
	}
	m.Shape = last.Shape + d.exact()
	m.Taken, m.Given = d.Number(limiter.MaxExact), d.Number(limiter.MaxExact)
	m.Taken, m.Denied = m.Taken+m.Given, d.Number(limiter.MaxExact)
	m.Count, m.Burst = last.Count+d.exact(), last.Burst+d.exact()
	n := d.Number(int64(min(d.Len()/2, limiter.MaxSumWindows)))
	for i := range n {
		w := limiter.WindowUnits{}
		if i == 0 {
			w.Number = first(last) + d.exact()
		} else {
			w.Number = m.Windows[i-1].Number - d.Number(limiter.MaxExact)
		}
		w.Units = d.Number(limiter.MaxExact)
		m.Taken = min(m.Taken+w.Units, limiter.MaxExact+1) // Check refuses more
		m.Windows = append(m.Windows, w)
	}
	if b.Key <= d.last.Key || m.Check() != nil {
		d.Fail()
	}
	d.last = b
	return b
}

// exact reads a number within MaxExact.
func (d *decoder) exact() int64 {
	n := d.Varint()
	if n > limiter.MaxExact || n < -limiter.MaxExact {
		d.Fail()
		return 0
	}
	return n
}
