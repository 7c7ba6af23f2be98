package transfer_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/rules/rulefile"
	"sluice/web/webtest"
)

// upload posts a file as a browser does.
func upload(t *testing.T, w *webtest.World, b *webtest.Browser, path, file string, fields url.Values) webtest.Page {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "file")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write([]byte(file))
	for name, values := range fields {
		_ = form.WriteField(name, values[0])
	}
	_ = form.Close()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, &body)
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for name, value := range b.Cookies() {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	out := httptest.NewRecorder()
	w.ServeHTTP(out, r)
	return webtest.Page{Code: out.Code, Header: out.Header(), Body: out.Body.String()}
}

// longFile has n rules in more than a megabyte.
func longFile(n int) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - name: new-%06d\n    scope: user\n    limit: 5\n    window_ms: 1000\n    description: %q\n", i,
			strings.Repeat("x", 1000))
	}
	return b.String()
}

// TestImport_LongFilesWaitOnTheNode: a file of 1,200 rules is planned and applied
// without sending it twice, and the page of its plan stays small.
func TestImport_LongFilesWaitOnTheNode(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	page := upload(t, w, b, "/console/import", longFile(1200), nil)
	if page.Code != http.StatusOK || !page.Has("1,200", "and 1,000 more not listed here") || len(page.Body) > 256<<10 {
		t.Fatalf("the plan: %d, %d bytes", page.Code, len(page.Body))
	}
	form := url.Values{"upload": {page.Field("upload")}, "sum": {page.Field("sum")}, "do": {"changes"}}
	stranger := w.As(access.RoleAdmin)
	if page := stranger.Post("/console/import/apply", form); page.Code != http.StatusUnprocessableEntity ||
		!page.Has("no longer on this node") {
		t.Errorf("another account: %d", page.Code)
	}
	w.Clock.Add(9 * time.Minute)
	if page := b.Post("/console/import/apply", form); page.Code != http.StatusSeeOther || len(w.Book.Applied) != 1 ||
		w.Book.Applied[0] != "edda: 1200 created, 0 updated, 0 deleted" {
		t.Fatalf("applied: %d, %q", page.Code, w.Book.Applied)
	}
	if page := b.Post("/console/import/apply", form); page.Code != http.StatusUnprocessableEntity ||
		!page.Has("no longer on this node") {
		t.Errorf("once more: %d", page.Code)
	}
}

// TestImport_NamesItsBounds: a file beyond them is 413 with the bound.
func TestImport_NamesItsBounds(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	many := `{"rules": [{}` + strings.Repeat(",{}", rulefile.MaxFileRules) + "]}"
	if page := upload(t, w, b, "/console/import", many, nil); page.Code != http.StatusRequestEntityTooLarge ||
		!page.Has("more than 100000 rules") {
		t.Errorf("too many rules: %d", page.Code)
	}
	large := strings.Repeat(" ", rulefile.MaxFile+2<<20)
	if page := upload(t, w, b, "/console/import", large, nil); page.Code != http.StatusRequestEntityTooLarge ||
		!page.Has("64 MiB and 100,000 rules") || len(page.Body) > 64<<10 {
		t.Errorf("too many bytes: %d, %d bytes", page.Code, len(page.Body))
	}
}

// TestImport_DeletesOnlyByItsOwnButton: what is harmless can be done without the
// deletions, and rules that the file does not name are counted as they stay.
func TestImport_DeletesOnlyByItsOwnButton(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	if page := b.Post("/console/import", url.Values{"text": {webtest.SampleFile}}); !page.Has("11 not in the file") ||
		page.Has("Delete 11") {
		t.Error("the rules that stay are not counted, or are to be deleted")
	}
	form := planned(t, b, "on")
	page := b.Post("/console/import", url.Values{"text": {webtest.SampleFile}, "prune": {"on"}})
	if !page.Has("Apply without deleting", "Apply and delete 11 rules", `popover role="dialog"`, `name="do" value="all"`) {
		t.Error("deletions have no button of their own")
	}
	form.Set("do", "changes")
	if page := b.Post("/console/import/apply", form); page.Code != http.StatusSeeOther ||
		w.Book.Applied[0] != "edda: 1 created, 1 updated, 0 deleted" {
		t.Errorf("without deleting: %d, %q", page.Code, w.Book.Applied)
	}
}

// TestOverrideImport_TakesAFileAndNamesEveryFault: of cells that cannot be read and
// of lines that are not allowed alike, in order.
func TestOverrideImport_TakesAFileAndNamesEveryFault(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	const path = "/console/rules/1/overrides/import"
	good := upload(t, w, b, path, "key,limit\nuser:77,500\n", url.Values{"do": {"plan"}})
	if good.Code != http.StatusOK || !good.Has("The import creates 1", "user:77,500") {
		t.Fatalf("a file: %d", good.Code)
	}
	bad := "key,limit\n" + strings.Repeat("user:1,many\n", 1200)
	page := upload(t, w, b, path, bad, url.Values{"do": {"plan"}})
	if page.Code != http.StatusUnprocessableEntity || !page.Has("line[2].limit", "line[1001].limit", "user:1,many") ||
		page.Has("line[1002].limit") {
		t.Errorf("a bad file: %d", page.Code)
	}
}
