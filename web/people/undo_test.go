package people_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/rules"
	"sluice/web/webtest"
)

var ada = rules.Actor{Kind: "user", Name: "ada"}

// undoable are the changes that offer to be undone: where a form goes, and what it changes.
var undoable = []struct {
	name, path string
	form       url.Values
	// state describes the changed rule or overrides.
	state func(w *webtest.World) string
}{
	{"shadow", "/console/rules/2/state", url.Values{"to": {"shadow"}, "version": {"1"}}, rule2},
	{"disable", "/console/rules/2/state", url.Values{"to": {"off"}, "version": {"1"}}, rule2},
	{"block a key", "/console/keys/override", url.Values{"rule": {"charges-per-user"}, "key": {"user:43"},
		"does": {"blocked"}}, overrides},
	{"create an override", "/console/rules/1/overrides", url.Values{"key": {"user:77"}, "kind": {"unlimited"}}, overrides},
	{"edit an override", "/console/rules/1/overrides/1", url.Values{"key": {"user:acme-*"}, "kind": {"blocked"},
		"version": {"1"}}, overrides},
	{"delete an override", "/console/rules/1/overrides/2/delete", url.Values{"version": {"1"}}, overrides},
	{"selected rules", "/console/rules/bulk", url.Values{"act": {"off"}, "rule": {"1", "2", "3"}}, active},
}

func rule2(w *webtest.World) string {
	r := w.Rules.List[1]
	return fmt.Sprint(r.Mode, r.IsActive, r.Limit)
}

func overrides(w *webtest.World) string {
	var out []string
	for _, o := range w.Overrides.List {
		limit := int64(-1)
		if o.Limit != nil {
			limit = *o.Limit
		}
		out = append(out, fmt.Sprint(o.Key, o.Blocked, o.Unlimited, limit, o.Reason, o.ExpiresAt))
	}
	return fmt.Sprint(len(out), strings.Contains(strings.Join(out, "\n"), "user:42true")) + out[0]
}

func active(w *webtest.World) string {
	var out []bool
	for _, r := range w.Rules.List {
		out = append(out, r.IsActive)
	}
	return fmt.Sprint(out)
}

// versions sets the versions of the sample to 1, for the forms above.
func versions(w *webtest.World) {
	for i := range w.Rules.List {
		r := &w.Rules.List[i]
		w.Rules.Revisions[r.ID] = w.Rules.Revisions[r.ID][len(w.Rules.Revisions[r.ID])-1:]
		r.Version = 1
		w.Rules.Revisions[r.ID][0].Rule = r.Clone()
	}
}

// change makes a change, and returns the page after it.
func change(t *testing.T, b *webtest.Browser, path string, form url.Values) webtest.Page {
	t.Helper()
	page := b.Post(path, form)
	if page.Code != http.StatusSeeOther {
		t.Fatalf("%s: %d\n%s", path, page.Code, page.Body)
	}
	return b.Get(page.Header.Get("Location"))
}

func TestUndo_ChangesBackWithinHalfAMinute(t *testing.T) {
	for _, c := range undoable {
		t.Run(c.name, func(t *testing.T) {
			w := webtest.Start(t, webtest.Full)
			versions(w)
			b := w.As(access.RoleEditor)
			before := c.state(w)
			page := change(t, b, c.path, c.form)
			if c.state(w) == before {
				t.Fatal("nothing was changed")
			}
			if !page.Has(`action="/console/undo" data-goes="30000"`) {
				t.Fatalf("no offer:\n%s", page.Body)
			}
			entry, changes := w.Log.List[0], w.Changes
			undo := url.Values{"to": {page.Field("to")}, "back": {"/console/rules?q=per"}}
			w.Clock.Add(30 * time.Second)
			page = b.Post("/console/undo", undo)
			if page.Code != http.StatusSeeOther || page.Header.Get("Location") != "/console/rules?q=per" {
				t.Fatalf("%d\n%s", page.Code, page.Body)
			}
			if got := c.state(w); got != before {
				t.Errorf("now %s, was %s", got, before)
			}
			if e := w.Log.List[0]; e.Undoes() != entry.ID || e.ID == entry.ID || e.Actor.Name != "edda" {
				t.Errorf("the entry is %+v, want one that undoes %d", e, entry.ID)
			}
			if w.Changes != changes+1 {
				t.Error("the node does not know of the undoing")
			}
			if page := b.Get("/console/rules"); !page.HasAny("as they were before", "as it was before") ||
				page.Has("/console/undo") {
				t.Errorf("the message:\n%s", page.Body)
			}
			// A second press finds that it was undone.
			entries := len(w.Log.List)
			if page := b.Post("/console/undo", undo); page.Code != http.StatusPreconditionFailed ||
				len(w.Log.List) != entries {
				t.Errorf("again: %d\n%s", page.Code, page.Body)
			}
		})
	}
}

