package web_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/rules"
	"sluice/web/webtest"
)

var planSum = regexp.MustCompile(`name="sum" value="([0-9a-f]{64})"`)

func planned(t *testing.T, b *webtest.Browser, prune string) url.Values {
	t.Helper()
	page := b.Post("/console/import", url.Values{"text": {webtest.SampleFile}, "prune": {prune}})
	found := planSum.FindStringSubmatch(page.Body)
	if page.Code != http.StatusOK || found == nil {
		t.Fatalf("no plan: %d\n%s", page.Code, page.Body)
	}
	return url.Values{"text": {strings.ReplaceAll(webtest.SampleFile, "\n", "\r\n")}, "prune": {prune}, "sum": {found[1]}}
}

func TestImport_DoesExactlyThePlanThatWasShown(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleEditor)
	form := planned(t, b, "on")
	form.Set("do", "all")
	if len(w.Book.Applied) != 0 {
		t.Fatal("looking at the plan carried it out")
	}
	if page := b.Post("/console/import/apply", form); page.Code != http.StatusSeeOther || !b.Get("/console").Has("1 created, 1 changed, 11 deleted") {
		t.Errorf("applying: %d", page.Code)
	}
	if len(w.Book.Applied) != 1 || w.Book.Applied[0] != "edda: 1 created, 1 updated, 11 deleted" || w.Changes != 1 {
		t.Errorf("carried out %q, %d reloads", w.Book.Applied, w.Changes)
	}
}

// clocked is a recorder that remembers whether reading got a deadline.
type clocked struct {
	*httptest.ResponseRecorder
	read bool
}

func (c *clocked) SetReadDeadline(time.Time) error  { c.read = true; return nil }
func (c *clocked) SetWriteDeadline(time.Time) error { return nil }

// TestImport_IsNotEndedByATimeToSend: the guard that asks for the password has read
// the form before the import begins. A deadline that is set after that ends the
// request's context, and a large import took longer.
func TestImport_IsNotEndedByATimeToSend(t *testing.T) {
	w := world(t, webtest.Full)
	for path, want := range map[string]bool{"/console/import": true, "/console/import/apply": false} {
		body := url.Values{"text": {"rules: []\n"}}.Encode()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		for name, value := range w.As(access.RoleEditor).Cookies() {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		out := &clocked{ResponseRecorder: httptest.NewRecorder()}
		w.ServeHTTP(out, r)
		if out.Code >= http.StatusInternalServerError || out.read != want {
			t.Errorf("%s: status %d, a deadline for reading %t, want %t", path, out.Code, out.read, want)
		}
	}
}

func TestImport_AStalePlanIsShownAgainAndNotDone(t *testing.T) {
	for name, meanwhile := range map[string]func(*webtest.World, url.Values){
		"another version": func(w *webtest.World, _ url.Values) { w.Book.Version++ },
		"another file":    func(_ *webtest.World, f url.Values) { f.Set("text", f.Get("text")+"    burst: 1\n") },
		"prune added":     func(_ *webtest.World, f url.Values) { f.Set("prune", "on") },
		"no sum":          func(_ *webtest.World, f url.Values) { f.Del("sum") },
		"at that moment":  func(w *webtest.World, _ url.Values) { w.Book.ApplyErr = rules.ErrStale },
		"a name taken":    func(w *webtest.World, _ url.Values) { w.Book.ApplyErr = rules.ErrNameTaken },
		"a pool in use":   func(w *webtest.World, _ url.Values) { w.Book.ApplyErr = rules.ErrPoolUsed },
	} {
		w := world(t, webtest.Full)
		b := w.As(access.RoleEditor)
		form := planned(t, b, "")
		meanwhile(w, form)
		page := b.Post("/console/import/apply", form)
		if name == "another file" {
			if page.Code != http.StatusUnprocessableEntity && page.Code != http.StatusConflict {
				t.Errorf("%s: %d", name, page.Code)
			}
		} else if page.Code != http.StatusConflict || !page.Has("Import plan", "refunds-per-user") || !strings.Contains(strings.ToLower(page.Body), "nothing was done") {
			t.Errorf("%s: %d", name, page.Code)
		}
		if len(w.Book.Applied) != 0 || w.Changes != 0 {
			t.Errorf("%s: it was done all the same", name)
		}
	}
}

func TestImport_AsksForThePasswordAndCarriesThePlanAlong(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleEditor)
	form := planned(t, b, "on")
	w.Clock.Add(11 * time.Minute)
	if page := b.Post("/console/import/apply", form); page.Code != http.StatusUnprocessableEntity || !page.Has("Confirm it is you", form.Get("sum")) || len(w.Book.Applied) != 0 {
		t.Fatalf("without the password: %d", page.Code)
	}
	form.Set("confirm_password", webtest.Password)
	if page := b.Post("/console/import/apply", form); page.Code != http.StatusSeeOther || len(w.Book.Applied) != 1 {
		t.Errorf("with it: %d", page.Code)
	}
}

