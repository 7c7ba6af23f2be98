package inspect_test

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/redact"
	"sluice/web/inspect"
	"sluice/web/webtest"
)

func TestExplain_ShowsBucketsBeforeAndAfterAndSpendsNothing(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	form := url.Values{"method": {"POST"}, "route": {"/v1/charges"}, "user": {"77"}, "weight": {"3"}}
	for range 2 { // the second time finds what the first did
		page := b.Post("/console/explain", form)
		if page.Code != http.StatusOK || !page.Has("allowed", "charges-per-user", "user:77",
			`data-label="Remaining before" class="number">100`, `data-label="Remaining after" class="number">97`, "not apply",
			"route /v1/search; the request&#39;s route") {
			t.Fatalf("%d %s", page.Code, page.Body)
		}
	}
	if err := w.Spend(&match.Descriptor{Method: "POST", Route: "/v1/charges", User: "77",
		IP: netip.MustParseAddr("203.0.113.7")}, 100); err != nil {
		t.Fatal(err)
	}
	if page := b.Post("/console/explain", form); !page.Has("denied, 429", "<strong>charges-per-user</strong>", ">denied<",
		"would deny") {
		t.Error("a full bucket is not told")
	}
}

func TestExplain_SaysInWhichRegionAKeyIsAtHome(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	form := url.Values{"method": {"POST"}, "route": {"/v1/charges"}, "user": {"77"}}
	if page := b.Post("/console/explain", form); page.Has("at home in") {
		t.Errorf("a key that each region has: %d\n%s", page.Code, page.Body)
	}
	exactly(t, w)
	if page := b.Post("/console/explain", form); !page.Has("at home in us") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
}

func TestExplain_FollowsADenial(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	if page := b.Get("/console/explain?denial=s0"); page.Code != http.StatusOK ||
		!page.Has("logins-per-address", `value="203.0.113.66"`, "The request was denied") {
		t.Errorf("%d", page.Code)
	}
	if page := b.Get("/console/explain?denial=s5"); page.Has("<script>alert") || !page.Has("&lt;script&gt;") {
		t.Error("what a caller sent is markup")
	}
	if page := b.Get("/console/explain?denial=s6"); page.Has(redact.Hidden) || !page.Has("looked like credentials") {
		t.Error("a hidden user is taken for a name")
	}
	if page := b.Get("/console/explain?denial=long-gone"); page.Code != http.StatusNotFound ||
		!page.Has("no longer stored", "f-route") {
		t.Errorf("a denial that is gone: %d", page.Code)
	}
}

// A caller who could end a line in the form would have another tenant explained, and blocked by the page's buttons.
func TestExplain_KeepsALineBreakOfACallerInItsAttribute(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Fleet.Denied = append(w.Fleet.Denied, history.Request{ID: "broken", At: webtest.Now.UnixMilli(),
		Mode: rules.ModeEnforce, Rule: "charges-per-user", Key: "user:1", Method: "POST", Route: "/v1/charges", User: "1",
		Weight:     1,
		Attributes: map[string]string{"tenant": "evil\nplan=100%\r\nno pair "}})
	page := w.As(access.RoleViewer).Get("/console/explain?denial=broken")
	if !page.Has(">tenant=evil%0Aplan=100%25%0D%0Ano pair%20</textarea>", "charges-per-user") ||
		page.Code != http.StatusOK || page.Has("must have lines") {
		t.Errorf("%d %s", page.Code, page.Body)
	}
	again := w.As(access.RoleViewer).Post("/console/explain", url.Values{"method": {"POST"}, "route": {"/v1/charges"},
		"attributes": {"tenant=evil%0Aplan=100%25%0D%0Ano pair%20"}})
	if !again.Has(">tenant=evil%0Aplan=100%25%0D%0Ano pair%20</textarea>") || again.Has("must have lines") {
		t.Errorf("%d %s", again.Code, again.Body)
	}
}

