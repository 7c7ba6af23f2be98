package alerts_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/alerts"
	"sluice/rules"
	"sluice/web/webtest"
)

func opsForm(more ...string) url.Values {
	form := url.Values{"name": {"ops"}, "url": {"https://hooks.example.com/x"}, "format": {"standard"},
		"is_active": {"on"}, "kinds": {"key_usage", "set_old"}, "rules": {"charges-per-user\r\nsearch-per-user\r\n"},
		"denied_percent": {"50"}, "denied_per_second": {"1,000"}}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return form
}

func TestWebhooks_AreListedCreatedEditedAndDeleted(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	page := b.Get(hooks)
	if !page.Has("https://hooks.chat.example/…", "Slack", "High denials, Key near its limit", "answered 503",
		"by Sluice: the receiver answered 410", `popovertarget="delete-chat"`, ">ok<") || page.Has("planted-secret") {
		t.Errorf("the list: %d\n%s", page.Code, page.Body)
	}
	page = b.Post(hooks, opsForm())
	secret := "whsec_0000000000000000000000000000000000000000001="
	if page.Code != http.StatusOK || !page.Has(secret, `data-copy="secret"`, "Shown only once") {
		t.Fatalf("creating one: %d\n%s", page.Code, page.Body)
	}
	got := w.Webhooks.Objects.List[3]
	if len(got.Kinds) != 2 || len(got.Rules) != 2 || got.DeniedPerSecond != 1000 || !got.IsActive {
		t.Errorf("stored %+v", got)
	}
	if w.Changes != 0 {
		t.Errorf("a webhook is no rule, and the console waited %d times for one", w.Changes)
	}
	for _, from := range []string{hooks, hooks + "/ops", hooks + "/ops/edit"} {
		if page := b.Get(from); page.Code != http.StatusOK || page.Has("whsec_") {
			t.Errorf("%s: %d\n%s", from, page.Code, page.Body)
		}
	}
	if page := b.Get(hooks + "/ops/edit"); !page.Has(`value="key_usage" checked`, "https://hooks.example.com/x",
		`name="version" value="1"`, "charges-per-user\nsearch-per-user</textarea>") {
		t.Errorf("the form: %d\n%s", page.Code, page.Body)
	}
	b.Post(hooks+"/ops", opsForm("version", "1", "rules", "charges-per-user no-such"))
	if page := b.Get(hooks + "/ops"); strings.Count(page.Body, "no active rule") != 1 ||
		!page.Has("<code>no-such</code>", ">charges-per-user</a>") {
		t.Errorf("a name of no rule: %d\n%s", page.Code, page.Body)
	}
	if page := b.Post(hooks, opsForm()); page.Code != http.StatusConflict || !page.Has("another webhook") {
		t.Errorf("twice: %d", page.Code)
	}
	page = b.Post(hooks+"/ops", opsForm("version", "2", "format", "slack"))
	if page.Header.Get("Location") != hooks+"/ops" || w.Webhooks.Objects.List[3].Format != "slack" {
		t.Errorf("editing: %d\n%s", page.Code, page.Body)
	}
	page = b.Post(hooks+"/ops", opsForm("version", "2", "url", "https://other.example/x"))
	if page.Code != http.StatusConflict || !page.Has("Someone else changed this webhook in the meantime",
		"<del>Slack</del>", "<ins>https://other.example/x</ins>", `name="version" value="3"`) ||
		w.Webhooks.Objects.List[3].Version != 3 {
		t.Errorf("a stale edit: %d\n%s", page.Code, page.Body)
	}
	if page := b.Post(hooks+"/ops/delete", url.Values{"version": {"1"}}); page.Code != http.StatusConflict {
		t.Errorf("a stale delete: %d", page.Code)
	}
	page = b.Post(hooks+"/ops/delete", url.Values{"version": {"3"}})
	if page.Header.Get("Location") != hooks || len(w.Webhooks.Objects.List) != 3 {
		t.Errorf("deleting: %d", page.Code)
	}
	w.Webhooks.Err = rules.ErrUnavailable
	if page := b.Post(hooks, opsForm()); page.Code != http.StatusServiceUnavailable ||
		!page.Has("https://hooks.example.com/x", "What you typed is still here") {
		t.Errorf("without the database: %d\n%s", page.Code, page.Body)
	}
}

