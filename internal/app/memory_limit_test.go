package app

import "testing"

func TestMostKeys_FollowTheSmallestLimit(t *testing.T) {
	const gib = 1 << 30
	for name, c := range map[string]struct {
		setting int
		limits  []memoryLimit
		want    keyBound
	}{
		"as set": {5000, []memoryLimit{{gib, "GOMEMLIMIT"}}, keyBound{5000, "SLUICE_MAX_KEYS"}},
		"smaller of two": {0, []memoryLimit{{4 * gib, "GOMEMLIMIT"}, {gib, "the container's memory limit"}},
			keyBound{gib / 800, "the container's memory limit"}},
		"tiny":    {0, []memoryLimit{{32 << 20, "GOMEMLIMIT"}}, keyBound{100_000, "GOMEMLIMIT"}},
		"huge":    {0, []memoryLimit{{1 << 40, "this machine's memory"}}, keyBound{20_000_000, "this machine's memory"}},
		"unknown": {0, nil, keyBound{100_000, "the memory of this machine is unknown"}},
	} {
		if got := keyLimit(c.setting, c.limits); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestMemoryLimits_OfThisMachineAreKnown(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	if l := memoryLimits(); len(l) == 0 || l[0].bytes < 64<<20 {
		t.Errorf("memory limits %v, want at least one of 64 MiB or more", l)
	}
}
