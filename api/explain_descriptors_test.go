package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/match"
)

func envoyRule(id int64, name string, limit int64, list ...entries.Element) rules.Rule {
	r := rules.Rule{ID: id, Name: name, Algorithm: "fixed_window", Limit: limit, WindowMS: 60_000, IsActive: true,
		Descriptor: &rules.RuleDescriptor{Domain: "shop", Entries: list}}
	r.Normalize()
	return r
}

func TestExplain_OfDescriptors(t *testing.T) {
	staff := envoyRule(3, "staff", 0, entries.Element{Key: "plan", Value: "staff"})
	staff.Unlimited = true
	f := newFixture(t, []rules.Rule{envoyRule(1, "per-user", 5, entries.Element{Key: "user"}),
		envoyRule(2, "none", 0, entries.Element{Key: "path", Pattern: "/x*"}), staff})
	var e descriptorExplanation
	const body = `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"b"}],"hits_addend":2},` +
		`{"entries":[{"key":"plan","value":"staff"}]},{"entries":[{"key":"who","value":"b"}]}]}`
	for range 2 { // nothing is spent
		f.post("/ratelimit/explain", body).decode(&e)
	}
	if e.Domain != "shop" || e.ActiveRules != 3 || len(e.Descriptors) != 3 {
		t.Fatalf("got %+v", e)
	}
	user, plan, who := e.Descriptors[0], e.Descriptors[1], e.Descriptors[2]
	if !user.Matched || user.Reason != match.EntriesMatched || user.Rule.Name != "per-user" || user.Key != "shop:user=b" ||
		user.Over || user.Bucket == nil || *user.Bucket.Limit != 5 || *user.Bucket.Remaining != 5 || *user.After != 3 {
		t.Errorf("user: %+v with %+v", user, user.Bucket)
	}
	if plan.Matched || plan.Reason != match.EntriesUnlimited || plan.Rule.Name != "staff" || plan.Bucket != nil {
		t.Errorf("plan: %+v", plan)
	}
	if who.Matched || who.Reason != match.EntriesNoFit || who.Rule != nil || who.Message == "" {
		t.Errorf("who: %+v", who)
	}
	var over descriptorExplanation
	f.post("/ratelimit/explain", `{"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/xy"}]}]}`).decode(&over)
	if d := over.Descriptors[0]; !d.Matched || !d.Over || d.Bucket.Allowed || *d.After != 0 {
		t.Errorf("over: %+v", d)
	}
	var unknown descriptorExplanation
	f.post("/ratelimit/explain", `{"domain":"other","descriptors":[{"entries":[{"key":"a"}]}]}`).decode(&unknown)
	if d := unknown.Descriptors[0]; d.Reason != match.EntriesUnknownDomain {
		t.Errorf("unknown domain: %+v", d)
	}
}

func TestExplain_OfDescriptorsIsStrict(t *testing.T) {
	f := newFixture(t, []rules.Rule{envoyRule(1, "per-user", 5, entries.Element{Key: "user"})})
	for body, want := range map[string][]string{
		`{"domain":"shop"}`:                                          {"descriptors"},
		`{"descriptors":[{"entries":[{"key":"a"}]}]}`:                {"domain"},
		`{"domain":"","descriptors":[]}`:                             {"descriptors", "domain"},
		`{"domain":7,"descriptors":[7]}`:                             {"descriptors[0]", "domain"},
		`{"domain":"d","descriptors":[{}]}`:                          {"descriptors[0].entries"},
		`{"domain":"d","descriptors":[{"entries":[{"value":"a"}]}]}`: {"descriptors[0].entries[0].key"},
		`{"domain":"d","descriptors":[{"entries":[7,{"key":"","value":null}]}]}`: {"descriptors[0].entries[0]",
			"descriptors[0].entries[1].key", "descriptors[0].entries[1].value"},
		`{"domain":"d","descriptors":[{"entries":[{"key":"a"}],"hits_addend":-1}]}`:  {"descriptors[0].hits_addend"},
		`{"domain":"d","descriptors":[{"entries":[{"key":"a"}],"hits_addend":"1"}]}`: {"descriptors[0].hits_addend"},
	} {
		a := f.do(http.MethodPost, "/ratelimit/explain", body).want(http.StatusUnprocessableEntity)
		if got := a.fields(); !slices.Equal(got, want) {
			t.Errorf("%s: fields %v, want %v", body, got, want)
		}
	}
	for _, body := range []string{`{"domain":"d","user":"a"}`, `{"domain":"d","descriptors":[{"entries":[],"limit":1}]}`,
		`{"domain":"d","descriptors":[{"entries":[{"key":"a","values":1}]}]}`, `{"domain":"d","domain":"d"}`} {
		a := f.do(http.MethodPost, "/ratelimit/explain", body).want(http.StatusBadRequest)
		if strings.Contains(a.body, `unknown member \"domain\"`) { // it is known
			t.Errorf("%s: got %s", body, a.body)
		}
	}
}

