package rules

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"sluice/rules/entries"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestDiff_ListsChangedFieldsInOrder(t *testing.T) {
	before := rule(1, func(r *Rule) { r.Route = ptr("/a") })
	after := rule(2, func(r *Rule) {
		r.Name, r.Limit, r.Burst, r.Version, r.IsActive = before.Name, 9, ptr(int64(3)), 7, false
	})
	want := []Change{
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
	if got := Diff(nil, &before); len(got) != 19 || got[0] != (Change{Field: "name", New: "rule-1"}) {
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

func TestDiff_ValuesAreThoseOfTheJSONForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := genRule(1).Draw(t, "rule")
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		for _, f := range ruleFields {
			got, want := f.Value(&r), m[f.Name]
			if n, ok := got.(int64); ok {
				got = float64(n)
			}
			if got != want {
				t.Fatalf("%s: got %v, want %v", f.Name, got, want)
			}
		}
	})
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
			Changes: []Change{{Field: "limit", Old: int64(5), New: int64(6)}}}},
		Delete:    []Rule{current[2]},
		Unchanged: []Rule{current[0]},
		Pools:     PoolPlan{Create: []Pool{}, Update: []PoolEdit{}, Delete: []Pool{}},
		Profiles:  ProfilePlan{Create: []Profile{}, Update: []ProfileEdit{}, Delete: []Profile{}},
	}
	if d := cmp.Diff(want, p); d != "" {
		t.Error(d)
	}
	text := `+ new: 5 per second (sliding_window_counter) by user
~ edited
    limit: 5 -> 6
- gone
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

// genFileRule draws rules with every field that a file can carry.
func genFileRule(id int64) *rapid.Generator[Rule] {
	text := rapid.OneOf(
		rapid.StringOfN(rapid.RuneFrom([]rune(`aZ0 :#'"{}[],&*!|>%@\-?~é🙂`)), 0, 20, 60),
		rapid.SampledFrom([]string{"true", "null", "~", "- a", "a: b", "1", "1e3", "0x1", "yes", "#x", "x #y", "'", `"`, "a:",
			"=", "<<"}),
	)
	return rapid.Custom(func(t *rapid.T) Rule {
		r := genRule(id).Draw(t, "rule")
		r.Description = text.Draw(t, "description")
		r.Owner = rapid.Ptr(text, true).Draw(t, "owner")
		if rapid.Bool().Draw(t, "odd name") {
			r.Name = rapid.SampledFrom([]string{"true", "null", "1", "0x1f", "1e3", "no", "1.5", "2026-11-21", "a-", "0b1",
				"1_000"}).Draw(t, "name")
		}
		if rapid.Bool().Draw(t, "odd route") {
			r.Route = ptr("/" + strings.Join(rapid.SliceOfN(rapid.StringMatching(`[a-zé: #,&!|>'"@~=-]{1,5}[a-z]`), 1, 3).Draw(t,
				"route"), "/"))
		}
		if r.Algorithm == "fixed_window" {
			r.Align = rapid.Ptr(rapid.SampledFrom([]string{"calendar"}), true).Draw(t, "align")
			r.AnchorMS = rapid.Ptr(rapid.Int64Range(-1000, 1000), true).Draw(t, "anchor")
		}
		if r.Algorithm == "gcra" {
			r.Burst = rapid.Ptr(rapid.Int64Range(0, 1000), true).Draw(t, "burst")
		}
		r.Mode = rapid.SampledFrom([]string{ModeEnforce, ModeShadow}).Draw(t, "mode")
		r.FailMode = rapid.SampledFrom([]string{FailOpen, FailClosed, FailLocal}).Draw(t, "fail mode")
		r.Normalize()
		return r
	})
}

func TestSummary_NamesTheCalendar(t *testing.T) {
	r := Rule{Name: "a", Scope: "user", Limit: 5, Algorithm: "fixed_window", Calendar: &Calendar{Every: "month"},
		IsActive: true}
	r.Normalize()
	if got := r.Summary(); got != "5 per calendar month (fixed_window) by user" {
		t.Errorf("got %s", got)
	}
}
