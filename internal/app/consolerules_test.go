package app

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sluice/limiter"
	"sluice/rules"
)

func TestConsole_ARuleMadeThereDeniesAndItsDenialIsSeen(t *testing.T) {
	t.Parallel()
	n := start(t, withConsole(t))
	p := newPerson(t, n)
	link := welcomeLink.FindStringSubmatch(n.out.String())
	p.post(n.url+"/console/welcome", url.Values{"token": {link[1]}, "name": {"grace"},
		"password": {"long enough for this"}, "repeat": {"long enough for this"}})
	form := url.Values{"name": {"reports"}, "scope": {"user"}, "route": {"/v1/reports"}, "limit": {"1"},
		"window_ms": {"1"}, "window_ms.unit": {"day"}, "is_active": {"on"}}
	if status, body := p.post(n.url+"/console/rules", form); status != http.StatusOK ||
		!strings.Contains(body, "Rule &#34;reports&#34; created.") {
		t.Fatalf("making it: %d", status)
	}
	const request = `{"user":"42","route":"/v1/reports","method":"GET"}`
	if !n.allowed(request) || n.allowed(request) {
		t.Fatal("the rule is not in force by the time the page says so")
	}
	eventually(t, "the denial is seen in the editor", func() bool {
		status, body := p.post(n.url+"/console/rules/preview", form)
		if !strings.Contains(body, "Retry-After: ") ||
			!strings.Contains(body, "RateLimit-Policy: &#34;reports&#34;;q=1;w=86400") {
			t.Fatalf("the headers of a preview are not there, status %d", status)
		}
		return strings.Contains(body, "user:42")
	})
	form.Set("version", "1")
	form.Set("limit", "2")
	if _, body := p.post(n.url+"/console/rules/1", form); !strings.Contains(body, "Rule &#34;reports&#34; saved.") {
		t.Error("saving it did not work")
	}
	if !n.allowed(request) || n.allowed(request) {
		t.Error("the raised limit is not in force")
	}
	if _, body := p.post(n.url+"/console/rules/1", form); !strings.Contains(body, "reports was changed in the meantime") ||
		!strings.Contains(body, "grace saved this rule") {
		t.Error("an old version overwrites")
	}
	if _, body := p.post(n.url+"/console/rules/bulk", url.Values{"act": {"off"}, "rule": {"1"}}); !strings.Contains(body,
		"1 rule is now disabled.") {
		t.Error("turning it off did not work")
	}
	if !n.allowed(request) {
		t.Error("a rule that is off denies")
	}
	if _, body := p.post(n.url+"/console/rules/1/delete", url.Values{"version": {"3"}}); !strings.Contains(body,
		"Rule &#34;reports&#34; deleted.") {
		t.Error("deleting it did not work")
	}
}

func TestHeadersOf_AreTheAPIs(t *testing.T) {
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 10, Window: 60_000}
	got := headersOf(true)(&rules.Rule{Name: "r"}, l,
		limiter.Decision{Limit: 10, RetryAfter: 1500, Reset: 2500}, 1000)
	want := `[{Retry-After 2} {RateLimit-Policy "r";q=10;w=60} {RateLimit "r";r=0;t=2} {X-RateLimit-Limit 10} {X-RateLimit-Remaining 0} {X-RateLimit-Reset 2}]`
	if fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}

func TestConsole_ExplainsACallOfEnvoyWithoutCharging(t *testing.T) {
	t.Parallel()
	n := start(t, withConsole(t))
	p := newPerson(t, n)
	link := welcomeLink.FindStringSubmatch(n.out.String())
	p.post(n.url+"/console/welcome", url.Values{"token": {link[1]}, "name": {"grace"},
		"password": {"long enough for this"}, "repeat": {"long enough for this"}})
	n.create(`{"name":"per-user","limit":3,"window_ms":86400000,"algorithm":"fixed_window","quota":true,
		"descriptor":{"domain":"shop","entries":[{"key":"user"}]}}`)
	n.create(`{"name":"trial","limit":1,"window_ms":86400000,"algorithm":"fixed_window","mode":"shadow",
		"descriptor":{"domain":"shop","entries":[{"key":"trial"}]}}`)
	n.create(`{"name":"pay","limit":5,"window_ms":86400000,"algorithm":"fixed_window","replaces":["per-user"],
		"descriptor":{"domain":"shop","entries":[{"key":"path","value":"/pay"}]}}`)
	const before = `data-label="Remaining before" class="number">3`
	const after = `data-label="Remaining after" class="number">1<`
	for _, c := range []struct {
		entries, addend string
		want            []string
	}{
		{"user=a", "2", []string{">allowed<", "shop:user=a", before, after}},
		{"user=a", "2", []string{before, after}}, // nothing was charged
		{"user=a", "4", []string{"denied, 429", "<strong>per-user</strong>", ">denied<"}},
		{"trial=a", "2", []string{">allowed<", "would deny"}},
		{"path=/pay\n\nuser=a", "", []string{">replaced<", "The rule of another descriptor of the call replaces it."}},
		{"path=/other", "", []string{">no limit<", "No rule limits this request."}},
	} {
		status, body := p.post(n.url+"/console/explain",
			url.Values{"domain": {"shop"}, "entries": {c.entries}, "addend": {c.addend}})
		for _, want := range c.want {
			if status != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%q by %q: status %d lacks %s", c.entries, c.addend, status, want)
			}
		}
	}
}