func TestImport_ReadsAFileAndKeepsWhatIsNotValid(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleEditor)
	upload := func(text string) *httptest.ResponseRecorder {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		part, err := form.CreateFormFile("file", "rules.yaml")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = part.Write([]byte(text))
		_ = form.WriteField("text", "ignored: because there is a file")
		_ = form.Close()
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/console/import", &body)
		r.Header.Set("Content-Type", form.FormDataContentType())
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		for name, value := range b.Cookies() {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		out := httptest.NewRecorder()
		w.ServeHTTP(out, r)
		return out
	}
	if got := upload(webtest.SampleFile); got.Code != http.StatusOK || !strings.Contains(got.Body.String(), "refunds-per-user") {
		t.Errorf("a file: %d", got.Code)
	}
	bad := "rules:\n  - name: <script>alert(1)</script>\n    scope: user\n"
	if got := upload(bad); got.Code != http.StatusUnprocessableEntity || strings.Contains(got.Body.String(), "<script>alert") || !strings.Contains(got.Body.String(), "rules[0].name") || !strings.Contains(got.Body.String(), "&lt;script&gt;alert(1)") {
		t.Errorf("a bad file: %d\n%s", got.Code, got.Body)
	}
	if len(w.Book.Applied) != 0 {
		t.Error("something was imported")
	}
}

func TestExport_ImportsToNothingToDo(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleEditor)
	file := b.Get("/console/export")
	if file.Code != http.StatusOK || !strings.Contains(file.Header.Get("Content-Disposition"), "rules.yaml") {
		t.Fatalf("export: %d", file.Code)
	}
	if page := b.Post("/console/import", url.Values{"text": {file.Body}, "prune": {"on"}}); page.Code != http.StatusOK || !page.Has("Nothing to do") {
		t.Errorf("importing it: %d", page.Code)
	}
}

func TestTokens_ShowTheirSecretOnceAndEndAtOnce(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	page := b.Post("/console/tokens/new", url.Values{"name": {"<b>gate</b>"}, "days": {"30"}, "scope_check": {"on"}, "scope_rules_read": {"on"}})
	secret := regexp.MustCompile(`slk_[A-Za-z0-9_-]{43}`).FindString(page.Body)
	if page.Code != http.StatusOK || secret == "" || page.Has("<b>gate</b>") {
		t.Fatalf("made: %d", page.Code)
	}
	got := w.Tokens.List[len(w.Tokens.List)-1]
	if got.Hash != access.Hash(secret) || access.FormatScopes(got.Scopes) != "check,rules:read" || !got.ExpiresAt.Equal(webtest.Now.Add(30*24*time.Hour)) || got.CreatedBy != "ada" || w.Changes != 1 {
		t.Errorf("stored %v until %v by %s; %d reloads", got, got.ExpiresAt, got.CreatedBy, w.Changes)
	}
	if b.Get("/console/tokens").Has(secret) {
		t.Error("the list shows the secret")
	}
	if page := b.Post("/console/tokens/1/revoke", url.Values{}); page.Code != http.StatusSeeOther || w.Tokens.List[0].RevokedAt == nil || w.Changes != 2 {
		t.Errorf("revoking: %d", page.Code)
	}
	if page := b.Post("/console/tokens/1/revoke", url.Values{}); page.Code != http.StatusNotFound {
		t.Errorf("revoking again: %d", page.Code)
	}
	for _, form := range []url.Values{{"name": {"a"}, "days": {"7"}}, {"name": {"a"}, "days": {"-1"}, "scope_check": {"on"}}, {"name": {"ci"}, "days": {"0"}, "scope_check": {"on"}}, {"days": {"0"}, "scope_check": {"on"}}} {
		if page := b.Post("/console/tokens/new", form); page.Code != http.StatusUnprocessableEntity || page.Has("slk_") {
			t.Errorf("%v: %d", form, page.Code)
		}
	}
}

func TestAudit_IsFilteredPagedAndDownloaded(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	page := b.Get("/console/audit?actor=edda&action=import&kind=rule&from=2026-11-01&to=2026-11-21&subject=search")
	want := audit.Query{
		Actor: "edda", Action: "import", SubjectKind: "rule", Subject: "search", Limit: 51,
		Since: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC),
	}
	if page.Code != http.StatusOK || w.Log.Last != want {
		t.Errorf("asked for %+v", w.Log.Last)
	}
	if page = b.Get("/console/audit"); !page.Has("before=71", "2 fields: limit, fail_mode", "<del>100</del>", "<ins>120</ins>") {
		t.Error("the newest page lacks a diff, or the way to older ones")
	}
	if page = b.Get("/console/audit?before=71&action=nonsense&from=nonsense"); w.Log.Last.BeforeID != 71 || w.Log.Last.Action != "" || !page.Has("Older changes") {
		t.Errorf("older: asked for %+v", w.Log.Last)
	}
	w.Log.List[0].SubjectName, w.Log.List[0].Actor.Name = "=cmd()", "<script>x</script>"
	if page = b.Get("/console/audit"); page.Has("<script>x") {
		t.Error("a name is not escaped")
	}
	file := b.Get("/console/audit/download?format=csv")
	lines, err := csv.NewReader(strings.NewReader(file.Body)).ReadAll()
	if err != nil || len(lines) != 121 || lines[1][7] != "'=cmd()" || !strings.HasPrefix(file.Header.Get("Content-Type"), "text/csv") {
		t.Errorf("csv: %d lines, %v", len(lines), err)
	}
	if file = b.Get("/console/audit/download?format=json"); strings.Count(file.Body, "\n") != 120 {
		t.Errorf("json: %d lines", strings.Count(file.Body, "\n"))
	}
}

func TestSettings_AreShown(t *testing.T) {
	page := world(t, webtest.Full).As(access.RoleViewer).Get("/console/settings")
	if page.Code != http.StatusOK || !page.Has("--listen", "SLUICE_DATA_DIR", "/var/lib/sluice", "changed") {
		t.Errorf("got %d", page.Code)
	}
}
