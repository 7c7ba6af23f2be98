package inspect_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/redact"
	"sluice/web/webtest"
)

// editCharges sets the limit of charges-per-user, which makes a new version at webtest.Now.
func editCharges(t *testing.T, w *webtest.World, limit int64) {
	t.Helper()
	r := w.Rules.List[0].Clone()
	r.Limit = limit
	if _, err := w.Rules.UpdateRule(context.Background(), rules.Actor{Kind: "user", Name: "ada"}, r, 0); err != nil {
		t.Fatal(err)
	}
	compile(t, w)
}

func TestSampled_IsExplainedByTheRulesOfItsTime(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	page := b.Get("/console/requests/2")
	if page.Code != http.StatusOK || !page.Has("Denied request", "429", "No rule has changed since.", ">denied<",
		"version 1<", "<code>user:42</code>", "Limit 100", "everything-per-address", ">applies<", "Limit 6,000",
		"had left is not known", "Explain by today’s rules", "/console/explain?denial=2", "not stored") {
		t.Errorf("unchanged rules: %d\n%s", page.Code, page.Body)
	}
	editCharges(t, w, 7)
	page = b.Get("/console/requests/2")
	if !page.Has("1 rule has changed since.", "version 1 then, version 2 now", "Limit 100", "The rule applies.") ||
		page.Has("Limit 7 ") {
		t.Errorf("an edited rule: %s", page.Body)
	}
	if err := w.Rules.DeleteRule(context.Background(), rules.Actor{}, 1, 0); err != nil {
		t.Fatal(err)
	}
	compile(t, w)
	page = b.Get("/console/requests/2")
	if !page.Has("1 rule has changed since.", "version 1, no longer in force", "Limit 100", ">denied<") {
		t.Errorf("a deleted rule: %s", page.Body)
	}
}

// An override of now says nothing about then. A limit in force that the version does not explain is named.
func TestSampled_DoesNotGuessWhatWasNotStored(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	request := func(change func(*history.Request)) webtest.Page {
		d := w.Fleet.Denied[2]
		change(&d)
		d.ID = "changed"
		w.Fleet.Denied = append(w.Fleet.Denied[:12:12], d)
		return b.Get("/console/requests/changed")
	}
	blocked := w.Sets.Load().Named("charges-per-user")
	if bucket, err := w.Sets.Load().FindBucket(blocked, "user:42", webtest.Now); err != nil || !bucket.Override.Blocked {
		t.Fatalf("the sample has no override of user:42: %+v, %v", bucket.Override, err)
	}
	tests := []struct {
		name   string
		change func(*history.Request)
		has    []string
		not    string
	}{
		{"an override of now", func(*history.Request) {}, []string{"Limit 100", "The rule applies."}, "blocked"},
		{"another limit was in force", func(d *history.Request) { d.Limit = 250 },
			[]string{"Limit 250", "This version has the limit 100. Another one was in force", "why is not stored"}, ""},
		{"the user is hidden", func(d *history.Request) { d.User = redact.Hidden },
			[]string{"The request does not store the fact user, which the rule uses.", ">denied<"}, ""},
		{"the path is hidden", func(d *history.Request) { d.Route = "/v1/" + redact.Hidden },
			[]string{"A part of the route is hidden"}, ""},
		{"a rule by API key", func(d *history.Request) {
			d.Route, d.Method, d.Rule, d.Key = "/v1/reports/7", "GET", "everything-per-address", "ip:203.0.113.7"
		}, []string{"Not known", "The request does not store the API key, which the rule uses."}, ""},
		{"an edit just before", func(d *history.Request) {
			d.At = w.Rules.List[0].UpdatedAt.Add(time.Second).UnixMilli()
		}, []string{"Version 1 was saved less than 2 s before the request."}, ""},
		{"a rule that did not exist", func(d *history.Request) { d.Rule = "gone-rule" },
			[]string{"No rule had this name at that time."}, ""},
		{"a limit of the caller", func(d *history.Request) { d.Rule, d.Bucket = rules.DirectRule, "" },
			[]string{"The caller sent the limit with the request, so no rule took part."}, "Rules that took part"},
		{"an allowed request that a rule did not count", func(d *history.Request) {
			d.Allowed, d.Rule, d.Key, d.Also = true, "everything-per-address", "ip:203.0.113.7", []string{"tighter-charges"}
		}, []string{"Not known", "An override may have made the key unlimited then.", ">strictest<", ">counted<"},
			">applies<"},
		{"no rule", func(d *history.Request) { *d = history.Request{Allowed: true, At: d.At, Mode: d.Mode} },
			[]string{"No rule took part.", "Allowed request"}, "Rules that took part"},
	}
	for _, tt := range tests {
		page := request(tt.change)
		if page.Code != http.StatusOK || !page.Has(tt.has...) || tt.not != "" && page.Has(tt.not) {
			t.Errorf("%s: %d lacks one of %q or has %q\n%s", tt.name, page.Code, tt.has, tt.not, page.Body)
		}
	}
}

