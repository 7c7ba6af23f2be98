package web_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/webtest"
)

func number(n int64) string { return strconv.FormatInt(n, 10) }

func TestReason_GoesWithEveryChangeOfARule(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleEditor)
	const why = "the <b>sale</b>"
	told := func(what string, id int64, page webtest.Page) {
		t.Helper()
		if page.Code != http.StatusSeeOther || w.Rules.Revisions[id][0].Reason != why {
			t.Errorf("%s: %d, reason %q", what, page.Code, w.Rules.Revisions[id][0].Reason)
		}
	}
	version := func(id int64) string {
		r, err := w.Rules.GetRule(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return number(r.Version)
	}
	page := b.Post("/console/rules", webtest.RuleForm("name", "reasoned", "reason", " "+why+" "))
	id := w.Rules.Named("reasoned").ID
	told("creating", id, page)
	path := "/console/rules/" + number(id)
	told("editing", id, b.Post(path, webtest.RuleForm("name", "reasoned", "limit", "11", "version", version(id), "reason",
		why)))
	told("turning off", id, b.Post(path+"/state", url.Values{"to": {"off"}, "version": {version(id)}, "reason": {why}}))
	told("rolling back", id, b.Post(path+"/rollback", url.Values{"to": {"1"}, "version": {version(id)}, "reason": {why}}))
	told("changing many", id, b.Post("/console/rules/bulk",
		url.Values{"act": {"shadow"}, "seen": {number(id) + "." + version(id)}, "reason": {why}}))
	told("promoting", id, b.Post(path+"/promote",
		url.Values{"version": {version(id)}, "reason": {why}, "little_evidence": {"on"}}))
	if page := b.Get(path); !page.Has("“the &lt;b&gt;sale&lt;/b&gt;”") || page.Has("<b>sale") {
		t.Error("the history does not tell")
	}
	told("deleting", id, b.Post(path+"/delete", url.Values{"version": {version(id)}, "reason": {why}}))
}

func TestReason_IsKeptOnTheWayAndHeldToBounds(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleEditor)
	long := strings.Repeat("a", rules.MaxReason+1)
	if page := b.Post("/console/rules", webtest.RuleForm("reason", long)); page.Code != http.StatusUnprocessableEntity ||
		!page.Has("must not be longer than 512 bytes", long, `id="f-reason-hint"`) {
		t.Errorf("too long: %d", page.Code)
	}
	if page := b.Post("/console/rules/preview",
		webtest.RuleForm("reason", "because", "do", "yaml")); !page.Has(`name="reason" type="text" value="because"`) {
		t.Error("it is lost on the way to YAML")
	}
	if page := b.Post("/console/rules/1",
		webtest.RuleForm("reason", "because", "version", "77")); page.Code != http.StatusConflict || !page.Has(
		`name="reason" value="because"`) {
		t.Errorf("it is lost in a conflict: %d", page.Code)
	}
}

func TestReason_GoesWithAnImport(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleEditor)
	page := b.Post("/console/import", url.Values{"text": {webtest.SampleFile}})
	form := url.Values{"text": {webtest.SampleFile}, "sum": {page.Field("sum")}, "reason": {" because"}}
	w.Book.Version++
	page = b.Post("/console/import/apply", form)
	if page.Code != http.StatusConflict || !page.Has(`name="reason" type="text" value=" because"`) {
		t.Fatalf("another plan: %d\n%s", page.Code, page.Body)
	}
	form.Set("sum", page.Field("sum"))
	if page := b.Post("/console/import/apply", form); page.Code != http.StatusSeeOther ||
		!strings.HasSuffix(w.Book.Applied[0], "deletedbecause") {
		t.Errorf("%d, %q", page.Code, w.Book.Applied)
	}
}