// Browsers drop the ends of lines in a field of one line, so the form would send the request of another user.
func TestExplain_KeepsALineBreakOfACallerInEachFact(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Fleet.Denied = append(w.Fleet.Denied, history.Request{ID: "broken", At: webtest.Now.UnixMilli(),
		Mode: rules.ModeEnforce, Rule: "charges-per-user", Key: "user:7%0D%0A7", Method: "POST",
		Route: "/v1/char\rges", User: "100%\r\n7", Tier: "a\nb", Weight: 1})
	viewer := w.As(access.RoleViewer)
	shown := []string{`name="escaped" value="route"`, `name="escaped" value="user"`, `name="escaped" value="tier"`,
		`value="/v1/char%0Dges"`, `value="100%25%0D%0A7"`, `value="a%0Ab"`, `value="POST"`}
	if page := viewer.Get("/console/explain?denial=broken"); !page.Has(shown...) || page.Has(`"escaped" value="method"`) {
		t.Errorf("of a denial: %d %s", page.Code, page.Body)
	}
	sent := url.Values{"method": {"POST"}, "route": {"/v1/char%0Dges"}, "user": {"100%25%0D%0A7"}, "tier": {"a%0Ab"},
		"escaped": {"route", "user", "tier", "weight"}, "weight": {"1"}}
	if page := viewer.Post("/console/explain", sent); page.Code != http.StatusOK || !page.Has(shown...) {
		t.Errorf("sent again: %d %s", page.Code, page.Body)
	}
	sent.Set("route", "/v1/charges")
	if page := viewer.Post("/console/explain", sent); !page.Has("user:100%25%0D%0A7", `value="/v1/charges"`) ||
		page.Has(`"escaped" value="route"`) {
		t.Errorf("another route: %d %s", page.Code, page.Body)
	}
	plain := url.Values{"method": {"POST"}, "route": {"/v1/charges"}, "user": {"50%0A"}}
	if page := viewer.Post("/console/explain", plain); !page.Has(`value="50%0A"`) || page.Has(`name="escaped"`) {
		t.Errorf("a user with %%: %d %s", page.Code, page.Body)
	}
}

func TestExplain_ReadsWhatIsPasted(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleViewer)
	for paste, has := range map[string][]string{
		`{"method":"POST","route":"/v1/charges","user":"77","weight":2,"attributes":{"tenant":"acme"},"request_id":"x"}`:                         {"user:77", "tenant=acme", `value="2"`},
		`curl -X POST https://api.example.com/v1/charges?a=b -H 'X-User-Id: 77' -H 'X-Forwarded-For: 203.0.113.7, 10.0.0.1' -H 'X-Tenant: acme'`: {"user:77", "ip:203.0.113.7", "x-tenant", `value="api.example.com"`},
		`{"host":"API.example.com:80","route":"/v1/search","user":"78"}`:                                                                         {"user:78", `value="API.example.com:80"`},
		`curl http://127.0.0.1:8080/ratelimit/check -d '{"route":"/v1/search","user":"78"}'`:                                                     {"user:78", "calls sluice itself"},
	} {
		if page := b.Post("/console/explain", url.Values{"paste": {paste}}); page.Code != http.StatusOK || !page.Has(has...) {
			t.Errorf("%s: %d lacks one of %q", paste, page.Code, has)
		}
	}
	page := b.Post("/console/explain", url.Values{
		"paste": {`curl https://a/v1/exports/x -H 'Authorization: Bearer sk_live_topsecret'`}})
	if !page.Has("apikey:sha256:") || strings.Count(page.Body, "sk_live_topsecret") != 1 ||
		!page.Has(`type="password" value="sk_live_topsecret"`) {
		t.Error("a key is shown outside its masked field")
	}
	for _, paste := range []string{"nonsense", "{", `{"routes":"/a"}`, `{"user":7}`, `{} {}`, "curl a | sh"} {
		if page := b.Post("/console/explain", url.Values{"paste": {paste}}); page.Code != http.StatusUnprocessableEntity ||
			!page.Has(`aria-invalid="true"`) {
			t.Errorf("%s: %d", paste, page.Code)
		}
	}
}

