package web_test

import (
	"html"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/webtest"
)

// carried is the value of a hidden field of a page.
func carried(t *testing.T, page webtest.Page, name string) string {
	t.Helper()
	_, rest, found := strings.Cut(page.Body, `name="`+name+`" value="`)
	value, _, _ := strings.Cut(rest, `"`)
	if !found {
		t.Fatalf("no field %s: %d\n%s", name, page.Code, page.Body)
	}
	return html.UnescapeString(value)
}

func TestBulkAll_AsksThenChangesWhatIsAsItWasSeen(t *testing.T) {
	w := world(t, webtest.Full)
	w.Rules.List = webtest.ManyRules(1200)
	b := w.As(access.RoleEditor)
	const back = "/console/rules?fail_mode=closed&q=per&state=on"
	if page := b.Get(back); !page.Has(`name="all"`) {
		t.Error("the list does not offer all")
	}
	want := 0
	for i := range w.Rules.List {
		r := &w.Rules.List[i]
		if r.Version = 1; r.FailMode == rules.FailClosed && r.IsActive && strings.Contains(r.Name, "per") {
			want++
		}
	}
	page := b.Post("/console/rules/bulk", url.Values{"act": {"off"}, "all": {"1"}, "back": {back}})
	if count := "Turn off " + strconv.Itoa(want) + " rules?"; page.Code != http.StatusOK || !page.Has(count, "that fail closed", "that are on", "“per”") {
		t.Fatalf("%d, want %s\n%s", page.Code, count, page.Body)
	}
	for i := range w.Rules.List {
		if r := &w.Rules.List[i]; r.Version != 1 {
			t.Fatalf("asking changed %s", r.Name)
		}
	}
	seen := carried(t, page, "seen")
	first, _, _ := strings.Cut(seen, ".")
	id, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	meanwhile, err := w.Rules.GetRule(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	meanwhile.Limit = 4711
	if _, err := w.Rules.UpdateRule(t.Context(), rules.Actor{Kind: "user", Name: "ada"}, meanwhile, 0); err != nil {
		t.Fatal(err)
	}
	page = b.Post("/console/rules/bulk", url.Values{"act": {"off"}, "seen": {seen}, "back": {back}})
	if page.Code != http.StatusSeeOther || page.Header.Get("Location") != back {
		t.Fatalf("%d to %s", page.Code, page.Header.Get("Location"))
	}
	if page := b.Get(back); !page.Has(strconv.Itoa(want-1)+" rules are off now.", "Left alone: "+meanwhile.Name+" (someone changed it meanwhile)") {
		t.Errorf("the flash says otherwise\n%s", page.Body)
	}
	off := 0
	for i := range w.Rules.List {
		r := &w.Rules.List[i]
		if r.Version == 2 && !r.IsActive {
			off++
			if r.FailMode != rules.FailClosed || w.Rules.Revisions[r.ID][0].Actor.Name != "edda" {
				t.Fatalf("%s was turned off by %v", r.Name, w.Rules.Revisions[r.ID][0].Actor)
			}
		}
	}
	if now, err := w.Rules.GetRule(t.Context(), id); err != nil || !now.IsActive || now.Limit != 4711 || off != want-1 {
		t.Errorf("%d are off, want %d; what ada changed is %+v", off, want-1, now)
	}
	if w.Changes != 1 {
		t.Errorf("%d changes were told of, want one", w.Changes)
	}
}

func TestBulkAll_IsBoundedAndRefusesNonsense(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleEditor)
	for _, seen := range []string{"1", "x.1", "1.x", "1.1.1", "-", strings.Repeat("1.1 ", rules.MaxBulk+1)} {
		if page := b.Post("/console/rules/bulk", url.Values{"act": {"off"}, "seen": {seen}}); page.Code != http.StatusBadRequest {
			t.Errorf("%.20q: %d", seen, page.Code)
		}
	}
	w.Rules.Err = rules.ErrUnavailable
	for _, form := range []url.Values{{"act": {"off"}, "seen": {"1.1"}}, {"act": {"off"}, "all": {"1"}}} {
		if page := b.Post("/console/rules/bulk", form); page.Code != http.StatusServiceUnavailable || !page.Has("Send again") {
			t.Errorf("without the database: %d", page.Code)
		}
	}
	w.Rules.Err = nil
	if page := b.Post("/console/rules/bulk", url.Values{"act": {"enforce"}, "all": {"1"}, "back": {"/console/rules?mode=enforce"}}); !page.Has("Nothing to change") {
		t.Errorf("what is so already: %d", page.Code)
	}
	w.Rules.List = webtest.ManyRules(rules.MaxBulk + 1)
	if page := b.Post("/console/rules/bulk", url.Values{"act": {"off"}, "all": {"1"}, "back": {"/console/rules"}}); page.Code != http.StatusUnprocessableEntity || !page.Has("Too many rules at once") || page.Has(`name="seen"`) {
		t.Errorf("too many: %d", page.Code)
	}
	if w.Changes != 0 {
		t.Error("something was changed")
	}
}