func TestExplain_OfDescriptorsThatAProfileReads(t *testing.T) {
	r := rules.Rule{ID: 1, Name: "per-user", Scope: "user", Algorithm: "fixed_window", Limit: 5, WindowMS: 60_000,
		IsActive: true}
	r.Normalize()
	f := newFixture(t, []rules.Rule{r})
	f.do(http.MethodPost, "/ratelimit/profiles", `{"name":"edge","domain":"shop","entries":{"who":"user","verb":"method",`+
		`"key":"api_key","address":"ip"},"missing":{"api_key":"deny"}}`).want(http.StatusCreated)
	ask := func(list string, addend string) string {
		return `{"domain":"shop","descriptors":[{"entries":[` + list + `]},` +
			`{"entries":[{"key":"other","value":"x"}],"hits_addend":` + addend + `}]}`
	}
	const who = `{"key":"who","value":"b"},{"key":"key","value":"k"}`
	for range 2 { // nothing is spent
		var e explanation
		f.post("/ratelimit/explain", ask(who, "3")).decode(&e)
		if e.Profile != "edge" || e.Message != "Profile edge reads the descriptors as one request." || len(e.Rules) != 1 {
			t.Fatalf("got %+v", e)
		}
		if got := e.Rules[0]; !got.Matched || got.Name != "per-user" || got.Key != "user:b" || *got.Weight != 3 ||
			*got.Bucket.Remaining != 5 || !got.Bucket.Allowed {
			t.Errorf("got %+v with %+v", got, got.Bucket)
		}
	}
	for _, tt := range []struct{ list, addend, decision, message string }{
		{who, "6", `"allowed":false,"status":429`, "Profile edge reads the descriptors as one request."},
		{who + `,{"key":"verb","value":"options"}`, "1", `"allowed":true,"status":200`,
			"Profile edge allows the method OPTIONS without a check."},
		{`{"key":"who","value":"b"}`, "1", `"allowed":false,"status":429`,
			"Profile edge denies the request, because the fact api_key is missing."},
		{who + `,{"key":"address","value":"nowhere"}`, "1", `"allowed":true,"status":200`,
			"Profile edge reads the descriptors as one request."},
	} {
		a := f.post("/ratelimit/explain", ask(tt.list, tt.addend)).want(http.StatusOK)
		if !strings.Contains(a.body, tt.decision) || !strings.Contains(a.body, `"message":"`+tt.message) {
			t.Errorf("%s: got %s", tt.list, a.body)
		}
	}
	f.checker.Set().Profile("edge").Routes = []string{"/{"} // as a later version may store it
	a := f.do(http.MethodPost, "/ratelimit/explain", ask(who, "1")).want(http.StatusUnprocessableEntity)
	if got := a.fields(); !slices.Equal(got, []string{"domain"}) ||
		!strings.Contains(a.body, "is read by profile edge, which cannot be used") {
		t.Errorf("a profile that cannot be used: %s", a.body)
	}
}
