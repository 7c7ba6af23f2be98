package redisstore

import (
	"strconv"
	"strings"
	"sync/atomic"

	"sluice/limiter"
)

// A short name saves Redis 16 bytes: shortName bytes, with one byte before and one
// after them, fit an allocation of 16.
const shortName = 14

// naming gives buckets their names in Redis. A name is the prefix and the key, or
// the prefix and the packed form of the key if that is at most shortName bytes long:
//
//	header  2 or 3 bytes, by their bits: 1, three of kind, two of label, one
//	        that says there are 3, and 9 or 17 of the rule's id (0 for none),
//	        or for label "key:" of the window in seconds
//	value   four bytes for label "ip:"; else six bits a letter, padded with zero
//	        bits
//
// The first byte of the packed form is above 127; the first byte of a readable key is a brace. Two keys never share a
// name. On a cluster names stay readable, because slots are hashed from them.
type naming struct {
	prefix string
	plain  *atomic.Bool // readable names only
}

func newNaming(prefix string, plain bool) naming {
	n := naming{prefix: prefix, plain: new(atomic.Bool)}
	n.plain.Store(plain)
	return n
}

// UsePlainKeys makes every name readable from now on, or packs short ones. The store
// no longer finds buckets under the other names. Names on a cluster are always
// readable.
func (s *Store) UsePlainKeys(plain bool) { s.naming.plain.Store(plain || s.cluster != nil) }

// The kinds and labels with a packed form; the index is the code. Concurrency has
// none: its buckets have a companion whose name is derived from theirs.
var (
	packedKinds  = [...]string{"fw", "sc", "lv", "ga", "sb", "sl", "bn"}
	packedLabels = [...]string{"user:", "ip:", "key:", ""}
)

const (
	labelIP   = 1
	labelKey  = 2
	inMS      = "000" // makes ms of seconds
	letters   = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"
	ruleNear  = 1 << 9  // rules below this take two bytes
	ruleBelow = 1 << 17 // rules from this on are not packed
)

// letterCode is the index of a letter, from 1; 0 for all other bytes.
var letterCode = func() (t [256]byte) {
	for i := range letters {
		t[letters[i]] = byte(i + 1)
	}
	return t
}()

// bucket returns the name of the bucket of a key.
func (n naming) bucket(key limiter.Key) string {
	if len(n.prefix) < shortName && !n.plain.Load() {
		var b [shortName]byte
		at := copy(b[:], n.prefix)
		if size := packKey(b[at:], string(key)); size > 0 {
			return string(b[:at+size])
		}
	}
	return n.prefix + string(key)
}

// NameOf returns the name of the bucket of a key if short names are packed.
func NameOf(prefix string, key limiter.Key) string { return newNaming(prefix, false).bucket(key) }

// packKey writes the packed form of a key to b and returns its length, 0 if the key
// has none or it does not fit.
func packKey(b []byte, key string) int {
	stop := strings.IndexByte(key, '}')
	if stop < 1 || key[0] != '{' || len(key) < stop+4 || key[stop+1] != '|' || len(b) < 3 {
		return 0
	}
	place, code, _ := strings.Cut(key[stop+2:], "|")
	kind := 0
	for kind < len(packedKinds) && packedKinds[kind] != code {
		kind++
	}
	if kind == len(packedKinds) {
		return 0
	}
	value, label := key[1:stop], 0
	for !strings.HasPrefix(value, packedLabels[label]) {
		label++
	}
	value = value[len(packedLabels[label]):]
	if label == labelKey {
		seconds := len(place) - len(inMS)
		if seconds < 2 || place[0] != 'w' || place[seconds:] != inMS {
			return 0
		}
		place = place[1:seconds]
	}
	rule := 0
	for i := range len(place) {
		c := place[i] - '0'
		if c > 9 || (c == 0 && rule == 0) {
			return 0
		}
		if rule = 10*rule + int(c); rule >= ruleBelow {
			return 0
		}
	}
	head := byte(0x80 | kind<<4 | label<<2) //nolint:gosec // seven kinds, four labels
	n := 2
	if rule < ruleNear {
		b[0], b[1] = head|byte(rule>>8), byte(rule) //nolint:gosec // below 2^9
	} else {
		b[0], b[1], b[2] = head|2|byte(rule>>16), byte(rule>>8), byte(rule) //nolint:gosec // below 2^17
		n = 3
	}
	var size int
	if label == labelIP {
		size = packIPv4(b[n:], value)
	} else {
		size = packLetters(b[n:], value)
	}
	if size == 0 {
		return 0
	}
	return n + size
}

