package wire_test

import (
	"encoding/binary"
	"math"
	"testing"

	"sluice/internal/wire"
)

func TestReader_ReadsWhatWasWritten(t *testing.T) {
	b := wire.AppendText(append(binary.AppendVarint(binary.AppendUvarint(nil, math.MaxInt64), math.MinInt64), 1, 7, 2),
		"ö")
	in := wire.Read(append(b, 'x', 'y'))
	if n := in.Number(math.MaxInt64); n != math.MaxInt64 {
		t.Errorf("number %d", n)
	}
	if n := in.Varint(); n != math.MinInt64 {
		t.Errorf("varint %d", n)
	}
	if !in.Bool() || in.Byte() != 7 {
		t.Error("a bool or a byte was misread")
	}
	if n := in.Count(2); n != 2 {
		t.Errorf("count %d", n)
	}
	if s := in.Text(2); s != "ö" || in.Len() != 2 || in.Done() {
		t.Errorf("text %q, %d bytes left", s, in.Len())
	}
	if in.Byte(); in.Byte() != 'y' || !in.Done() || in.Failed() {
		t.Error("the end was not reached in good order")
	}
}

func TestReader_RefusesWhatTheBytesCannotHold(t *testing.T) {
	endless := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	for name, c := range map[string]struct {
		b    []byte
		read func(*wire.Reader) bool // is what was read zero?
	}{
		"no byte":          {nil, func(r *wire.Reader) bool { return r.Byte() == 0 }},
		"a bool of 2":      {[]byte{2, 0}, func(r *wire.Reader) bool { return !r.Bool() }},
		"no number":        {nil, func(r *wire.Reader) bool { return r.Number(9) == 0 }},
		"too much":         {[]byte{10, 0}, func(r *wire.Reader) bool { return r.Number(9) == 0 }},
		"endless":          {endless, func(r *wire.Reader) bool { return r.Number(math.MaxInt64) == 0 }},
		"endless, signed":  {endless, func(r *wire.Reader) bool { return r.Varint() == 0 }},
		"too many":         {[]byte{2, 0, 0, 0}, func(r *wire.Reader) bool { return r.Count(2) == 0 }},
		"a text too short": {[]byte{3, 'a', 'b'}, func(r *wire.Reader) bool { return r.Text(9) == "" }},
		"a text too long":  {[]byte{3, 'a', 'b', 'c'}, func(r *wire.Reader) bool { return r.Text(2) == "" }},
		"no such bytes":    {[]byte{1, 1}, func(r *wire.Reader) bool { return r.Bytes(3) == nil }},
		"its own word":     {[]byte{1, 1}, func(r *wire.Reader) bool { r.Fail(); return r.Byte() == 0 }},
	} {
		in := wire.Read(c.b)
		if !c.read(&in) || !in.Failed() || in.Done() || in.Len() != 0 {
			t.Errorf("%s: failed %v, done %v, %d bytes left", name, in.Failed(), in.Done(), in.Len())
		}
		if in.Byte() != 0 || in.Bool() || in.Varint() != 0 || in.Number(9) != 0 || in.Count(1) != 0 || in.Text(9) != "" {
			t.Errorf("%s: something was read after a failure", name)
		}
	}
}
