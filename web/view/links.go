package view

import (
	"net/url"
	"strconv"

	"github.com/a-h/templ"

	"sluice/internal/fleet"
)

// RuleLink leads to a rule, or, if it is not in force, to the search for it.
func RuleLink(ids map[string]int64, name string) string {
	if id := ids[name]; id > 0 {
		return RulePath(id)
	}
	return "/console/rules?" + url.Values{"q": {name}}.Encode()
}

// KeyLink leads to the page of a bucket.
func KeyLink(rule, key string) string {
	return "/console/keys?" + url.Values{"rule": {rule}, "key": {key}}.Encode()
}

// denialKey leads to the bucket of a denial.
func denialKey(d *fleet.Denial) string {
	if d.Bucket != "" {
		return KeyLink(d.Rule, d.Bucket)
	}
	return KeyLink(d.Rule, d.Key)
}

// RulePath is where a rule's page is.
func RulePath(id int64) string { return "/console/rules/" + strconv.FormatInt(id, 10) }

// RuleURL is where a page below a rule's is.
func RuleURL(id int64, rest string) templ.SafeURL { return templ.SafeURL(RulePath(id) + rest) }
