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

// ShownKey returns the name of a bucket of a rule for messages. Values that contain a credential, such as
// token:sk_live_…, are replaced by a hash, so that different keys stay different.
func ShownKey(key limiter.Key) string {
	return match.DisplayKeyWith(key, func(_, v string) string {
		return ShownText(v)
	})
}

// ShownText returns a text for messages, such as the name of a bucket whose key is unknown. A text that contains a
// credential is replaced by a hash.
func ShownText(v string) string {
	if !redact.Within(v) {
		return v
	}
	hash := sha256.Sum256([]byte(v))
	return "sha256:" + base64.RawURLEncoding.EncodeToString(hash[:])[:shownHash]
}
