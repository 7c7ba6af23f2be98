package envoy

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules/entries"
)

// Bounds of a message. A rule has at most maxEntries entries, so more match none.
const (
	maxMessage = 64 << 10
	maxEntries = 32
)

// limitCall is a decoded envoy.service.ratelimit.v3.RateLimitRequest. Its texts are parts of the message.
type limitCall struct {
	domain      string
	descriptors []descriptor
	entries     []entries.Entry // of all descriptors
	addend      uint32          // 0 means 1
}

// descriptor is a decoded envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.
type descriptor struct {
	first, last int // its entries are entries[first:last]
	explicit    bool
	negative    bool
	limited     bool // perUnit, unit and multiplier are set
	perUnit     uint32
	unit        int32
	multiplier  uint32
	addend      uint64
}

// forget drops the content and keeps the memory.
func (c *limitCall) forget() {
	clear(c.entries)
	*c = limitCall{descriptors: c.descriptors[:0], entries: c.entries[:0]}
}

const (
	number  = protowire.VarintType
	message = protowire.BytesType
)

// decode reads a message. It finds what the generated code finds.
func (c *limitCall) decode(text string) error {
	c.forget()
	f := fields{rest: text}
	for f.next() {
		switch {
		case f.is(1, message):
			c.domain = f.text()
		case f.is(2, message):
			if len(c.descriptors) == decide.MaxDescriptors {
				return fmt.Errorf("a call has at most %d descriptors", decide.MaxDescriptors)
			}
			f.within(c.decodeDescriptor(f.bytes))
		case f.is(3, number):
			c.addend = uint32(f.number) //nolint:gosec // cut off, as everywhere in protobuf
		}
	}
	return f.err
}

func (c *limitCall) decodeDescriptor(text string) error {
	d := descriptor{first: len(c.entries)}
	f := fields{rest: text}
	for f.next() {
		switch {
		case f.is(1, message):
			if len(c.entries)-d.first == maxEntries {
				return fmt.Errorf("a descriptor has at most %d entries", maxEntries)
			}
			e, err := decodeEntry(f.bytes)
			f.within(err)
			c.entries = append(c.entries, e)
		case f.is(2, message):
			d.limited = true
			f.within(d.decodeLimit(f.bytes))
		case f.is(3, message):
			d.explicit = true
			f.within(decodeWrapped(f.bytes, &d.addend))
		case f.is(4, number):
			d.negative = f.number != 0
		}
	}
	d.last = len(c.entries)
	c.descriptors = append(c.descriptors, d)
	return f.err
}

func decodeEntry(text string) (e entries.Entry, err error) {
	f := fields{rest: text}
	for f.next() {
		switch {
		case f.is(1, message):
			e.Key = f.text()
		case f.is(2, message):
			e.Value = f.text()
		}
	}
	return e, f.err
}

func (d *descriptor) decodeLimit(text string) error {
	f := fields{rest: text}
	for f.next() {
		switch {
		case f.is(1, number):
			d.perUnit = uint32(f.number) //nolint:gosec // cut off, as everywhere in protobuf
		case f.is(2, number):
			d.unit = int32(f.number) //nolint:gosec // the same
		case f.is(3, message):
			m := uint64(d.multiplier)
			f.within(decodeWrapped(f.bytes, &m))
			d.multiplier = uint32(m) //nolint:gosec // the same
		}
	}
	return f.err
}

// decodeWrapped reads a google.protobuf.UInt64Value or UInt32Value.
func decodeWrapped(text string, to *uint64) error {
	f := fields{rest: text}
	for f.next() {
		if f.is(1, number) {
			*to = f.number
		}
	}
	return f.err
}

// unitOf returns the largest unit of which the window is a multiple, or zeros.
func unitOf(window int64) (unit uint64, multiplier int64) {
	for _, u := range entries.Units {
		if window >= u.Window && window%u.Window == 0 && window/u.Window <= math.MaxUint32 {
			return u.Number, window / u.Window
		}
	}
	return 0, 0
}

// windowOf returns the window of a limit that comes with a descriptor, in ms.
func (d *descriptor) windowOf() (int64, error) {
	for _, u := range entries.Units {
		if uint64(d.unit) != u.Number { //nolint:gosec // a negative number is no unit
			continue
		}
		multiplier := max(1, int64(d.multiplier))
		if multiplier > limiter.MaxWindow/u.Window {
			return 0, fmt.Errorf("the window of a descriptor's limit has at most %d ms", limiter.MaxWindow)
		}
		return u.Window * multiplier, nil
	}
	return 0, errors.New("the unit of a descriptor's limit is unknown")
}

// check refuses calls without a meaning.
func (c *limitCall) check() error {
	switch {
	case c.domain == "":
		return errors.New("the domain is empty")
	case len(c.descriptors) == 0:
		return errors.New("the call has no descriptors")
	}
	for i := range c.descriptors {
		d := &c.descriptors[i]
		if d.addend > uint64(limiter.MaxExact) {
			return fmt.Errorf("hits_addend is at most %d", limiter.MaxExact)
		}
		if d.limited {
			if _, err := d.windowOf(); err != nil {
				return err
			}
		}
	}
	return nil
}

// question writes the call as a question to the engine.
func (c *limitCall) question(q *decide.DescriptorQuestion, limits []decide.SentLimit) []decide.SentLimit {
	q.Domain, q.Descriptors = c.domain, q.Descriptors[:0]
	limits = limits[:0]
	for i := range c.descriptors {
		d := &c.descriptors[i]
		asked := decide.AskedDescriptor{
			Entries: c.entries[d.first:d.last:d.last], Addend: int64(max(1, c.addend)), Explicit: c.addend > 0,
			Negative: d.negative,
		}
		if d.explicit {
			asked.Addend, asked.Explicit = int64(d.addend), true //nolint:gosec // checked
		}
		if d.limited {
			window, err := d.windowOf()
			if err == nil { // checked
				limits = append(limits, decide.SentLimit{Count: int64(d.perUnit), Window: window})
			}
		}
		q.Descriptors = append(q.Descriptors, asked)
	}
	// The pointers are taken when limits no longer moves.
	n := 0
	for i := range c.descriptors {
		if c.descriptors[i].limited {
			q.Descriptors[i].Limit = &limits[n]
			n++
		}
	}
	return limits
}
