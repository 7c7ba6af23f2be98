package limiter

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
)

// MaxKeyValue is the longest escaped value that a key carries in clear, in
// bytes. A longer one is replaced by its SHA-256.
const MaxKeyValue = 96

// Key names one bucket, such as
//
//	{user:42}+ip:203.0.113.7|17|sc
//
// In braces stands the entity, which Redis Cluster hashes, so that all buckets
// of an entity share a slot; then any further facts, the rule, and the kind of
// state. Values are escaped by AppendValue, so different facts never make the
// same key and no value can close the braces.
type Key string

// DirectKey names the bucket of a caller who brings both key and limit, such as
//
//	{key:user:42}|w60000|sc
//
// The window in ms, after a w, stands where a rule's bucket has the rule's id. The other members of the limit do not
// matter, so a changed count or burst keeps the spent units.
func DirectKey(key string, l Limit) Key {
	b := make([]byte, 0, len(key)+32)
	b = append(b, "{key:"...)
	return Key(AppendDirect(AppendValue(b, key), l))
}

// AppendDirect appends to dst what ends the key of a direct limit, from the
// closing brace on.
func AppendDirect(dst []byte, l Limit) []byte {
	dst = strconv.AppendInt(append(dst, "}|w"...), l.Window, 10)
	return append(append(dst, '|'), l.Algorithm.Kind()...)
}

// Tag is the part in braces, without them: the entity.
func (k Key) Tag() string {
	i := strings.IndexByte(string(k), '{')
	j := strings.IndexByte(string(k), '}')
	if i < 0 || j < i {
		return string(k)
	}
	return string(k[i+1 : j])
}

const upperHex = "0123456789ABCDEF"

// plain marks the bytes that stand for themselves in a key. Not among them:
// the separators + | { } and the escape character %.
var plain = func() (t [256]bool) {
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = true, true
	}
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	for _, c := range "-_.~/@:=,;!$*()" {
		t[c] = true
	}
	return t
}()

// AppendValue appends v to dst in the injective form used in keys: every byte
// outside letters, digits and -_.~/@:=,;!$*() becomes %XX, and a value whose
// escaped form exceeds MaxKeyValue becomes %h and its SHA-256 in base64url.
func AppendValue(dst []byte, v string) []byte {
	start := len(dst)
	for i := 0; i < len(v); i++ {
		c := v[i]
		if plain[c] {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
		}
		if len(dst)-start > MaxKeyValue {
			return AppendHashed(dst[:start], v)
		}
	}
	return dst
}

// AppendHashed appends %h and the SHA-256 of v in base64url (43 characters). It is used for values that are too long to
// store, and for values that must not be stored in clear, such as API keys.
func AppendHashed(dst []byte, v string) []byte {
	sum := sha256.Sum256([]byte(v))
	dst = append(dst, '%', 'h')
	return base64.RawURLEncoding.AppendEncode(dst, sum[:])
}
