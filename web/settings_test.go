package web_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/web/webtest"
)

func TestSettings_AreShown(t *testing.T) {
	page := world(t, webtest.Full).As(access.RoleViewer).Get("/console/settings")
	if page.Code != http.StatusOK || !page.Has("--listen", "SLUICE_DATA_DIR", "/var/lib/sluice", "changed") {
		t.Errorf("got %d", page.Code)
	}
}

func TestSettings_AreFilteredByTextAndByWhatWasChanged(t *testing.T) {
	b := world(t, webtest.Full).As(access.RoleViewer)
	all := []string{"--listen", "--data-dir", "--database-url"}
	for query, want := range map[string][]string{
		"":                          all,
		"?q=":                       all,
		"?only=nothing":             all,
		"?q=LISTEN":                 {"--listen"},
		"?q=sluice_data":            {"--data-dir"},
		"?q=address+of":             {"--listen"},
		"?q=5432":                   {"--database-url"},
		"?q=rules+and":              {"--data-dir", "--database-url"},
		"?only=changed":             {"--data-dir", "--database-url"},
		"?only=changed&q=folder":    {"--data-dir"},
		"?only=changed&q=127.0.0.1": nil,
		"?q=<b>":                    nil,
	} {
		page := b.Get("/console/settings" + strings.ReplaceAll(query, "<b>", "%3Cb%3E"))
		var got []string
		for _, flag := range all {
			if page.Has("<code>" + flag + "</code>") {
				got = append(got, flag)
			}
		}
		if page.Code != http.StatusOK || !slices.Equal(got, want) || page.Has("<b>") ||
			page.Has("No setting matches these filters.") != (want == nil) ||
			page.Has(">Clear</a>") == slices.Contains([]string{"", "?q="}, query) {
			t.Errorf("%q: %d, settings %q, want %q", query, page.Code, got, want)
		}
	}
	page := b.Get("/console/settings?q=folder&only=changed")
	if !page.Has(`name="q" value="folder"`, `<option value="changed" selected>`) {
		t.Error("the form forgets its filters")
	}
}
