package view

import (
	"net/url"

	"github.com/a-h/templ"

	"sluice/internal/history"
)

// RuleLink is the address of a rule, or of a search for it if the rule is not in force.
func RuleLink(ids map[string]int64, name string) string {
	if id := ids[name]; id > 0 {
		return RulePath(id)
	}
	return "/console/rules?" + url.Values{"q": {name}}.Encode()
}

// KeyLink is the address of the page of a key.
func KeyLink(rule, key string) string {
	return "/console/keys?" + url.Values{"rule": {rule}, "key": {key}}.Encode()
}

// PathTenants is the path of the page of a tenant.
const PathTenants = "/console/tenants"

// TenantLink is the address of the page of a tenant.
func TenantLink(tenant string) string {
	return PathTenants + "?" + url.Values{"tenant": {tenant}}.Encode()
}

// KeyOfRequest is the address of the page of a sampled request's key.
func KeyOfRequest(d *history.Request) string {
	if d.Bucket != "" {
		return KeyLink(d.Rule, d.Bucket)
	}
	return KeyLink(d.Rule, d.Key)
}

// RulePath is the path of a rule's page.
func RulePath(id int64) string { return "/console/rules/" + Digits(id) }

// RuleURL is the URL of a page below a rule's page.
func RuleURL(id int64, rest string) templ.SafeURL { return templ.SafeURL(RulePath(id) + rest) }
