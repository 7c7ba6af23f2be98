package fleet

import (
	"testing"

	"sluice/internal/stats"
)

// Nodes of an earlier version post no use and read posts with one.
func TestPosted_IsReadWithAndWithoutAUse(t *testing.T) {
	f := stats.Figures{Allowed: 7, Denied: 2, Shed: 1, WouldAllow: 3, Use: 85, Failed: 4}
	if got := unpack(pack(f)); got != f {
		t.Errorf("%+v became %+v", f, got)
	}
	without := f
	without.Use, without.Failed = 0, 0
	if got := unpack("7 2 0 0 0 0 0 1 3"); got != without {
		t.Errorf("words of an earlier version are %+v", got)
	}
	if got := rulesPosted(`{"charges":[7,2,0,0,0,0,0,1,3]}`)["charges"].figures(); got != without {
		t.Errorf("a post of an earlier version is %+v", got)
	}
	if got := rulesPosted(jsonOf(map[string]posted{"charges": post(f)}))["charges"].figures(); got != f {
		t.Errorf("a post is %+v", got)
	}
}
