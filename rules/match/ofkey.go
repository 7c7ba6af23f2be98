package match

import (
	"strconv"
	"strings"

	"sluice/limiter"
)

// RuleID returns the id of the rule that a bucket, or a candidate's bucket, belongs to. It returns
// false for the bucket of a caller who sent the limit, and for a foreign key.
func RuleID(key limiter.Key) (int64, bool) {
	_, rest, ok := strings.Cut(string(key), "|")
	if !ok {
		return 0, false
	}
	rule, kind, ok := strings.Cut(rest, "|")
	if !ok || strings.Contains(kind, "|") {
		return 0, false
	}
	rule, _, _ = strings.Cut(rule, ".")
	id, err := strconv.ParseInt(rule, 10, 64)
	return id, err == nil && id > 0
}