func TestWebhooks_ErrorsAreAtTheirInputs(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	page := w.As(access.RoleAdmin).Post(hooks, url.Values{"name": {"No Good"}, "url": {"ftp://x"}, "kinds": {"none"},
		"rules": {"fine B@d"}, "denied_percent": {"101"}, "denied_per_second": {"1,0"}, "format": {"fax"}})
	if page.Code != http.StatusUnprocessableEntity || !page.Has("must begin with https://", "must be one of rule_denials",
		"&#34;B@d&#34; must be the name of a rule", "must be a whole number", `id="f-denied_percent-hint">must be`,
		`id="f-format-hint">must be`, "must be 1 to 63") || len(w.Webhooks.Objects.List) != 3 {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
}

func TestWebhooks_AreForAdministrators(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	for _, role := range []access.Role{access.RoleViewer, access.RoleEditor} {
		b := w.As(role)
		for _, from := range []string{hooks, hooks + "/chat", hooks + "/new"} {
			if page := b.Get(from); page.Code != http.StatusForbidden || !page.Has("This requires the role admin") ||
				page.Has("hooks.chat.example") {
				t.Errorf("%s %s: %d", role, from, page.Code)
			}
		}
		if page := b.Post(hooks, opsForm()); page.Code != http.StatusForbidden || len(w.Webhooks.Objects.List) != 3 {
			t.Errorf("%s: saving: %d", role, page.Code)
		}
	}
	b := w.As(access.RoleAdmin)
	b.Header = http.Header{"Origin": {"https://evil.example"}}
	if page := b.Post(hooks+"/chat/test", url.Values{}); page.Code != http.StatusForbidden ||
		len(w.Webhooks.Sent[1]) != 4 {
		t.Errorf("from another site: %d", page.Code)
	}
	b.Header = nil
	w.Clock.Add(time.Hour)
	for _, to := range []string{hooks, hooks + "/chat", hooks + "/chat/rotate", hooks + "/chat/delete"} {
		page := b.Post(to, opsForm("version", "1"))
		if !page.Has("Confirm: ") || w.Webhooks.Secrets > 0 {
			t.Errorf("%s asks for no password: %d", to, page.Code)
		}
	}
}

func TestWebhooks_ATestSaysWhatBecameOfIt(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	for _, c := range []struct {
		answer alerts.Attempt
		want   string
	}{
		{alerts.Attempt{Took: 34 * time.Millisecond, Status: 204}, "Test delivered: the receiver answered 204 after 34 ms."},
		{alerts.Attempt{Took: time.Second, Status: 500, Error: "answered 500"},
			"Test failed after 1 s: the receiver answered 500."},
		{alerts.Attempt{Took: 5 * time.Second, Error: "no answer within 5 s"},
			"Test failed after 5 s: no answer within 5 s."},
	} {
		w.Webhooks.Answer = c.answer
		page := b.Post(hooks+"/chat/test", url.Values{})
		if page.Code != http.StatusSeeOther {
			t.Fatalf("%d\n%s", page.Code, page.Body)
		}
		if page = b.Get(page.Header.Get("Location")); !page.Has(c.want, "<strong>Test</strong>", "data-test") {
			t.Errorf("want %q: %d\n%s", c.want, page.Code, page.Body)
		}
	}
	if page := b.Get(hooks + "/chat?test=3"); page.Has("data-test") {
		t.Error("a delivery that was no test is shown as one")
	}
	w.Webhooks.TestErr = alerts.ErrTestTooSoon
	if page := b.Post(hooks+"/chat/test", url.Values{}); page.Code != http.StatusTooManyRequests ||
		!page.Has("Another test was just sent") {
		t.Errorf("too soon: %d", page.Code)
	}
	if page := b.Post(hooks+"/nobody/test", url.Values{}); page.Code != http.StatusNotFound {
		t.Errorf("of none: %d", page.Code)
	}
}

func TestWebhooks_ARotatedSecretIsShownOnce(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	page := b.Post(hooks+"/chat/rotate", url.Values{"version": {"1"}})
	if page.Code != http.StatusOK || strings.Count(page.Body, "whsec_") != 1 || !page.Has("within 24 hours") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	if page := b.Get(hooks + "/chat"); page.Has("whsec_") {
		t.Error("the secret is shown again")
	}
	if page := b.Post(hooks+"/chat/rotate", url.Values{"version": {"1"}}); page.Code != http.StatusConflict ||
		page.Has("whsec_") {
		t.Errorf("a stale one: %d", page.Code)
	}
}

// A webhook with 10,000 deliveries has a page of 50, and long bodies are shortened.
func TestWebhooks_ThePageReadsTheLastFiftyDeliveries(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	webtest.ManyDeliveries(w, 10_000)
	w.Webhooks.Sent[1][0].Message.Body = []byte(`{"data":{"text":"` + strings.Repeat("ü", 40_000) + `"}}`)
	page := w.As(access.RoleAdmin).Get(hooks + "/chat")
	if n := strings.Count(page.Body, "<details>"); n != 50 || w.Webhooks.Asked != 50 {
		t.Errorf("%d deliveries are shown, %d were read", n, w.Webhooks.Asked)
	}
	if !page.Has("shortened, 80,020 bytes in total") || len(page.Body) > 150_000 {
		t.Errorf("the page has %d bytes", len(page.Body))
	}
}
