package testenv_test

import (
	"testing"

	"sluice/internal/testenv"
)

func TestCluster_ServesEverySlotAndFailsOver(t *testing.T) {
	c := testenv.Cluster(t)
	if got := len(c.Addrs()); got != 6 {
		t.Fatalf("nodes = %d, want 6", got)
	}
	// Slots by Redis's own CLUSTER KEYSLOT: "foo" 12182, "bar" 5061.
	for key, slot := range map[string]int{"foo": 12182, "bar": 5061} {
		wantReply(t, c.PrimaryOf(slot).Addr, "SET "+key+" 1", "+OK")
	}

	victim := c.PrimaryOf(12182)
	heir := c.ReplicaOf(victim)
	wantReply(t, victim.Addr, "WAIT 1 5000", ":1")
	c.AllowFailover()
	victim.Kill()
	wantReply(t, c.PrimaryOf(5061).Addr, "EXISTS bar", ":1") // other slots go on
	c.WaitHealthy()
	wantReply(t, heir.Addr, "EXISTS foo", ":1")

	victim.Restart()
	c.WaitHealthy()
}
