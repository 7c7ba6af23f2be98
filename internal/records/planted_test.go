package records

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/redact"
)

// A credential is hidden also where it stands within other text.
func TestEvent_HasNoSecretWithinOtherText(t *testing.T) {
	secrets := []string{"sk_live_4eC39HqLyjWDarjtT1zdp7dc", "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
		"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "AKIAIOSFODNN7EXAMPLE",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"}
	forms := []string{"%s", "Bearer %s", "token=%s", "token:%s", `"%s"`, "'%s'", "[%s]", "<%s>", "{%s}",
		`{"token":"%s"}`, "a,%s", "a|%s", "a&%s", "x/%s/y", "%s@host", "user %s", "a\t%s", "%%22%s", "%%2522%s", "a+%s",
		"a;%s", "a#%s", "a?%s", "a!%s", "a*%s", `a\%s`, "ü %s",
		"a\u200b%s", "a\u00a0%s", "a：%s", "a\x00%s", "acme-%s", "t_%s", "acme_eu-%s-1"}
	rs := []rules.Rule{perUser("users", 1e6), perUser("tenants", 1e6), perUser("routes", 1e6), perUser("hosts", 1e6)}
	rs[1].Scope, rs[2].Scope, rs[3].Scope = "attr:tenant", "route", "host"
	for _, address := range []string{AddressWhole, AddressPrefix} {
		f := newFixture(t, rs, func(o *Options) { o.Address = address })
		for _, form := range forms {
			for _, secret := range secrets {
				v := fmt.Sprintf(form, secret)
				q := decide.Question{Weight: 1, Origin: decide.Origin{UserAgent: "tool/1 " + v},
					Descriptor: match.Descriptor{User: v, Tier: v, Host: v, Route: "/v1/" + v + "/x",
						Attributes: map[string]string{"tenant": v, v: "1"}, Fields: map[string]int64{v: 1}}}
				if len(v) <= decide.MaxTraceID {
					q.RequestID = v
				}
				if len(v) != 64 || form != "%s" { // an id of a trace looks random
					q.Origin.TraceID = v
				}
				f.ask(q)
				f.ask(decide.Question{IsDirect: true, Weight: 1, Direct: decide.Direct{Key: v, Name: "n",
					Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1e6, Window: 1000}}})
			}
		}
		leaks := map[string]bool{}
		for _, line := range f.close() {
			for _, secret := range secrets {
				if from := bytes.Index(line, []byte(secret)); from >= 0 {
					leaks[string(line[strings.LastIndex(string(line[:from]), `,"`):from+len(secret)+1])] = true
				}
			}
		}
		for leak := range leaks {
			t.Errorf("%s: a credential stands in %s", address, leak)
		}
	}
}

func TestConceal_LeavesNamesAlone(t *testing.T) {
	for _, v := range []string{"42", "someone@example.org", "550e8400-e29b-41d4-a716-446655440000", "München", "a b c",
		"100%",
		"shop/2.1 (Linux; Android 14; Pixel 8 Pro Build/UD1A.230803.041)", "org/team/project-12345", "2026-11-24T04:00:00Z",
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36", "task-1"} {
		if redact.Within(v) {
			t.Errorf("%s is taken for a credential", v)
		}
	}
}
