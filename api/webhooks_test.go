package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/alerts"
	"sluice/rules"
	"sluice/rules/field"
)

// webhookShelf has webhooks as package deliver does: only what creates a secret returns it.
type webhookShelf struct{ shelf[alerts.Webhook] }

func (b *book) shelfOfWebhooks() Webhooks {
	return webhookShelf{shelf[alerts.Webhook]{b, alerts.WebhookKind, &b.webhooks, func(string) bool { return false }}}
}

func (f webhookShelf) Create(ctx context.Context, actor rules.Actor, w alerts.Webhook) (alerts.Webhook, error) {
	w, err := f.shelf.Create(ctx, actor, w)
	if err == nil {
		w.Secret = alerts.NewSecret()
	}
	return w, err
}

func (f webhookShelf) Rotate(_ context.Context, _ rules.Actor, name string, ifVersion int64) (alerts.Webhook, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, err := f.at(name, ifVersion)
	if err != nil {
		return w, err
	}
	w = f.put(w, w.Version+1)
	w.Secret = alerts.NewSecret()
	return w, nil
}

func (f webhookShelf) Test(ctx context.Context, name string) (alerts.Delivery, error) {
	w, err := f.Get(ctx, name)
	if err != nil {
		return alerts.Delivery{}, err
	}
	if w.Description == "is tested by somebody else" {
		return alerts.Delivery{}, alerts.ErrTestTooSoon
	}
	d := alerts.Delivery{ID: int64(len(f.deliveries) + 1), Message: alerts.TestMessage(&w, f.now()),
		State: alerts.DeliveryFailed, Attempts: 1, Status: 500, Error: "answered 500", Tried: f.now(), Ended: f.now(),
		Took: 12 * time.Millisecond}
	f.deliveries = append(f.deliveries, d)
	return d, nil
}

func (f webhookShelf) Deliveries(ctx context.Context, name string, before int64, limit int) ([]alerts.Delivery, error) {
	if _, err := f.Get(ctx, name); err != nil {
		return nil, err
	}
	var out []alerts.Delivery
	for _, d := range slices.Backward(f.deliveries) {
		if (before == 0 || d.ID < before) && len(out) < limit {
			out = append(out, d)
		}
	}
	return out, nil
}

func TestWebhooks_CreateReadReplaceRotateDelete(t *testing.T) {
	f := newFixture(t, nil)
	const path = webhooksPath + "/pager"
	a := f.do(http.MethodPost, webhooksPath, `{"name":"pager","url":"https://hooks.example.com/x"}`).want(http.StatusCreated)
	if a.header.Get("Location") != path || a.header.Get("ETag") != `"1"` || !strings.Contains(a.body, `"secret":"whsec_`) {
		t.Errorf("created: %v %s", a.header, a.body)
	}
	const whole = `{"name":"pager","description":"","url":"https://hooks.example.com/x","format":"standard","kinds":[],` +
		`"rules":[],"denied_percent":50,"denied_per_second":0,"is_active":true,"disabled_reason":"","version":1,"created_at":`
	read := f.do(http.MethodGet, path, "").want(http.StatusOK)
	if !strings.HasPrefix(read.body, whole) || strings.Contains(read.body, "secret") {
		t.Errorf("got %s\nwant %s…", read.body, whole)
	}
	f.do(http.MethodGet, path, "", "If-None-Match", `"1"`).want(http.StatusNotModified)
	f.do(http.MethodPost, webhooksPath, `{"name":"pager","url":"https://a.example/"}`).want(http.StatusConflict)
	// What GET returns can be sent back.
	f.do(http.MethodPut, path, read.body, "If-Match", `"7"`).want(http.StatusPreconditionFailed)
	put := f.do(http.MethodPut, path, `{"url":"https://b.example/","format":"slack","kinds":["key_usage"],`+
		`"denied_percent":0,"is_active":false}`, "If-Match", `"1"`).want(http.StatusOK)
	if put.header.Get("ETag") != `"2"` || strings.Contains(put.body, "secret") || put.header.Get("Sluice-In-Force") != "" {
		t.Errorf("replaced: %v %s", put.header, put.body)
	}
	f.do(http.MethodPost, path+"/rotate", "", "If-Match", `"1"`).want(http.StatusPreconditionFailed)
	if a := f.do(http.MethodPost, path+"/rotate", "", "If-Match", `"2"`).want(http.StatusOK); a.header.Get("ETag") != `"3"` ||
		!strings.Contains(a.body, `"secret":"whsec_`) {
		t.Errorf("rotated: %v %s", a.header, a.body)
	}
	if list := f.do(http.MethodGet, webhooksPath, "").want(http.StatusOK); strings.Contains(list.body, "secret") ||
		strings.Count(list.body, `"name":"pager"`) != 1 {
		t.Errorf("list %s", list.body)
	}
	f.do(http.MethodDelete, path, "", "If-Match", `"2"`).want(http.StatusPreconditionFailed)
	f.do(http.MethodDelete, path, "", "If-Match", `"3"`).want(http.StatusNoContent)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		f.do(method, path, "").want(http.StatusNotFound)
	}
	for _, rest := range []string{"/rotate", "/test"} {
		f.do(http.MethodPost, path+rest, "").want(http.StatusNotFound)
	}
	f.do(http.MethodGet, path+"/deliveries", "").want(http.StatusNotFound)
}

