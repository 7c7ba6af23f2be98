package decide

import (
	"testing"

	"sluice/rules"
)

// bansAfter makes a rule ban a descriptor for 10 s after so many denials within a minute.
func bansAfter(denials int64) func(*rules.Rule) {
	return func(r *rules.Rule) { r.Ban = &rules.Ban{After: denials, WithinMS: 60_000, ForMS: 10_000} }
}

// ban compares the bans of an answer, by limit.
func (a *DescriptorAnswer) ban(t *testing.T, want ...int64) {
	t.Helper()
	for i, ms := range want {
		if got := a.Limits[i].Ban; got != ms {
			t.Errorf("ban %d of %s, want %d", got, a.Limits[i].Rule, ms)
		}
	}
}

func TestDescriptors_OfABannedKeyAreOver(t *testing.T) {
	rs := []rules.Rule{shop("users", "user", 3, bansAfter(2)), shop("pay", "path=/pay", 5, bansAfter(2))}
	onStores(t, rs, func(t *testing.T, f *fixture) {
		f.expect(t, "allowed: ok 0, ok 4", asked("user=a", 3, ""), asked("path=/pay", 1, ""))
		f.expect(t, "denied: over 0, ok 4", asked("user=a", 1, ""), asked("path=/pay", 1, "")).ban(t, 0, 0)
		f.levels(t, "0 4", "user=a", "path=/pay")                                     // which do not count
		f.expect(t, "denied: over 3", withLimit(asked("user=a", 9, ""), 6)).ban(t, 0) // denied by another limit
		a := f.expect(t, "denied: over 0, ok 4", asked("user=a", 1, ""), asked("path=/pay", 1, ""))
		if a.ban(t, 10_000, 0); a.Ban() != 10_000 || a.Strictest != 0 || !a.Limits[0].Decision.BanBegan {
			t.Errorf("the ban began: %+v", a.Limits)
		}
		f.now.Add(9999)
		f.expect(t, "denied: over 0, ok 4", asked("user=a", 1, ""), asked("path=/pay", 1, "")).ban(t, 1, 0)
		f.now.Add(60_000)
		f.expect(t, "allowed: ok 2, ok 4", asked("user=a", 1, ""), asked("path=/pay", 1, "")).ban(t, 0, 0)
	})
}

// A report counts no denial, and of a banned key it is charged and over its limit.
func TestDescriptors_ReportsOfABannedKey(t *testing.T) {
	rs := []rules.Rule{shop("tokens", "tokens", 10, charged, bansAfter(2)), shop("plain", "plain", 10)}
	onStores(t, rs, func(t *testing.T, f *fixture) {
		for range 3 {
			f.expect(t, "denied: over 0", asked("tokens=a", 20, "e")).ban(t, 0)
		}
		f.expect(t, "denied: over 0", asked("tokens=a", 1, "")).ban(t, 0)
		f.expect(t, "denied: over 0", asked("tokens=a", 1, "")).ban(t, 10_000)
		f.expect(t, "denied: ok 10, over 0", asked("plain=a", 1, ""), asked("tokens=a", 1, "e")).ban(t, 0, 10_000)
		f.expect(t, "allowed: ok 0", asked("tokens=a", 5, "en")) // is given back
		f.levels(t, "10", "plain=a")
	})
}
