package inspect_test

import (
	"errors"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/webtest"
)

func TestSearch_FindsPagesRulesKeysRequestsAndActions(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleEditor)
	for text, want := range map[string][]string{
		"":                 {"Type to search", `href="/console/traffic"`},
		"mode FAIL":        {"Fail modes", `href="/console/fail-modes"`},
		"per-user charges": {`href="/console/rules/1"`, "charges-per-user"},
		"user:42":          {`href="/console/keys?key=user%3A42&amp;rule=`, "counted by"},
		"203.0.113.66":     {`href="/console/keys?key=ip%3A203.0.113.66&amp;rule=`},
		"ada":              {`href="/console/keys?key=user%3Aada&amp;rule=uploads-in-bytes"`},
		"POST /v1/charges": {"Rules that apply to POST /v1/charges", "Explain POST /v1/charges",
			"Requests of POST /v1/charges"},
		"why denied":   {"Explain a request"},
		"create limit": {`href="/console/rules/new"`},
		"<b>":          {"Nothing found", "&lt;b&gt;"},
	} {
		page := b.Post("/console/search", url.Values{"q": {text}})
		if page.Code != http.StatusOK || !page.Has(want...) || page.Has("<b>") {
			t.Errorf("%q: %d lacks one of %q", text, page.Code, want)
		}
	}
	if page := b.Post("/console/search", url.Values{"q": {strings.Repeat("x", 501)}}); page.Code != http.StatusOK ||
		!page.Has("Too long to search for.") {
		t.Errorf("a text that is too long: %d", page.Code)
	}
}

// TestSearch_ActionsCanBeTyped and lead to forms that are filled in. Nothing changes.
func TestSearch_ActionsCanBeTyped(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	for i := range w.Rules.List {
		if r := &w.Rules.List[i]; r.Name == "logins-per-address" {
			r.Candidate = &rules.Candidate{Algorithm: "gcra", Limit: new(int64(4))}
			r.Normalize()
		}
	}
	b := w.As(access.RoleEditor)
	const rule, override = `href="/console/rules/`, "/overrides/new?key="
	for text, want := range map[string][]string{
		"block user:43": {rule + "1" + override + `user%3A43&amp;kind=blocked"`, "in charges-per-user",
			rule + "2" + override + `user%3A43&amp;kind=blocked"`},
		"Override 203.0.113.66":        {rule + "3" + override + `ip%3A203.0.113.66"`, "Override ip:203.0.113.66"},
		"block apikey:sk_live_example": {"Block apikey:sha256:", override + "apikey%3Asha256%3A"},
		"block":                        {"Type a key behind it, such as block user:42."},
		"override nothing:7":           {"No active rule counts such a key. Write what it is, as in override user:42."},
		"block global":                 {"No active rule counts such a key."},
		"explain user:42 ip:203.0.113.7 attr:tenant:a=b POST /v1/charges": {`href="/console/explain?` +
			`attribute=tenant%3Da%3Db&amp;ip=203.0.113.7&amp;method=POST&amp;route=%2Fv1%2Fcharges&amp;user=42"`},
		"explain 203.0.113.7 nonsense":         {`href="/console/explain?ip=203.0.113.7"`, "Explain leaves out"},
		"explain user:sk_live_abcdef":          {"Type facts behind it"},
		"explain user:7 /reset/sk_live_abcdef": {`href="/console/explain?user=7"`, "Explain leaves out"},
		"GET /reset/sk_live_abcdef":            {"Nothing found"},
		"POST /v1/a?b=sk_live_abcdef":          {"Nothing found"},
		"explain user:42 AKIAABCDEFGHIJKLMNOP": {`href="/console/explain?user=42"`, "Explain leaves out"},
		"shadow per-user charges":              {rule + `1/turn?to=shadow"`, "Switch charges-per-user to shadow mode"},
		"shadow tighter-charges":               {"No active enforced rule without a candidate has this in its name."},
		"shadow logins-per-address":            {"No active enforced rule without a candidate has this in its name."},
		"shadow legacy-api":                    {"No active enforced rule without a candidate has this in its name."},
		"open audit":                           {`href="/console/audit"`},
		"new rule":                             {`href="/console/rules/new"`},
	} {
		page := b.Post("/console/search", url.Values{"q": {text}})
		if page.Code != http.StatusOK || !page.Has(want...) {
			t.Errorf("%q: %d lacks one of %q\n%s", text, page.Code, want, page.Body)
		}
		_, results, _ := strings.Cut(page.Body, `<div id="search-results"`)
		if strings.Contains(results, "sk_live") {
			t.Errorf("%q: the results have the credential", text)
		}
	}
	if len(w.Overrides.List) != len(webtest.Start(t, webtest.Full).Overrides.List) || w.Changes > 0 {
		t.Error("a search changed something")
	}
}

