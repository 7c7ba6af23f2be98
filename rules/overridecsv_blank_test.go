package rules

import (
	"testing"
	"time"
)

// A reason comes back from a file as it went in, the blank before it too.
func TestParseOverrides_KeepsTheBlankBeforeAReason(t *testing.T) {
	items, err := ParseOverrides([]byte("key,blocked,reason\nx,true, asked for it\ny,true,   \n"))
	if err != nil {
		t.Fatal(err)
	}
	r := Rule{Name: "a", Scope: "user", Limit: 1, WindowMS: 1000}
	r.Normalize()
	for i, want := range []string{" asked for it", ""} {
		o := items[i].Override
		if err := o.Resolve(&r, Options{}, time.Unix(0, 0)); err != nil || o.Reason != want {
			t.Errorf("reason %q, %v; want %q", o.Reason, err, want)
		}
		if got := OverrideRecord(&o)[5]; got != want {
			t.Errorf("exported as %q, want %q", got, want)
		}
	}
}
