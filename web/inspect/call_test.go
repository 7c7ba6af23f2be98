package inspect_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/rules/entries"
	"sluice/rules/profile"
	"sluice/web/webtest"
)

// withDescriptors starts a console whose rules include those of webtest.AddDescriptors.
func withDescriptors(t *testing.T) (*webtest.World, *webtest.Browser) {
	t.Helper()
	w := webtest.Start(t, webtest.Full)
	webtest.AddDescriptors(w)
	return w, w.As(access.RoleViewer)
}

func compile(t *testing.T, w *webtest.World) {
	t.Helper()
	if err := w.Compile(); err != nil {
		t.Fatal(err)
	}
}

func askCall(b *webtest.Browser, domain, list, addend string) webtest.Page {
	return b.Post("/console/explain", url.Values{"domain": {domain}, "entries": {list}, "addend": {addend}})
}

func TestExplainCall_ShowsTheRuleOfEachDescriptor(t *testing.T) {
	_, b := withDescriptors(t)
	page := askCall(b, "shop", "path = /v1/pay/now\r\nuser=42\r\n\r\nplan=staff\r\n \r\npath=/other\r\n", "7")
	if page.Code != http.StatusOK || !page.Has("allowed", `href="/console/rules/13"`, "shop:path=/v1/pay*+user=42",
		"path=/v1/pay/now, user=42", `data-label="Limit" class="number">60 <`, "held: 950 by 2 Envoys", `data-label="Remaining after" class="number">53<`,
		`href="/console/rules/14"`, ">unlimited<", ">no limit<", "No rule on the path", "2 of 14 active rules apply") {
		t.Errorf("got %d\n%s", page.Code, page.Body)
	}
	if !page.Has(`value="shop"`, `value="7"`, "plan=staff") {
		t.Error("the form lost what was typed")
	}
	if page := askCall(b, "shop", "path=/v1/pay\nuser=42", "61"); !page.Has("denied, 429",
		"<strong>envoy-payments</strong>", ">denied<", "Retrying will not help") {
		t.Errorf("got %s", page.Body)
	}
	if page := askCall(b, "other", "user=42", ""); !page.Has("No active rule has the domain.", "No rule limits") {
		t.Errorf("an unknown domain:\n%s", page.Body)
	}
}

func TestExplainCall_ReadsADomainByItsProfile(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Profiles.List[1].Missing = map[string]profile.MissingFact{"user": {Action: profile.MissingDeny}}
	w.Profiles.List[1].Entries["verb"] = "method"
	compile(t, w)
	b := w.As(access.RoleViewer)
	page := askCall(b, "edge", "path=/users/17\nuser=77\n\ntenant=acme", "3")
	if !page.Has("Profile shop (version 1) reads the descriptors as one request", `value="77"`, "tenant=acme",
		"daily-quota-per-tenant", "Rules that apply", `name="weight" type="number" value="3"`, `value="edge"`) {
		t.Errorf("got %d\n%s", page.Code, page.Body)
	}
	if page := askCall(b, "edge", "path=/users/17", ""); !page.Has("because the fact user is missing") ||
		page.Has("Evaluated against") {
		t.Errorf("a missing fact:\n%s", page.Body)
	}
	if page := askCall(b, "edge", "verb=OPTIONS", ""); !page.Has("allows OPTIONS without a check") {
		t.Errorf("a skipped method:\n%s", page.Body)
	}
}

func TestExplainCall_NamesTheFieldThatIsWrongAndKeepsTheRest(t *testing.T) {
	_, b := withDescriptors(t)
	for field, values := range map[string][]string{
		"domain": {"", strings.Repeat("d", 256)},
		"entries": {"", "user", "=42", "user=42\n\nplan", strings.Repeat("a=b\n", 33), strings.Repeat("a=b\n\n", 33),
			strings.Repeat("x", 9000) + "="},
		"addend": {"-1", "many", "9007199254740993"},
	} {
		for _, value := range values {
			form := url.Values{"domain": {"shop"}, "entries": {"user=42"}, "addend": {"5"}}
			form.Set(field, value)
			page := b.Post("/console/explain", form)
			if page.Code != http.StatusUnprocessableEntity || !page.Has(`class="error" id="f-`+field+`-hint"`) ||
				strings.Count(page.Body, `class="field invalid"`) != 1 || field != "addend" && !page.Has(`value="5"`) {
				t.Errorf("%s %.20q: %d", field, value, page.Code)
			}
		}
	}
}

func TestExplainCall_IsFilledInForARule(t *testing.T) {
	w, b := withDescriptors(t)
	w.Rules.List[12].Descriptor.Entries[1] = entries.Element{Key: "a=b\u202e", Value: "50%"}
	compile(t, w)
	page := b.Get("/console/rules/13")
	if !page.Has(`href="/console/explain?rule=13#envoy"`) {
		t.Error("the page of the rule has no link")
	}
	page = b.Get("/console/explain?rule=13")
	if page.Code != http.StatusOK || !page.Has(`value="shop"`, "path=/v1/pay*\na%3Db%E2%80%AE=50%25</textarea>") {
		t.Errorf("got %d\n%s", page.Code, page.Body)
	}
	if page := askCall(b, "shop", "path=/v1/pay*\na%3Db%E2%80%AE=50%25", ""); !page.Has("The rule applies.") ||
		strings.Contains(page.Body, "\u202e") {
		t.Errorf("what the form was filled in with:\n%s", page.Body)
	}
	if page := b.Get("/console/rules/1"); page.Has("/console/explain?rule=") {
		t.Error("an ordinary rule has the link")
	}
	for _, id := range []string{"1", "99", "x"} {
		if page := b.Get("/console/explain?rule=" + id); page.Code != http.StatusOK || !page.Has(`name="domain" type="text" value=""`) {
			t.Errorf("rule %s: %d", id, page.Code)
		}
	}
}
