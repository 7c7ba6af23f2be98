package transfer_test

import (
	"bytes"
	"context"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
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
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	form := planned(t, b, "on")
	form.Set("do", "all")
	if len(w.Book.Applied) != 0 {
		t.Fatal("looking at the plan carried it out")
	}
	if page := b.Post("/console/import/apply", form); page.Code != http.StatusSeeOther ||
		!b.Get("/console").Has("1 created, 1 changed, 11 deleted") {
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

func (c *clocked) SetReadDeadline(time.Time) error { c.read = true; return nil }

func (c *clocked) SetWriteDeadline(time.Time) error { return nil }

// TestImport_IsNotEndedByATimeToSend: the guard that asks for the password has read
// the form before the import begins. A deadline that is set after that ends the
// request's context, and a large import took longer.
func TestImport_IsNotEndedByATimeToSend(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
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
		w := webtest.Start(t, webtest.Full)
		b := w.As(access.RoleEditor)
		form := planned(t, b, "")
		meanwhile(w, form)
		page := b.Post("/console/import/apply", form)
		if name == "another file" {
			if page.Code != http.StatusUnprocessableEntity && page.Code != http.StatusConflict {
				t.Errorf("%s: %d", name, page.Code)
			}
		} else if page.Code != http.StatusConflict || !page.Has("Import plan",
			"refunds-per-user") || !strings.Contains(strings.ToLower(page.Body), "nothing was changed") {
			t.Errorf("%s: %d", name, page.Code)
		}
		if len(w.Book.Applied) != 0 || w.Changes != 0 {
			t.Errorf("%s: it was done all the same", name)
		}
	}
}

func TestImport_ProfilesAreInThePlan(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	export := b.Get("/console/export")
	if !export.Has("profiles:\n  - name: internal\n", "  - name: shop\n") {
		t.Errorf("the export has no profiles: %d\n%s", export.Code, export.Body)
	}
	plan := func(file string) webtest.Page {
		return b.Post("/console/import", url.Values{"text": {file}, "prune": {"on"}})
	}
	if page := plan(export.Body); !page.Has("Nothing to do") {
		t.Errorf("importing the export: %d\n%s", page.Code, page.Body)
	}
	page := plan("rules: []\nprofiles: [{name: shop, path: raw}, {name: mail, routes: [/a, /b]}]")
	if !page.Has("new profile", "facts: 0, routes: 2", "<ins>raw</ins>", "delete profile", "and 1 profile") {
		t.Errorf("the plan: %d\n%s", page.Code, page.Body)
	}
	if page := plan("rules: []"); page.Has("delete profile") {
		t.Errorf("a file without profiles deletes some:\n%s", page.Body)
	}
}

func TestImport_ThePlanTellsWhereFailModesOfNewRulesAreFrom(t *testing.T) {
	defaults, err := rules.ParseFailDefaults("POST=closed")
	if err != nil {
		t.Fatal(err)
	}
	w := webtest.Start(t, webtest.Full)
	d := w.Deps(nil)
	d.FailDefaults = defaults
	if err := w.Serve(d); err != nil {
		t.Fatal(err)
	}
	page := w.As(access.RoleEditor).Post("/console/import", url.Values{"prune": {""}, "text": {`rules:
  - {name: stores, method: POST, scope: ip, limit: 9, window_ms: 1000}
  - {name: says-so, method: POST, scope: ip, limit: 9, window_ms: 1000, fail_mode: local}`}})
	if !page.Has("fail_mode closed (from SLUICE_FAIL_DEFAULTS, POST=closed)") || page.Has("fail_mode local") {
		t.Errorf("the plan: %d\n%s", page.Code, page.Body)
	}
}

func TestImport_ThePlanTellsWhatRulesForEnvoyDo(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	page := w.As(access.RoleEditor).Post("/console/import", url.Values{"prune": {""}, "text": {`rules:
  - {name: tokens, descriptor: {domain: chat, entries: [{key: model}]}, limit: 9, window_ms: 1000,
     quota: true, addend: charge, replaces: [all, some]}`}})
	if !page.Has("9 per second", ", a quota, reports are charged, replaces all and some") {
		t.Errorf("the plan: %d\n%s", page.Code, page.Body)
	}
}

func TestImport_AsksForThePasswordAndCarriesThePlanAlong(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	form := planned(t, b, "on")
	w.Clock.Add(11 * time.Minute)
	if page := b.Post("/console/import/apply", form); page.Code != http.StatusUnprocessableEntity ||
		!page.Has("Confirm: ", form.Get("sum")) || len(w.Book.Applied) != 0 {
		t.Fatalf("without the password: %d", page.Code)
	}
	form.Set("confirm_password", webtest.Password)
	if page := b.Post("/console/import/apply", form); page.Code != http.StatusSeeOther || len(w.Book.Applied) != 1 {
		t.Errorf("with it: %d", page.Code)
	}
}

func TestImport_ReadsAFileAndKeepsWhatIsNotValid(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
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
	if got := upload(webtest.SampleFile); got.Code != http.StatusOK ||
		!strings.Contains(got.Body.String(), "refunds-per-user") {
		t.Errorf("a file: %d", got.Code)
	}
	bad := "rules:\n  - name: <script>alert(1)</script>\n    scope: user\n"
	if got := upload(bad); got.Code != http.StatusUnprocessableEntity ||
		strings.Contains(got.Body.String(), "<script>alert") || !strings.Contains(got.Body.String(), "rules[0].name") ||
		!strings.Contains(got.Body.String(), "&lt;script&gt;alert(1)") {
		t.Errorf("a bad file: %d\n%s", got.Code, got.Body)
	}
	if len(w.Book.Applied) != 0 {
		t.Error("something was imported")
	}
}

func TestExport_ImportsToNothingToDo(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	file := b.Get("/console/export")
	if file.Code != http.StatusOK || !strings.Contains(file.Header.Get("Content-Disposition"), "rules.yaml") {
		t.Fatalf("export: %d", file.Code)
	}
	if page := b.Post("/console/import", url.Values{"text": {file.Body}, "prune": {"on"}}); page.Code != http.StatusOK ||
		!page.Has("Nothing to do") {
		t.Errorf("importing it: %d", page.Code)
	}
}

// The plan says which edit of an algorithm loses what was spent.
func TestImport_ThePlanSaysWhatAnEditOfTheAlgorithmLoses(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleEditor)
	for to, loses := range map[string]bool{"concurrency": true, "token_bucket": false} {
		text := strings.Replace(webtest.SampleFile, "limit: 120", "limit: 120\n    algorithm: "+to, 1)
		page := b.Post("/console/import", url.Values{"text": {text}})
		if page.Code != http.StatusOK || page.Has("What was spent so far no longer counts") != loses {
			t.Errorf("to %s: %d\n%s", to, page.Code, page.Body)
		}
	}
}