func TestSampled_ADescriptorOfEnvoyIsKnownByItsKey(t *testing.T) {
	w, b := withDescriptors(t)
	w.Fleet.Denied[2] = history.Request{ID: "2", At: webtest.Now.UnixMilli() + 1, Rule: "envoy-payments",
		Key: "shop:user=42", Bucket: "shop:user=42", Mode: rules.ModeEnforce, Status: 429, Limit: 60, Weight: 1}
	if page := b.Get("/console/requests/2"); !page.Has("The descriptors of the call are not stored.", "shop:user=42",
		"Limit 60") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
}

func TestSampled_SaysWhatIsUnavailable(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	page := b.Get("/console/requests/long-gone")
	if page.Code != http.StatusNotFound || !page.Has("This request is no longer stored", "</html>") {
		t.Errorf("a request that is gone: %d", page.Code)
	}
	b.Header.Set("HX-Request", "true")
	if page := b.Get("/console/requests/long-gone"); page.Code != http.StatusNotFound ||
		!page.Has("This request is no longer stored") || page.Has("</html>") {
		t.Errorf("a request that is gone, in the sheet: %d\n%s", page.Code, page.Body)
	}
	w.Rules.Err = rules.ErrUnavailable
	if page := b.Get("/console/requests/2"); page.Code != http.StatusOK || page.Has("</html>") ||
		!page.Has("the rules database did not answer", "user:42", "/console/rules/1") {
		t.Errorf("without the rules database: %d\n%s", page.Code, page.Body)
	}
	w.Fleet.Err = errors.New("no route to host 10.0.0.7")
	if page := b.Get("/console/requests/2"); page.Code != http.StatusServiceUnavailable ||
		!page.Has("Redis is unreachable") || page.HasAny("10.0.0.7", "</html>") {
		t.Errorf("without Redis: %d\n%s", page.Code, page.Body)
	}
}

// What callers sent is text, in the facts and in the JSON, and no text of a request is turned around.
func TestSampled_ShowsWhatCallersSentAsText(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	d := &w.Fleet.Denied[2]
	const evil = "\"><script>alert(1)</script><img src=x onerror=alert(2)>\u202egnp\U000e0041</pre>"
	d.User, d.Key, d.Route, d.Host, d.Tier, d.Node = evil, "user:"+evil, "/"+evil, evil, evil, evil
	d.Rule, d.Also, d.Shed, d.Attributes = evil, []string{evil}, evil, map[string]string{evil: evil}
	page := b.Get("/console/requests/2")
	if page.Code != http.StatusOK || page.HasAny("<script>alert", "<img", "\u202e", "\U000e0041") ||
		!page.Has("&lt;script&gt;alert(1)", `\u202e`, `\udb40\udc41`) || strings.Count(page.Body, "</pre>") != 1 {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	page = b.Get("/console/requests/s2")
	if page.Has("sk_live") || !page.Has("apikey:sha256:") {
		t.Error("a credential is shown, or its hash is not")
	}
}