// Each address that a typed action leads to shows its form, filled in.
func TestSearch_TypedActionsLeadToFormsThatAreFilledIn(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleEditor)
	for text, want := range map[string][]string{
		"block user:43":    {`value="user:43"`, `value="blocked" selected`},
		"override user:43": {`value="user:43"`, `value="limit" selected`},
		"explain user:42 host:api.example.com tier:free attr:tenant:50%=x POST /v1/charges": {`value="42"`, `value="POST"`,
			`value="free"`, `value="api.example.com"`, "tenant=50%25=x</textarea>", `value="/v1/charges"`},
		"shadow charges-per-user": {"Switch charges-per-user to shadow mode?"},
	} {
		b.Header.Set("HX-Request", "true")
		_, found, _ := strings.Cut(b.Post("/console/search", url.Values{"q": {text}}).Body, `href="`)
		b.Header.Del("HX-Request")
		path, _, _ := strings.Cut(found, `"`)
		page := b.Get(html.UnescapeString(path))
		if page.Code != http.StatusOK || !page.Has(want...) {
			t.Errorf("%q leads to %s: %d lacks one of %q\n%s", text, path, page.Code, want, page.Body)
		}
	}
}

func TestSearch_OffersTypedActionsOnlyToThoseWhoMay(t *testing.T) {
	for _, kind := range []webtest.Kind{webtest.Full, webtest.Replica} {
		role := map[webtest.Kind]access.Role{webtest.Full: access.RoleViewer, webtest.Replica: access.RoleAdmin}[kind]
		b := webtest.Start(t, kind).As(role)
		for _, text := range []string{"block user:42", "override user:42", "shadow charges-per-user", "new rule"} {
			page := b.Post("/console/search", url.Values{"q": {text}})
			if page.HasAny("/overrides/new", "/turn?to", "/console/rules/new", "<h2>Best match</h2>") ||
				page.Code != http.StatusOK {
				t.Errorf("kind %d, %q: %d offers a change", kind, text, page.Code)
			}
		}
		if page := b.Post("/console/search", url.Values{"q": {"explain user:42"}}); !page.Has("/console/explain?user=42") {
			t.Errorf("kind %d: explain is not offered", kind)
		}
	}
}

func TestSearch_LeadsNobodyToWhatTheyMayNotDo(t *testing.T) {
	page := webtest.Start(t, webtest.Full).As(access.RoleViewer).Post("/console/search", url.Values{"q": {"new"}})
	if page.HasAny("/console/rules/new", "New rule", "/console/people/new") {
		t.Error("a viewer is offered to make something")
	}
}

// The message about the last action waits for the page that follows it.
func TestSearch_KeepsTheMessageForThePage(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleEditor)
	b.Post("/console/keys/reset", url.Values{"rule": {"charges-per-user"}, "key": {"user:42"}})
	b.Header.Set("HX-Request", "true")
	if page := b.Post("/console/search", url.Values{"q": {"charges"}}); page.Has("Usage reset") {
		t.Error("the results in the dialog have the message")
	}
	b.Header.Del("HX-Request")
	if page := b.Post("/console/search", url.Values{"q": {"charges"}}); !page.Has("Usage reset") {
		t.Error("the page of the search lost the message")
	}
}

func TestSearch_SaysThatResultsMayBeMissing(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Rules.Err, w.Fleet.Err = rules.ErrUnavailable, errors.New("no route to host 10.0.0.7")
	page := w.As(access.RoleViewer).Post("/console/search", url.Values{"q": {"charges"}})
	if page.Code != http.StatusOK || !page.Has("results may be missing", "charges-per-user") || page.Has("10.0.0.7") {
		t.Errorf("%d", page.Code)
	}
}
