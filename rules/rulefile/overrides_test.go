package rulefile

import (
	"errors"
	"slices"
	"testing"
	"time"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
)

// A reason comes back from a file as it went in, the blank before it too.
func TestParseOverrides_KeepsTheBlankBeforeAReason(t *testing.T) {
	items, err := ParseOverrides([]byte("key,blocked,reason\nx,true, asked for it\ny,true,   \n"))
	if err != nil {
		t.Fatal(err)
	}
	r := rules.Rule{Name: "a", Scope: "user", Limit: 1, WindowMS: 1000}
	r.Normalize()
	for i, want := range []string{" asked for it", ""} {
		o := items[i].Override
		if err := match.ResolveOverride(&o, &r, match.Options{}, time.Unix(0, 0)); err != nil || o.Reason != want {
			t.Errorf("reason %q, %v; want %q", o.Reason, err, want)
		}
		if got := OverrideRecord(&o)[6]; got != want {
			t.Errorf("exported as %q, want %q", got, want)
		}
	}
}

func TestParseOverrides_ALineWithTooFewCellsIsOneFaultAmongOthers(t *testing.T) {
	items, err := ParseOverrides([]byte("key,limit\nuser:1,many\nuser:2\nuser:3,5\nuser:4,5,6\n"))
	var invalid *field.ValidationError
	if !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	var got []string
	for _, f := range invalid.Fields {
		got = append(got, f.Field)
	}
	if want := []string{"line[2].limit", "line[3]", "line[5]"}; !slices.Equal(got, want) {
		t.Errorf("faults at %q, want %q", got, want)
	}
	if len(items) != 1 || items[0].Key != "user:3" {
		t.Errorf("read besides: %+v", items)
	}
}
