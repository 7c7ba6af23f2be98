package envoyfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/rules"
	"sluice/rules/field"
)

const shop = `
domain: shop
descriptors:
- key: path
  value: /pay
  rate_limit: {unit: minute, requests_per_unit: 5, name: pay}
- key: user
  rate_limit: {unit: hour, requests_per_unit: 100, replaces: [{name: pay}]}
`

// stored is what an import of shop has stored, with the changes of edit.
func stored(t *testing.T, edit func(list []rules.Rule)) []rules.Rule {
	t.Helper()
	list := created(t, parse(t, shop, Options{}))
	for i := range list {
		list[i].ID, list[i].Version = int64(i+1), 1
	}
	if edit != nil {
		edit(list)
	}
	for i := range list {
		list[i].Normalize()
		if err := rules.Validate(&list[i]); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// changes lists what a plan does: "+name", "-name" and "~name.field".
func changes(p *rules.Plan) (out []string) {
	for i := range p.Create {
		out = append(out, "+"+p.Create[i].Name)
	}
	for i := range p.Delete {
		out = append(out, "-"+p.Delete[i].Name)
	}
	for i := range p.Update {
		for _, c := range p.Update[i].Changes {
			out = append(out, "~"+p.Update[i].New.Name+"."+c.Field)
		}
	}
	return out
}

func TestPlan_ChangesOnlyWhatTheFilesSay(t *testing.T) {
	pay := stored(t, nil)[0].Name
	if pay == "shop.user" {
		t.Fatal("the rules are in another order")
	}
	less, _, _ := strings.Cut(shop, "- key: user")
	ptr := func(n int64) *int64 { return &n }
	own := "payments"
	for name, test := range map[string]struct {
		edit func(list []rules.Rule)
		file string
		opt  Options
		keep bool
		want []string
	}{
		"the same": {},
		"a limit changes": {
			file: strings.Replace(shop, ": 5", ": 6", 1), want: []string{"~" + pay + ".limit"},
		},
		"a unit changes": {
			file: strings.Replace(shop, "hour", "day", 1), want: []string{"~shop.user.window_ms"},
		},
		"a descriptor is gone": {
			file: less, want: []string{"-shop.user"},
		},
		"a descriptor is gone, but kept": {file: less, keep: true},
		"all are gone": {
			file: "domain: shop", want: []string{"-" + pay, "-shop.user"},
		},
		"a descriptor is added": {
			file: shop + "- {key: c, rate_limit: {unlimited: true}}\n", want: []string{"+shop.c"},
		},
		"another domain": {
			file: "domain: other\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]",
			want: []string{"+other.a"},
		},
		"what people edit stays": {
			edit: func(list []rules.Rule) {
				list[0].Description, list[0].Owner, list[0].FailMode, list[0].IsActive = "ours", &own, "closed", false
				list[0].Throttle, list[0].SoftPercent, list[0].RetryJitterMS = "soft", ptr(10), ptr(100)
				list[1].Algorithm, list[1].Burst, list[1].Align, list[1].Addend = "token_bucket", ptr(7), nil, "take"
			},
		},
		"what the files say does not": {
			edit: func(list []rules.Rule) {
				list[0].Mode, list[0].Limit, list[0].Quota = "shadow", 9, true
				list[0].Metadata, list[0].Replaces = map[string]string{"a": "b"}, []string{"shop.user"}
			},
			want: []string{"~" + pay + ".limit", "~" + pay + ".quota", "~" + pay + ".replaces", "~" + pay + ".metadata",
				"~" + pay + ".mode"},
		},
		"people rename a rule": {
			edit: func(list []rules.Rule) { list[0].Name, list[1].Replaces = "pay", []string{"pay"} },
		},
		"people rename a rule that another replaces": {
			edit: func(list []rules.Rule) { list[0].Name = "pay" }, want: []string{"~shop.user.replaces"},
		},
		"a calendar stays": {
			edit: func(list []rules.Rule) {
				list[1].Calendar = &rules.Calendar{Every: "month", Zone: "Europe/Berlin"}
				list[1].Align, list[1].WindowMS = nil, 0
			},
		},
		"another algorithm": {
			opt: Options{Algorithm: "token_bucket"},
			want: []string{"~" + pay + ".algorithm", "~" + pay + ".align", "~shop.user.algorithm",
				"~shop.user.align"},
		},
		"concurrency": {
			opt: Options{Algorithm: "concurrency"},
			want: []string{"~" + pay + ".algorithm", "~" + pay + ".align", "~" + pay + ".addend", "~shop.user.algorithm",
				"~shop.user.align", "~shop.user.addend"},
		},
		"the algorithm that people chose, with their burst": {
			opt: Options{Algorithm: "token_bucket"},
			edit: func(list []rules.Rule) {
				for i := range list {
					list[i].Algorithm, list[i].Burst, list[i].Align = "token_bucket", ptr(7), nil
				}
			},
		},
	} {
		list := stored(t, test.edit)
		others := []rules.Rule{{ID: 8, Name: "ordinary", Scope: "ip", Limit: 1, WindowMS: 1000}, one(func(r *rules.Rule) {
			r.ID, r.Name, r.Descriptor.Domain = 9, "elsewhere", "elsewhere"
		})}
		if test.file == "" {
			test.file = shop
		}
		in := parse(t, test.file, test.opt)
		plan, err := in.Plan(append(others, list...), test.keep)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(test.want, changes(&plan)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if plan.Untouched < len(others) {
			t.Errorf("%s: %d rules stay", name, plan.Untouched)
		}
		after := slices.Concat(others, plan.Create, plan.Unchanged)
		for i := range plan.Update {
			after = append(after, plan.Update[i].New)
		}
		again, err := in.Plan(after, test.keep)
		if err != nil || !again.Empty() {
			t.Errorf("%s: importing again: %v\n%s", name, err, again.String())
		}
	}
}

func TestNotes_NameTheRulesThatStayDisabled(t *testing.T) {
	in := parse(t, shop, Options{})
	list := stored(t, func(list []rules.Rule) { list[1].IsActive = false })
	other := one(func(r *rules.Rule) { r.IsActive, r.Descriptor.Domain = false, "elsewhere" })
	notes := in.Notes(append(list, other, rules.Rule{Name: "ordinary"}))
	want := "line 7: the rule shop.user is disabled and stays disabled; enable it to have its limit applied"
	if len(notes) != 1 || notes[0].String() != want {
		t.Errorf("%v", notes)
	}
	twin := list[1].Clone()
	if twin.IsActive = true; len(in.Notes(append(list, twin))) != 0 {
		t.Error("an active rule with the descriptor applies")
	}
	if len(in.Notes(stored(t, nil))) != 0 {
		t.Error("no rule is disabled")
	}
}

func TestNotes_NameTheRulesWhoseCalendarStays(t *testing.T) {
	list := stored(t, func(list []rules.Rule) {
		list[1].Calendar = &rules.Calendar{Every: "month", Zone: "Europe/Berlin"}
		list[1].Align, list[1].WindowMS = nil, 0
		list[1].Normalize()
	})
	for unit, want := range map[string]string{
		"unit: month": "",
		"unit: day": "line 7: the rule shop.user has a calendar of every month, which stays, so the window of the file, " +
			"day, is not imported; remove the calendar to import it",
		"unit: month, unit_multiplier: 2": "line 7: the rule shop.user has a calendar of every month, which stays, so the " +
			"window of the file, 60 days, is not imported; remove the calendar to import it",
	} {
		in := parse(t, strings.Replace(shop, "unit: hour", unit, 1), Options{})
		plan, err := in.Plan(list, false)
		if err != nil || !plan.Empty() {
			t.Errorf("%s: %v\n%s", unit, err, plan.String())
		}
		var got string
		for _, n := range in.Notes(list) {
			got += n.String()
		}
		if got != want {
			t.Errorf("%s: got %q", unit, got)
		}
	}
	list[1].IsActive = false
	got := parse(t, shop, Options{}).Notes(list)
	if len(got) != 1 || !strings.Contains(got[0].Message, "is disabled") || !strings.Contains(got[0].Message, "calendar") {
		t.Errorf("disabled as well: %v", got)
	}
}

func TestPlan_LeavesTheNamesOfOtherRules(t *testing.T) {
	in := parse(t, shop, Options{})
	other := rules.Rule{ID: 1, Name: "shop.user", Scope: "ip", Limit: 1, WindowMS: 1000}
	plan, err := in.Plan([]rules.Rule{other}, false)
	if err != nil || len(plan.Create) != 2 || len(plan.Update)+len(plan.Delete) != 0 ||
		!strings.HasPrefix(plan.Create[1].Name, "shop.user-") {
		t.Fatalf("%v %s", err, plan.String())
	}
	other.Name = plan.Create[1].Name
	second := other
	second.Name = "shop.user"
	_, err = in.Plan([]rules.Rule{other, second}, false)
	var invalid *field.ValidationError
	if !errors.As(err, &invalid) || invalid.Fields[0].Field != "line 7" {
		t.Errorf("both names are taken: %v", err)
	}
}

func TestPlan_RefusesWithLinesWhatARuleCannotBe(t *testing.T) {
	in := parse(t, shop, Options{Algorithm: "fixed_window"})
	list := stored(t, func(list []rules.Rule) {
		list[1].Algorithm, list[1].Align, list[1].Addend = "concurrency", nil, "take"
	})
	ten := int64(10)
	list[1].Throttle, list[1].SoftPercent = "soft", &ten
	if _, err := in.Plan(list, false); err != nil {
		t.Errorf("another algorithm: %v", err)
	}
	var names strings.Builder
	for i := range 65 {
		fmt.Fprintf(&names, "- {key: k%d, rate_limit: {name: x, unit: day, requests_per_unit: 1}}\n", i)
	}
	in = parse(t, shop+names.String()+"- {key: z, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: x}]}}\n",
		Options{})
	_, err := in.Plan(nil, false)
	var invalid *field.ValidationError
	if !errors.As(err, &invalid) || len(invalid.Fields) != 1 || invalid.Fields[0].Field != "line 74" ||
		!strings.Contains(invalid.Fields[0].Message, `"shop.z": replaces must not have more than 64`) {
		t.Errorf("too many names: %v", err)
	}
}
