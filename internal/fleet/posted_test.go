package fleet

import (
	"testing"

	"sluice/internal/history"
)

func TestPosted_IsReadAsItWasWritten(t *testing.T) {
	f := history.Figures{Allowed: 7, Denied: 2, WouldDeny: 6, Degraded: 8, Soft: 9, Elastic: 5, Shed: 1, WouldAllow: 3,
		Use: 85, Failed: 4}
	if got := unpack(pack(f)); got != f {
		t.Errorf("%+v became %+v", f, got)
	}
	if got := rulesPosted(jsonOf(map[string]posted{"charges": post(f)}))["charges"].figures(); got != f {
		t.Errorf("a post is %+v", got)
	}
	for _, other := range []string{"", "7 2 0", "7 2 0 0 0 0 0 0 0 -1", "7 2 0 0 0 0 0 0 0 x"} {
		if got := unpack(other); got != (history.Figures{}) {
			t.Errorf("%q counts as %+v", other, got)
		}
	}
}
