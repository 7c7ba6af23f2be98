package envoyfile

import (
	"slices"
	"strings"
	"testing"

	"sluice/rules"
)

const monthly = `
domain: shop
descriptors:
  - {key: a, rate_limit: {unit: month, requests_per_unit: 5}}
  - {key: b, rate_limit: {unit: Month, requests_per_unit: 5, unit_multiplier: 2}}
  - {key: c, rate_limit: {unit: day, requests_per_unit: 5}}
`

// planMonthly plans an import of the file above with calendar months over stored rules.
func planMonthly(t *testing.T, opt Options, over []rules.Rule) (*Import, rules.Plan) {
	t.Helper()
	opt.CalendarMonths = true
	in, err := Parse([]Source{{Data: []byte(monthly)}}, opt)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := in.Plan(over, false)
	if err != nil {
		t.Fatal(err)
	}
	return in, plan
}

func TestPlan_CalendarMonths(t *testing.T) {
	in, plan := planMonthly(t, Options{}, nil)
	for _, r := range plan.Create {
		if got := r.Calendar != nil && *r.Calendar == (rules.Calendar{Every: "month", Zone: "UTC", AnchorDay: 1}); got !=
			(r.Name == "shop.a") {
			t.Errorf("%s: calendar %+v, window %d", r.Name, r.Calendar, r.WindowMS)
		}
	}
	if len(plan.Create) != 3 || len(in.Report) != 1 || !strings.Contains(in.Report[0].Message, "the window is 60 days") {
		t.Errorf("%d rules, report %+v", len(plan.Create), in.Report)
	}
	without, err := Parse([]Source{{Data: []byte(monthly)}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	before, err := without.Plan(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range before.Create {
		before.Create[i].ID, before.Create[i].Version = int64(i+1), 1
	}
	_, again := planMonthly(t, Options{}, before.Create)
	if got := changes(&again); !slices.Equal(got, []string{"~shop.a.window_ms", "~shop.a.calendar"}) {
		t.Errorf("over rules without: %q", got)
	}
	for i := range before.Create {
		before.Create[i].Algorithm, before.Create[i].Align = "gcra", nil
		before.Create[i].Normalize()
	}
	_, other := planMonthly(t, Options{}, before.Create)
	if got := changes(&other); got != nil {
		t.Errorf("over rules with gcra: %q", got)
	}
	for i := range plan.Create {
		plan.Create[i].ID, plan.Create[i].Version = int64(i+1), 1
	}
	if _, same := planMonthly(t, Options{}, plan.Create); changes(&same) != nil {
		t.Errorf("again: %q", changes(&same))
	}
	if stays, err := without.Plan(plan.Create, false); err != nil || changes(&stays) != nil {
		t.Errorf("again without the option: %q, %v", changes(&stays), err)
	}
}
