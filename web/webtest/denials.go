package webtest

import (
	"fmt"

	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/redact"
)

// evil is what someone sends who hopes that a page shows it as markup.
const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>`

// SampleDenials returns a few denials of every sort, for a list that begins with denials of charges-per-user.
func SampleDenials() []history.Request {
	hash := string(limiter.AppendHashed(nil, "sk_live_example"))[len("%h"):]
	list := []history.Request{
		{Rule: "logins-per-address", Key: "ip:203.0.113.66", Bucket: "ip:203.0.113.66", Limit: 5, RetryAfter: 184_000,
			Method: "POST", Route: "/v1/login", IP: "203.0.113.66"},
		{Rule: "tighter-charges", Key: "user:42", Bucket: "user:42", Mode: rules.ModeShadow, Status: 200, Limit: 60,
			RetryAfter: 4200, Method: "POST", Route: "/v1/charges", User: "42", Tier: "free"},
		{Rule: "exports-at-a-time", Key: "apikey:sha256:" + hash[:12], Bucket: "apikey:sha256:" + hash, Limit: 2,
			RetryAfter: limiter.Never, Method: "GET", Route: "/v1/exports/2026-11"},
		{Rule: "signups-in-all", Key: "global", Bucket: "global", Status: 503, Degraded: "closed", Limit: 500,
			RetryAfter: 1000, Method: "POST", Route: "/v1/accounts", IP: "2001:db8::7"},
		{Rule: "uploads-in-bytes", Key: "user:ada", Bucket: "user:ada", Limit: 1_000_000_000, Weight: 52_428_800,
			RetryAfter: 1_320_000, Method: "PUT", Route: "/v1/files", User: "ada",
			Attributes: map[string]string{"tenant": "acme"}},
		{Rule: "charges-per-user", Key: "user:" + evil, Bucket: "user:" + evil, Limit: 100, RetryAfter: 11_800,
			Method: "POST", Route: "/v1/charges", User: evil, Attributes: map[string]string{"tenant": evil}},
		{Rule: "gone-rule", Key: "user:7", Bucket: "user:7", Limit: 3, RetryAfter: 900, Method: "GET", Route: "/old",
			User: redact.Hidden},
	}
	for i := range list {
		d := &list[i]
		d.ID, d.At, d.Node = fmt.Sprintf("s%d", i), Now.UnixMilli()-60_000-int64(i)*47_000, "a1b2c3"
		if d.Mode == "" {
			d.Mode = rules.ModeEnforce
		}
		if d.Status == 0 {
			d.Status = 429
		}
		d.Weight = max(d.Weight, 1)
	}
	return list
}

// sampleAllowed returns a few allowed requests. A fail mode allowed one of them, and no rule applied to another.
func sampleAllowed() []history.Request {
	list := []history.Request{
		{Rule: "search-per-user", Key: "user:42", Bucket: "user:42", Limit: 30, Remaining: 12, Method: "GET",
			Route: "/v1/search", User: "42", Tier: "free", Also: []string{"charges-per-user"}},
		{Rule: "charges-per-user", Key: "user:" + longName, Bucket: "user:" + longName, Limit: 100, Remaining: 61,
			Method: "POST", Route: "/v1/charges/" + longName + "/confirmations/2026-11-21", User: longName,
			Attributes: map[string]string{"tenant": longName, "region": "eu-central-1"}},
		{Method: "GET", Route: "/healthz", IP: "203.0.113.9"},
		{Rule: "search-per-user", Key: "user:7", Bucket: "user:7", Limit: 30, Remaining: 29, Degraded: "local",
			Method: "GET", Route: "/v1/search", User: "7"},
	}
	for i := range list {
		d := &list[i]
		d.ID, d.At, d.Node = fmt.Sprintf("a%d", i), Now.UnixMilli()-2_000-int64(i)*3_000, "d4e5f6"
		d.Allowed, d.Mode, d.Status, d.Weight = true, rules.ModeEnforce, 200, 1
	}
	return list
}