// packLetters writes six bits a letter and returns the length, 0 for other bytes.
func packLetters(b []byte, v string) int {
	if (6*len(v)+7)/8 > len(b) {
		return 0
	}
	var bits uint32
	held, n := 0, 0
	for i := range len(v) {
		c := letterCode[v[i]]
		if c == 0 {
			return 0
		}
		bits, held = bits<<6|uint32(c), held+6
		if held >= 8 {
			held -= 8
			b[n] = byte(bits >> held) //nolint:gosec // the eight bits in question
			n++
		}
	}
	if held > 0 {
		b[n] = byte(bits << (8 - held)) //nolint:gosec // the bits that are left
		n++
	}
	return n
}

// packIPv4 writes the four bytes of an address in its usual form and returns 4, 0 if
// v is none.
func packIPv4(b []byte, v string) int {
	if len(b) < 4 {
		return 0
	}
	for i := range 4 {
		part, digits := 0, 0
		for digits < len(v) && v[digits]-'0' <= 9 && digits < 3 {
			part = 10*part + int(v[digits]-'0')
			digits++
		}
		if digits == 0 || part > 255 || (digits > 1 && v[0] == '0') {
			return 0
		}
		b[i], v = byte(part), v[digits:]
		if i < 3 {
			if v == "" || v[0] != '.' {
				return 0
			}
			v = v[1:]
		}
	}
	if v != "" {
		return 0
	}
	return 4
}

// KeyOf returns the key of the bucket with that name in Redis, false if it is not
// the name of a bucket. It reverses NameOf.
func KeyOf(prefix, name string) (limiter.Key, bool) {
	packed, ok := strings.CutPrefix(name, prefix)
	if !ok || packed == "" {
		return "", false
	}
	if packed[0] == '{' {
		return limiter.Key(packed), true
	}
	head := packed[0]
	kind, label, wide := int(head>>4&7), int(head>>2&3), int(head>>1&1)
	if head < 0x80 || kind >= len(packedKinds) || len(packed) < 2+wide {
		return "", false
	}
	rule := int(head & 1)
	for _, c := range []byte(packed[1 : 2+wide]) {
		rule = rule<<8 | int(c)
	}
	value, ok := unpackValue(packed[2+wide:], label)
	if !ok {
		return "", false
	}
	id := ""
	if rule > 0 {
		id = strconv.Itoa(rule)
	}
	if label == labelKey {
		if rule == 0 {
			return "", false
		}
		id = "w" + id + inMS
	}
	return limiter.Key("{" + packedLabels[label] + value + "}|" + id + "|" + packedKinds[kind]), true
}

func unpackValue(b string, label int) (string, bool) {
	var out []byte
	if label == labelIP {
		if len(b) != 4 {
			return "", false
		}
		for i := range 4 {
			out = strconv.AppendInt(append(out, '.'), int64(b[i]), 10)
		}
		return string(out[1:]), true
	}
	var bits uint32
	held := 0
	for i := range len(b) {
		bits, held = bits<<8|uint32(b[i]), held+8
		for held >= 6 {
			held -= 6
			if c := bits >> held & 63; c > 0 {
				out = append(out, letters[c-1])
			}
		}
	}
	return string(out), true
}
