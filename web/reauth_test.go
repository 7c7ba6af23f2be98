package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/web"
	"sluice/web/webtest"
)

func TestReauth_AsksOnceMoreAndCarriesTheFormAlong(t *testing.T) {
	w := world(t, webtest.Full)
	w.Handler = w.Server.WithErase()
	b := w.As(access.RoleAdmin)
	form := func(extra ...string) url.Values {
		f := url.Values{"what": {`everything "quoted"`}}
		for _, password := range extra {
			f.Set("confirm_password", password)
		}
		return f
	}
	done := func(when string, page webtest.Page) {
		t.Helper()
		if home := b.Get("/console"); page.Code != http.StatusSeeOther ||
			!home.Has("erased everything &#34;quoted&#34;, 1 fields") {
			t.Errorf("%s: %d", when, page.Code)
		}
	}
	done("just signed in", b.Post("/console/erase", form()))
	w.Clock.Add(11 * time.Minute)
	page := b.Post("/console/erase", form())
	if page.Code != http.StatusUnprocessableEntity ||
		!page.Has("Confirm: erase everything &#34;quoted&#34;</h1>", `name="what" value="everything &#34;quoted&#34;"`, `action="/console/erase"`) {
		t.Fatalf("later: %d\n%s", page.Code, page.Body)
	}
	if page := b.Post("/console/erase", form("wrong")); page.Code != http.StatusUnprocessableEntity ||
		!page.Has("Wrong name or password.") || page.Has("wrong\"") {
		t.Errorf("wrong password: %d", page.Code)
	}
	secret := b.Cookies()["sluice_session"]
	done("with the password", b.Post("/console/erase", form(webtest.Password)))
	if b.Cookies()["sluice_session"] == secret {
		t.Error("the session kept its secret")
	}
	done("right after", b.Post("/console/erase", form()))
	w.Clock.Add(11 * time.Minute)
	for range 5 {
		b.Post("/console/erase", form("guess"))
	}
	if page := b.Post("/console/erase", form(webtest.Password)); page.Code != http.StatusTooManyRequests {
		t.Errorf("guessing is not limited: %d", page.Code)
	}
}

// Every page that asks for the password names what it is for: the verb, and the object by its name. What the form names
// is escaped and short.
func TestReauth_NamesTheAct(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	b.Get("/console") // which stores a session
	w.Clock.Add(11 * time.Minute)
	long := strings.Repeat("é", 100)
	named := map[string]string{}
	for _, tt := range []struct {
		path string
		form url.Values
		want string
	}{
		{"/console/tokens/new", url.Values{"name": {"<b>ci</b>"}}, "create the token &lt;b&gt;ci&lt;/b&gt;"},
		{"/console/tokens/1/revoke", nil, "revoke the token edge-gateway"},
		{"/console/tokens/1/rotate", nil, "rotate the token edge-gateway"},
		{"/console/people/new", url.Values{"name": {long}}, "create the account " + long[:160] + "…"},
		{"/console/people/2/role", url.Values{"role": {"viewer"}}, "change the role of edda to viewer"},
		{"/console/people/2/state", url.Values{"state": {"disabled"}}, "disable the account edda"},
		{"/console/people/2/state", url.Values{"state": {"enabled"}}, "enable the account edda"},
		{"/console/people/2/link", nil, "create an invite link for the account edda"},
		{"/console/people/2/sign-out", nil, "sign out the account edda"},
		{"/console/rules/1/delete", nil, "delete the rule charges-per-user"},
		{"/console/rules/delete", url.Values{"seen": {"1.1 2.1"}}, "delete 2 rules"},
		{"/console/rules/1/overrides/2/delete", nil, "delete the override for user:42 of the rule charges-per-user"},
		{"/console/keys/reset", url.Values{"rule": {"charges-per-user"}, "key": {"user:43"}},
			"reset the usage of user:43 of the rule charges-per-user"},
		{"/console/keys/reset", nil, "reset the usage of a key"},
		{"/console/deferred/1/drop", nil, "drop the deferred requests of the rule charges-per-user"},
		{"/console/deferred/999/drop", nil, "drop the deferred requests of a deleted rule"},
		{"/console/alerts/webhooks", url.Values{"name": {"pager"}}, "create the webhook pager"},
		{"/console/alerts/webhooks/chat", nil, "change the webhook chat"},
		{"/console/alerts/webhooks/chat/rotate", nil, "rotate the secret of the webhook chat"},
		{"/console/alerts/webhooks/chat/delete", nil, "delete the webhook chat"},
		{"/console/pools/nightly/delete", nil, "delete the pool nightly"},
		{"/console/profiles/nginx/delete", nil, "delete the profile nginx"},
		{"/console/profiles/nginx/disconnect", nil, "remove a profile and its token"},
		{"/console/connect", nil, "connect a gateway"},
		{"/console/import/apply", nil, "apply the plan of an import"},
	} {
		form := tt.form
		if form == nil {
			form = url.Values{}
		}
		page := b.Post(tt.path, form)
		if !page.Has("<h1>Confirm: "+tt.want+"</h1>", "<title>Confirm: "+tt.want) {
			head := regexp.MustCompile(`<h1>.*</h1>`).FindString(page.Body)
			t.Errorf("%s: %d %s, want %s", tt.path, page.Code, head, tt.want)
		}
		named[regexp.MustCompile(`/(\d+|chat|nightly|nginx)\b`).ReplaceAllString(tt.path, "/:x")] = tt.want
	}
	for _, r := range web.Table() {
		if path := regexp.MustCompile(`:\w+`).ReplaceAllString(r.Path, ":x"); r.Reauth != nil && named[path] == "" {
			t.Errorf("this test lacks %s", r.Path)
		}
	}
	if page := b.Post("/console/tokens/999/revoke", url.Values{}); page.Code != http.StatusNotFound {
		t.Errorf("a token that does not exist: %d", page.Code)
	}
}

func TestPanic_IsOnePageAndSaysNothingInside(t *testing.T) {
	w := world(t, webtest.Full)
	w.Handler = w.Server.WithErase()
	page := w.Browser().Get("/console/panic")
	if page.Code != http.StatusInternalServerError || !page.Has("Internal error", "</html>") || page.Has("on purpose") {
		t.Errorf("got %d", page.Code)
	}
}