func TestUndo_IsForTheOneWhoMadeTheChangeAndForHalfAMinute(t *testing.T) {
	for _, c := range undoable {
		t.Run(c.name, func(t *testing.T) {
			w := webtest.Start(t, webtest.Full)
			versions(w)
			b, other := w.As(access.RoleEditor), w.As(access.RoleAdmin)
			page := change(t, b, c.path, c.form)
			after, entries := c.state(w), len(w.Log.List)
			undo := url.Values{"to": {page.Field("to")}}
			refused := func(who *webtest.Browser) {
				t.Helper()
				page := who.Post("/console/undo", undo)
				if page.Code != http.StatusPreconditionFailed || !page.Has("This can no longer be undone", "30 seconds") {
					t.Errorf("%d\n%s", page.Code, page.Body)
				}
				if c.state(w) != after || len(w.Log.List) != entries {
					t.Error("it was undone")
				}
			}
			refused(other)
			w.Log.List[0].Actor.Name = "eddard" // whose name begins with edda
			refused(b)
			w.Log.List[0].Actor.Name = "edda"
			w.Clock.Add(30*time.Second + time.Millisecond)
			refused(b)
		})
	}
	w := webtest.Start(t, webtest.Full)
	versions(w)
	b := w.As(access.RoleEditor)
	if page := b.Post("/console/rules/2/state", undoable[0].form); page.Code != http.StatusSeeOther {
		t.Fatal(page.Code)
	}
	w.Clock.Add(12 * time.Second)
	if page := b.Get("/console/rules/2"); !page.Has(`data-goes="18000"`) {
		t.Errorf("12 s later, the offer does not last 18 s:\n%s", page.Body)
	}
	if page := b.Post("/console/rules/2/state", url.Values{"to": {"off"}, "version": {"2"}}); page.Code !=
		http.StatusSeeOther {
		t.Fatal(page.Code)
	}
	w.Clock.Add(30 * time.Second)
	if page := b.Get("/console/rules/2"); !page.Has("disabled") || page.Has("/console/undo") {
		t.Error("the offer outlives its time")
	}
}