func TestWebhooks_BadInputNamesEveryField(t *testing.T) {
	f := newFixture(t, nil)
	for body, want := range map[string][]string{
		`{}`: {"name", "url"},
		`{"name":"A b","url":"ftp://x","format":"teams","kinds":["x","key_usage","key_usage"]}`: {
			"name", "url", "format", "kinds[0]", "kinds[2]"},
		`{"name":"a","url":"https://user:pw@x.example/"}`:                 {"url"},
		`{"name":"a","url":"https:///x"}`:                                 {"url"},
		`{"name":"a","url":"https://x.example/#a"}`:                       {"url"},
		`{"name":"a","url":"https://x.example/","rules":["b","b","C d"]}`: {"rules[1]", "rules[2]"},
		`{"name":"a","url":"https://x.example/","denied_percent":101,"denied_per_second":-1}`: {
			"denied_percent", "denied_per_second"},
		`{"name":"a","url":"https://` + strings.Repeat("x", 2048) + `.example/"}`: {"url"},
		`{"name":"a","url":"https://x.example/","denied_percent":1.5,"kinds":"all","rules":[null]}`: {
			"denied_percent", "kinds", "rules[0]"},
	} {
		var p struct {
			Errors []field.Problem `json:"errors"`
		}
		f.do(http.MethodPost, webhooksPath, body).want(http.StatusUnprocessableEntity).decode(&p)
		var got []string
		for _, e := range p.Errors {
			got = append(got, e.Field)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%.80s: got %v, want %v", body, p.Errors, want)
		}
	}
	f.do(http.MethodPost, webhooksPath, `{"name":"a","url":"https://x.example/","secret":"whsec_AAAA"}`).
		want(http.StatusBadRequest)
}

func TestWebhooks_DeliveriesArePagedNewestFirst(t *testing.T) {
	f := newFixture(t, nil)
	f.do(http.MethodPost, webhooksPath, `{"name":"pager","url":"https://x.example/"}`).want(http.StatusCreated)
	const path = webhooksPath + "/pager"
	var page deliveryPage
	f.do(http.MethodGet, path+"/deliveries", "").want(http.StatusOK).decode(&page)
	if len(page.Deliveries) != 0 || page.NextPageToken != "" {
		t.Errorf("before the first: %+v", page)
	}
	var ids []string
	for range 53 {
		var d delivery
		f.do(http.MethodPost, path+"/test", "").want(http.StatusOK).decode(&d)
		if d.State != "failed" || d.Status == nil || *d.Status != 500 || d.Error == nil || d.Type != "test" ||
			!strings.Contains(string(d.Body), `"type":"test"`) {
			t.Fatalf("tested: %+v", d)
		}
		ids = append(ids, d.ID)
	}
	slices.Reverse(ids)
	var got []string
	for token := ""; ; {
		f.do(http.MethodGet, path+"/deliveries?page_token="+token, "").want(http.StatusOK).decode(&page)
		for _, d := range page.Deliveries {
			got = append(got, d.ID)
		}
		if token = page.NextPageToken; token == "" {
			break
		}
		if len(page.Deliveries) != 50 {
			t.Errorf("a page of %d", len(page.Deliveries))
		}
	}
	if !slices.Equal(got, ids) {
		t.Errorf("%d deliveries in another order than newest first", len(got))
	}
	f.do(http.MethodGet, path+"/deliveries?page_size=0", "").want(http.StatusUnprocessableEntity)
	f.do(http.MethodGet, path+"/deliveries?state=failed", "").want(http.StatusUnprocessableEntity)
}

func TestWebhooks_ATestTooSoonSaysWhenToTryAgain(t *testing.T) {
	f := newFixture(t, nil)
	f.do(http.MethodPost, webhooksPath, `{"name":"pager","url":"https://x.example/",`+
		`"description":"is tested by somebody else"}`).want(http.StatusCreated)
	a := f.do(http.MethodPost, webhooksPath+"/pager/test", "").want(http.StatusTooManyRequests)
	if a.header.Get("Retry-After") != "2" || !strings.Contains(a.body, "/problems/too-soon") {
		t.Errorf("got %v %s", a.header, a.body)
	}
}

// Webhooks can send what the rules decide anywhere, so editing rules is not enough.
func TestWebhooks_NeedTheScopeAdmin(t *testing.T) {
	f := newFixture(t, nil)
	secret, token := newToken(f, nil, access.ScopeRulesRead, access.ScopeRulesWrite)
	f.access.Store(access.NewKeyring([]access.Token{token}))
	for _, r := range Table() {
		if !strings.HasPrefix(r.Path, webhooksPath) {
			continue
		}
		a := f.do(r.Method, concrete(r.Path), "", "Authorization", "Bearer "+secret)
		if a.status != http.StatusForbidden || !strings.Contains(a.body, "admin") {
			t.Error(fmt.Sprint(r.Method, r.Path, a.status, a.body))
		}
	}
}
