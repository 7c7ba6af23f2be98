package redisstore

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
)

func TestNames_UsualKeysAreShort(t *testing.T) {
	tests := map[limiter.Key]bool{
		"{user:42}|17|sc":             true,
		"{user:8f14e45f}|1234|fw":     true,
		"{user:8f14e45f1a}|9999|lv":   true,
		"{user:8f14e45f1a2}|99|ga":    true,
		"{user:8f14e45f1a2}|999|ga":   false,
		"{ip:203.0.113.7}|70000|sb":   true,
		"{ip:203.0.113.07}|7|sb":      false,
		"{ip:2001:db8::/64}|7|sb":     false,
		"{ip:203.0.113.7.8}|7|sb":     false,
		"{ip:256.0.0.1}|7|sb":         false,
		"{key:user-42}|w60000|sc":     true,
		"{key:user-42}|w86400000|lv":  true,
		"{key:user-42}|w1500|sc":      false,
		"{key:user-42}|w000|sc":       false,
		"{key:user-42}|w0060000|sc":   false,
		"{key:user-42}|w131072000|sc": false,
		"{key:user-42}|60000|sc":      false,
		"{key:user-42}||sc":           false,
		"{user:42}|w60000|sc":         false,
		"{global}|3|fw":               true,
		"{user:a_b}|3|fw":             false,
		"{user:42}+ip:10.0.0.1|3|fw":  false,
		"{user:42}|03|fw":             false,
		"{user:42}|0|fw":              false,
		"{user:42}|17c|sc":            false,
		"{user:42}|131072|sc":         false,
		"{user:42}|3|cc":              false,
		"{user:42}|3|":                false,
		"{user:42}|3":                 false,
		"{user:42}|":                  false,
		"{user:42}":                   false,
		"":                            false,
	}
	for key, short := range tests {
		name := newNaming("sl:", false).bucket(key)
		if got := name != "sl:"+string(key); got != short {
			t.Errorf("%s is called %q", key, name)
		}
		if short && len(name) > shortName {
			t.Errorf("%s has a name of %d bytes", key, len(name))
		}
		if back, ok := KeyOf("sl:", name); key != "" && key[0] == '{' && (!ok || back != key) {
			t.Errorf("%s comes back as %q", key, back)
		}
		if plain := newNaming("sl:", true).bucket(key); plain != "sl:"+string(key) {
			t.Errorf("%s is called %q though names are plain", key, plain)
		}
	}
}

// TestNames_NoTwoKeysShareOne holds because every name gives its key back.
func TestNames_NoTwoKeysShareOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tag := rapid.StringMatching(`(user:|ip:|key:|apikey:|global)?([a-zA-Z0-9-]{0,12}|[0-9]{1,3}(\.[0-9]{1,3}){3}|[a-z0-9._:%]{0,12})`).Draw(t, "tag")
		rest := rapid.StringMatching(`\|w?[0-9]{0,6}(000)?\|(fw|sc|lv|ga|sb|sl|cc|bn|x)?`).Draw(t, "rest")
		key := limiter.Key("{" + tag + "}" + rest)
		prefix := rapid.StringMatching(`[a-z:]{1,14}`).Draw(t, "prefix")
		name := newNaming(prefix, false).bucket(key)
		if back, ok := KeyOf(prefix, name); !ok || back != key {
			t.Fatalf("%s is called %q, which is %q", key, name, back)
		}
	})
}

// TestNames_NoResetIsABucket holds because six bits a letter leave no place for the byte that the script appends to the
// name of a bucket for the time of its reset (BORN in record.lua).
func TestNames_NoResetIsABucket(t *testing.T) {
	const born = ":"
	for n := 1; n <= 12; n++ {
		for _, letter := range letters {
			for _, key := range []string{"{user:%}|7|fw", "{user:%}|700|sl", "{key:%}|w60000|sc", "{%}|7|lv"} {
				name := NameOf("", limiter.Key(strings.Replace(key, "%", strings.Repeat(string(letter), n), 1)))
				if other, ok := KeyOf("", name+born); ok && name[0] != '{' && NameOf("", other) == name+born {
					t.Fatalf("a reset of %q is stored in the bucket of %s", name, other)
				}
			}
		}
	}
}

func TestKeyOf_RefusesWhatIsNotABucket(t *testing.T) {
	for _, name := range []string{"", "sl:", "sl:nodes", "x:{user:42}|1|fw", "sl:\x80", "sl:\x82\x01", "sl:\xf0\x01",
		"sl:\x84\x01\x01", "sl:\x98\x00\x01"} {
		if key, ok := KeyOf("sl:", name); ok {
			t.Errorf("%q is taken for %q", name, key)
		}
	}
}

func BenchmarkNames(b *testing.B) {
	n := newNaming("sl:", false)
	b.ReportAllocs()
	for b.Loop() {
		n.bucket("{user:8f14e45f}|1234|fw")
	}
}
