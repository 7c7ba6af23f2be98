package fleet_test

import (
	"strconv"
	"testing"
	"time"

	"sluice/internal/fleet"
	"sluice/internal/testenv"
)

func TestRegionArrivals_CountsForATime(t *testing.T) {
	server := testenv.Redis(t)
	url := server.DocumentedUser(t)
	n := fleet.NewRegionArrivals(client(t, url), "sl:")
	for region, ttl := range map[string]time.Duration{"us": time.Minute, "asia": time.Millisecond} {
		if err := n.Received(t.Context(), region, "7 "+region, ttl); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := n.Connected(t.Context(), []string{"us"}); err != nil || len(got) != 0 {
		t.Errorf("before us has accepted anything: %v, %v", got, err)
	}
	for _, region := range []string{"us", "asia"} {
		if err := n.Accepted(t.Context(), region, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the message of asia counts no more", func() bool {
		got, err := n.Connected(t.Context(), []string{"us", "asia", "eu"})
		return err == nil && len(got) == 1 && got["us"] == "7 us"
	})
	other := fleet.NewRegionArrivals(client(t, url), "sl:")
	for _, c := range []struct {
		who    string
		node   *fleet.RegionArrivals
		yields bool
		want   bool
	}{
		{"one that yields", n, true, true}, {"another", other, true, true}, {"the first that does not", n, false, true},
		{"the second", other, false, false}, {"the first, a little early", n, false, true},
		{"one that yields, behind another", other, true, false}, {"the first, which yields now", n, true, true},
	} {
		if mine, err := c.node.Turn(t.Context(), time.Minute, c.yields); err != nil || mine != c.want {
			t.Errorf("%s: %v, %v", c.who, mine, err)
		}
	}
	for _, left := range []time.Duration{61 * time.Second, 59 * time.Second} { // until nobody is known to have the turn
		ms := strconv.FormatInt(left.Milliseconds(), 10)
		if _, err := server.Command(t.Context(), "PEXPIRE", "sl:region:turn", ms); err != nil {
			t.Fatal(err)
		}
		free := left < time.Minute
		if mine, err := other.Turn(t.Context(), time.Minute, false); err != nil || mine != free {
			t.Errorf("another, %v before the end of the turn: %v, %v", left, mine, err)
		}
		if mine, err := n.Turn(t.Context(), time.Minute, true); err != nil || mine == free {
			t.Errorf("the first, which yields, after that: %v, %v", mine, err)
		}
	}
	server.Kill()
	if _, err := n.Connected(t.Context(), []string{"us"}); err == nil {
		t.Error("without Redis no region is connected, and no error says why")
	}
}
