package rules

import (
	"reflect"
	"strings"
	"testing"

	"sluice/rules/entries"
	"sluice/rules/field"
	"sluice/rules/profile"

	"github.com/google/go-cmp/cmp"
)

func TestDiff_ListsChangedFieldsInOrder(t *testing.T) {
	before := rule(1, func(r *Rule) { r.Route = ptr("/a") })
	after := rule(2, func(r *Rule) {
		r.Name, r.Limit, r.Burst, r.Version, r.IsActive = before.Name, 9, ptr(int64(3)), 7, false
	})
	want := []field.Change{
		{Field: "route", Old: "/a", New: nil},
		{Field: "limit", Old: int64(5), New: int64(9)},
		{Field: "burst", Old: nil, New: int64(3)},
		{Field: "is_active", Old: true, New: false},
	}
	if d := cmp.Diff(want, Diff(&before, &after)); d != "" {
		t.Error(d)
	}
	if got := Diff(&before, &before); got != nil {
		t.Errorf("a rule differs from itself in %v", got)
	}
	if got := Diff(nil, &before); len(got) != 20 || got[0] != (field.Change{Field: "name", New: "rule-1"}) {
		t.Errorf("creation: got %v", got)
	}
}

func TestSummary_OfARuleForDescriptors(t *testing.T) {
	for want, edit := range map[string]func(*Rule){
		"5 per second (fixed_window) for shop: path=/pay, file=/a/*, user":          nil,
		"5 per second (fixed_window) for shop: path=/pay, file=/a/*, user (shadow)": func(r *Rule) { r.Mode = ModeShadow },
		"5 per second (fixed_window) for shop: path=/pay, file=/a/*, user (quota, shadow)": func(r *Rule) {
			r.Mode, r.Quota = ModeShadow, true
		},
		"unlimited for shop: path=/pay, file=/a/*, user":                              func(r *Rule) { r.Unlimited = true },
		"5 per second (fixed_window) for shop: path=/pay, file=/a/*, user (inactive)": func(r *Rule) { r.IsActive = false },
	} {
		r := rule(1, func(r *Rule) {
			r.Scope, r.Algorithm = "", "fixed_window"
			r.Descriptor = &RuleDescriptor{Domain: "shop", Entries: []entries.Element{{Key: "path", Value: "/pay"},
				{Key: "file", Pattern: "/a/*"}, {Key: "user"}}}
			if edit != nil {
				edit(r)
			}
		})
		if got := r.Summary(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Every editable field of Rule must be seen by Diff: one that is forgotten
// would be missing in history and left unapplied by a plan.
func TestDiff_SeesEveryEditableField(t *testing.T) {
	identity := map[string]bool{"id": true, "version": true, "created_at": true, "updated_at": true, "-": true}
	var want, got []string
	typ := reflect.TypeFor[Rule]()
	for i := range typ.NumField() {
		if name := typ.Field(i).Tag.Get("json"); !identity[name] {
			want = append(want, name)
		}
	}
	for _, f := range ruleFields {
		got = append(got, f.Name)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestMakePlan_ComparesByName(t *testing.T) {
	named := func(id int64, name string, limit int64) Rule {
		return rule(id, func(r *Rule) { r.Name, r.Limit, r.Version = name, limit, id*10 })
	}
	current := []Rule{named(1, "same", 5), named(2, "edited", 5), named(3, "gone", 5)}
	wanted := []Rule{named(0, "same", 5), named(0, "edited", 6), named(0, "new", 5)}
	p := MakePlan(current, wanted, true)
	want := Plan{
		Create: []Rule{wanted[2]},
		Update: []Edit{{Old: current[1], New: rule(2, func(r *Rule) { r.Name, r.Limit, r.Version = "edited", 6, 20 }),
			Changes: []field.Change{{Field: "limit", Old: int64(5), New: int64(6)}}}},
		Delete:    []Rule{current[2]},
		Renamed:   []RenamedRule{{From: "gone", To: "new"}},
		Unchanged: []Rule{current[0]},
		Pools:     PoolPlan{Create: []Pool{}, Update: []PoolEdit{}, Delete: []Pool{}},
		Profiles:  ProfilePlan{Create: []profile.Profile{}, Update: []ProfileEdit{}, Delete: []profile.Profile{}},
	}
	if d := cmp.Diff(want, p); d != "" {
		t.Error(d)
	}
	text := `+ new: 5 per second (sliding_window_counter) by user
~ edited
    limit: 5 -> 6
- gone
    warning: new is gone under another name, and its counters begin anew: rename the stored rule first to keep them
1 to create, 1 to update, 1 to delete, 1 unchanged
`
	if d := cmp.Diff(text, p.String()); d != "" {
		t.Error(d)
	}
	if p := MakePlan(current, wanted, false); len(p.Delete) != 0 || p.Empty() {
		t.Errorf("without prune: got %+v", p)
	}
	if p := MakePlan(current, current, true); !p.Empty() || len(p.Unchanged) != 3 {
		t.Errorf("of the same: got %+v", p)
	}
}

func TestSummary_SaysWhatTheRuleLimits(t *testing.T) {
	r := rule(1, func(r *Rule) {
		r.Route, r.Method, r.Mode, r.IsActive = ptr("/v1/charges"), ptr("POST"), ModeShadow, false
	})
	if got := r.Summary(); got != "5 per second (sliding_window_counter) by user on POST /v1/charges, shadow, inactive" {
		t.Errorf("got %s", got)
	}
}

func TestSummary_NamesTheCalendar(t *testing.T) {
	r := Rule{Name: "a", Scope: "user", Limit: 5, Algorithm: "fixed_window", Calendar: &Calendar{Every: "month"},
		IsActive: true}
	r.Normalize()
	if got := r.Summary(); got != "5 per calendar month (fixed_window) by user" {
		t.Errorf("got %s", got)
	}
}

func TestPlan_SaysThatARenamedRuleBeginsAnew(t *testing.T) {
	stored := []Rule{{ID: 1, Version: 3, Name: "a", Scope: "user", Limit: 5, WindowMS: 1000},
		{ID: 2, Version: 1, Name: "b", Scope: "user", Limit: 6, WindowMS: 1000}}
	wanted := []Rule{{Name: "c", Scope: "user", Limit: 5, WindowMS: 1000},
		{Name: "d", Scope: "ip", Limit: 6, WindowMS: 1000}}
	for i := range stored {
		stored[i].Normalize()
		wanted[i].Normalize()
	}
	p := MakePlan(stored, wanted, true)
	if len(p.Renamed) != 1 || p.Renamed[0] != (RenamedRule{From: "a", To: "c"}) {
		t.Fatalf("got %+v", p.Renamed)
	}
	if want := "    warning: c is a under another name, and its counters begin anew: rename the stored rule first to " +
		"keep them\n"; !strings.Contains(p.String(), want) {
		t.Errorf("got %s", &p)
	}
	if p := MakePlan(stored, wanted, false); p.Renamed != nil {
		t.Errorf("without prune: %+v", p.Renamed)
	}
}
