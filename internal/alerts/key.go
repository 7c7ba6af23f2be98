package alerts

import (
	"crypto/sha256"
	"encoding/base64"

	"sluice/limiter"
	"sluice/rules/match"
	"sluice/rules/redact"
)

// shownHash is the number of characters of a hash that are shown, as in the names of buckets.
const shownHash = 12

// ShownKey is the name of a bucket of a rule as messages have it. Values with a credential in them, such as
// token:sk_live_…, are a hash, so that different keys stay different.
func ShownKey(key limiter.Key) string {
	return match.DisplayKeyWith(key, func(_, v string) string {
		return ShownText(v)
	})
}

// ShownText is a text as messages have it, such as the name of a bucket of which the key is not known: a hash if there
// is a credential in it.
func ShownText(v string) string {
	if !redact.Within(v) {
		return v
	}
	hash := sha256.Sum256([]byte(v))
	return "sha256:" + base64.RawURLEncoding.EncodeToString(hash[:])[:shownHash]
}