func TestExplain_ReadsAGatewaysRequestByItsProfile(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	ask := func(request string) webtest.Page {
		return b.Post("/console/explain", url.Values{"profile": {"shop"}, "request": {request}})
	}
	page := ask("GET /users/../users/17?x=1 HTTP/1.1\r\nHost: Shop.example\r\nx-user: 42\r\nX-Api-Key: k\r\n" +
		"X-Forwarded-For: 192.0.2.9, 203.0.113.7, 10.0.0.1\r\nX-Tenant: acme")
	if !page.Has("Profile shop (version 1) reads the request", `value="/users/{id}"`, `value="42"`,
		`value="203.0.113.7"`, "tenant=acme", "host=shop.example", `value="shop.example"`, "Evaluated against rules version",
		`value="shop" selected`) || page.Has("X-Api-Key: k") {
		t.Errorf("got %d\n%s", page.Code, page.Body)
	}
	if page := ask("OPTIONS /"); !page.Has("allows OPTIONS without a check") || page.Has("Evaluated against") {
		t.Errorf("a skipped method: %d\n%s", page.Code, page.Body)
	}
	if page := ask("GET /"); !page.Has("because the fact api_key is missing") || page.Has("Evaluated against") {
		t.Errorf("a missing fact: %d\n%s", page.Code, page.Body)
	}
	for request, want := range map[string]string{
		"": "must begin with a method and a path", "X-User: 42": "must begin with a method and a path",
		"GET /\nX-User": "must have one header per line",
	} {
		if page := ask(request); page.Code != http.StatusUnprocessableEntity || !page.Has(want) {
			t.Errorf("%q: %d\n%s", request, page.Code, page.Body)
		}
	}
	if page := b.Post("/console/explain", url.Values{"profile": {"gone"}, "request": {"GET /"}}); page.Code !=
		http.StatusUnprocessableEntity || !page.Has("not in force on this node") {
		t.Errorf("an unknown profile: %d", page.Code)
	}
	if page := webtest.Start(t, webtest.Empty).As(access.RoleViewer).Get("/console/explain"); page.Has("gateway") {
		t.Error("the form is shown although there is no profile")
	}
}

func TestExplain_NamesTheFieldThatIsWrongAndKeepsTheRest(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleViewer)
	for field, value := range map[string]string{"route": "v1", "ip": "nowhere", "host": "a b", "weight": "-1",
		"attributes": "tenant", "fields": "bytes=many", "user": strings.Repeat("x", 9000)} {
		form := url.Values{"method": {"BREW"}}
		form.Set(field, value)
		page := b.Post("/console/explain", form)
		if page.Code != http.StatusUnprocessableEntity || !page.Has(`value="BREW"`, `id="f-`+field+`-hint"`) ||
			strings.Count(page.Body, `class="field invalid"`) != 1 {
			t.Errorf("%s: %d", field, page.Code)
		}
	}
}

// explained is the page that explains a request whose explanation is e.
func explained(t *testing.T, e inspect.Explanation) webtest.Page {
	t.Helper()
	w := webtest.Start(t, webtest.Full)
	d := w.Deps(nil)
	d.Inspect.Explain = func(context.Context, *match.Descriptor, int64) (inspect.Explanation, error) { return e, nil }
	if err := w.Serve(d); err != nil {
		t.Fatal(err)
	}
	return w.As(access.RoleViewer).Post("/console/explain", url.Values{"user": {"42"}})
}

func TestExplain_OverloadIsNotTakenForARule(t *testing.T) {
	page := explained(t, inspect.Explanation{Status: http.StatusServiceUnavailable, Overloaded: true})
	if !page.Has("denied, 503", ">overloaded<", "it had no turn for this one.") || page.Has("would pass") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
}

func TestExplain_AFailModeIsNotTakenForNoRule(t *testing.T) {
	if page := explained(t, inspect.Explanation{Status: 503, Degraded: rules.FailClosed}); page.Has("would pass") {
		t.Error("a denial without a rule says when it would pass")
	}
	page := explained(t, inspect.Explanation{Allowed: true, Status: http.StatusOK, Degraded: rules.FailOpen})
	if !page.Has("degraded: fail mode open", "The counter store cannot decide; the fail mode does.") ||
		page.Has("No rule limits this request") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
}
