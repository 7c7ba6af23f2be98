package redisstore

import "testing"

func TestSlotOf_FollowsTheClusterSpecification(t *testing.T) {
	for key, want := range map[string]int{
		"123456789":            12739, // the specification's own check value, 0x31C3
		"foo":                  12182,
		"{foo}bar":             12182,
		"sl:{foo}|1|sc":        12182,
		"a{}b":                 slotOf("a{}b"),
		"{user1000}.following": 3443,
	} {
		if got := slotOf(key); got != want {
			t.Errorf("%s: got %d, want %d", key, got, want)
		}
	}
}