func TestUndo_RefusesWhatWasChangedSince(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	versions(w)
	b := w.As(access.RoleEditor)
	page := change(t, b, "/console/rules/2/state", undoable[0].form)
	r := w.Rules.List[1].Clone()
	r.Limit = 4711
	if _, err := w.Rules.UpdateRule(t.Context(), ada, r, 2); err != nil {
		t.Fatal(err)
	}
	page = b.Post("/console/undo", url.Values{"to": {page.Field("to")}})
	if page.Code != http.StatusPreconditionFailed || !page.Has("Changed in the meantime", "nothing was undone") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	if r := w.Rules.List[1]; r.Limit != 4711 || r.Mode != rules.ModeShadow || r.Version != 3 {
		t.Errorf("the rule is %+v", r)
	}
	page = change(t, b, "/console/rules/1/overrides/2/delete", url.Values{"version": {"1"}})
	if _, err := w.Overrides.CreateOverride(t.Context(), ada, rules.Override{RuleID: 1, Key: "user:42", Unlimited: true},
		w.Sets.Load().Options()); err != nil {
		t.Fatal(err)
	}
	page = b.Post("/console/undo", url.Values{"to": {page.Field("to")}})
	if page.Code != http.StatusPreconditionFailed || !page.Has("Changed in the meantime") || len(w.Overrides.List) != 3 {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	for _, to := range []string{"", "rule", "rule.1.0", "rule.1.0.x", "rule.-1.0.2", "token.1.0.2", "rule.1.0.2.3"} {
		if page := b.Post("/console/undo", url.Values{"to": {to}}); page.Code != http.StatusBadRequest {
			t.Errorf("%q: %d", to, page.Code)
		}
	}
	w.Log.Err = rules.ErrUnavailable
	if page := b.Post("/console/undo", url.Values{"to": {"rule.2.0.2"}}); page.Code != http.StatusServiceUnavailable ||
		!page.Has("Send again") {
		t.Errorf("without the database: %d", page.Code)
	}
}

func TestUndo_IsNotOfferedForWhatChangedNothing(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	versions(w)
	b := w.As(access.RoleEditor)
	page := change(t, b, "/console/rules/bulk", url.Values{"act": {"on"}, "rule": {"1", "2"}})
	if !page.Has("2 rules are already enabled.") || page.Has("/console/undo") {
		t.Errorf("the page is\n%s", page.Body)
	}
	change(t, b, "/console/rules/2/state", undoable[0].form)
	// The offer belongs to one message. A later message without an offer replaces both.
	b.Post("/console/rules/2/state", url.Values{"to": {"off"}, "version": {"2"}})
	b.Post("/console/rules/bulk", url.Values{"act": {"none"}})
	if page := b.Get("/console/rules"); !page.Has("Nothing was changed.") || page.Has("/console/undo") {
		t.Errorf("the page is\n%s", page.Body)
	}
}

func TestUndoAll_UndoesWhatIsAsTheEditLeftItAndNamesTheRest(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	versions(w)
	change(t, w.As(access.RoleEditor), "/console/rules/bulk", url.Values{"act": {"shadow"}, "rule": {"1", "2", "4"}})
	entry := w.Log.List[0]
	if entry.SubjectKind != audit.SubjectBulk || entry.Bulk().Rules != 3 {
		t.Fatalf("the entry is %+v", entry)
	}
	r := w.Rules.List[1].Clone()
	r.Limit = 4711
	if _, err := w.Rules.UpdateRule(t.Context(), ada, r, 2); err != nil {
		t.Fatal(err)
	}
	w.Clock.Add(48 * time.Hour)
	b, other := w.As(access.RoleEditor), w.As(access.RoleAdmin)
	path := fmt.Sprintf("/console/audit/%d/undo", entry.ID)
	page := b.Get("/console/audit?kind=bulk")
	if !page.Has("1 field of 3 rules: mode", "3 rules", `href="/console/rules/4"`, `href="`+path+`"`, "Undo all") {
		t.Errorf("the entry:\n%s", page.Body)
	}
	if page := w.As(access.RoleViewer).Get("/console/audit?kind=bulk"); page.Has("Undo all") {
		t.Error("a viewer is offered to undo")
	}
	page = b.Get(path)
	if page.Code != http.StatusOK || !page.Has("Undo the edit of 2 rules?", "charges-per-user",
		"Skipped: search-per-user (changed in the meantime)", "<del>shadow</del>", "<ins>enforce</ins>") {
		t.Fatalf("%d\n%s", page.Code, page.Body)
	}
	if w.Rules.List[0].Mode != rules.ModeShadow {
		t.Fatal("asking changed a rule")
	}
	page = change(t, other, path, url.Values{})
	if !page.Has("2 rules are as they were before.", "Skipped: search-per-user (changed in the meantime)",
		"Undoes an earlier change", fmt.Sprintf("/console/audit?before=%d", entry.ID+1)) || page.Has("/console/undo") {
		t.Errorf("the message:\n%s", page.Body)
	}
	for i, want := range map[int]string{0: "enforce v3", 1: "shadow v3", 3: "enforce v3"} {
		if r := w.Rules.List[i]; fmt.Sprintf("%s v%d", r.Mode, r.Version) != want {
			t.Errorf("%s is %s v%d, want %s", r.Name, r.Mode, r.Version, want)
		}
	}
	if e := w.Log.List[0]; e.Undoes() != entry.ID || e.Actor.Name != "ada" || e.Bulk().Rules != 2 {
		t.Errorf("the entry is %+v", e)
	}
	// The other person learns that nothing is left.
	entries := len(w.Log.List)
	page = b.Post(path, url.Values{})
	if page.Code != http.StatusPreconditionFailed || len(w.Log.List) != entries || !page.Has("Nothing is left to undo",
		"2 rules already were.", "Skipped: search-per-user") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	if page := b.Get(path); page.Code != http.StatusOK || !page.Has("Nothing is left to undo") ||
		strings.Contains(page.Body, `<form class="actions" method="post"`) {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	for _, missing := range []string{"/console/audit/1/undo", "/console/audit/x/undo", "/console/audit/99999/undo"} {
		if page := b.Get(missing); page.Code != http.StatusNotFound {
			t.Errorf("%s: %d", missing, page.Code)
		}
	}
}
