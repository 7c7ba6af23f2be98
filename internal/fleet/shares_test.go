package fleet_test

import (
	"testing"
	"time"

	"sluice/internal/fleet"
	"sluice/internal/testenv"
)

func TestRegionShares_AStateFollowsTheOneThatWasRead(t *testing.T) {
	server := testenv.Redis(t)
	s := fleet.NewRegionShares(client(t, server.DocumentedUser(t)), "sl:")
	empty, err := s.Read(t.Context())
	if err != nil || empty.Version != 0 || len(empty.State) != 0 || empty.Kept != "" ||
		empty.Server == "" || empty.At == 0 {
		t.Fatalf("without a state: %+v, %v", empty, err)
	}
	if ok, err := s.Write(t.Context(), empty, 5, []byte("five")); err != nil || !ok {
		t.Fatalf("the first state: %v, %v", ok, err)
	}
	if ok, err := s.Write(t.Context(), empty, 6, []byte("six")); err != nil || ok {
		t.Errorf("a state that another one came before: %v, %v", ok, err)
	}
	five, err := s.Read(t.Context())
	if err != nil || five.Version != 5 || string(five.State) != "five" || five.Kept != five.Server {
		t.Errorf("read %+v, %v", five, err)
	}
	other := *five
	other.Server = "another"
	if ok, err := s.Write(t.Context(), &other, 6, []byte("six")); err != nil || ok {
		t.Errorf("a state that was read from another server: %v, %v", ok, err)
	}
}

func TestRegionShares_AddsWhatNodesAreAskedFor(t *testing.T) {
	server := testenv.Redis(t)
	s := fleet.NewRegionShares(client(t, server.DocumentedUser(t)), "sl:")
	for range 2 {
		if err := s.Ask(t.Context(), map[int64]int64{7: 3, 8: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Asked(t.Context()); err != nil || len(got) != 2 || got[7] != 6 || got[8] != 2 {
		t.Errorf("asked for %v, %v", got, err)
	}
	if got, err := s.Asked(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("after that %v, %v", got, err)
	}
	if first, err := s.Turn(t.Context(), "act", time.Minute); err != nil || !first {
		t.Errorf("the first node: %v, %v", first, err)
	}
	if second, err := s.Turn(t.Context(), "act", time.Minute); err != nil || second {
		t.Errorf("the second node: %v, %v", second, err)
	}
	server.Kill()
	if _, err := s.Read(t.Context()); err == nil {
		t.Error("without Redis a state was read")
	}
}

// What a node adds while another one takes what there is, is taken by the next.
func TestRegionShares_NothingThatIsAskedForIsLost(t *testing.T) {
	s := fleet.NewRegionShares(client(t, testenv.Redis(t).DocumentedUser(t)), "sl:")
	const adds = 2000
	added := make(chan error, 1)
	go func() {
		for range adds {
			if err := s.Ask(t.Context(), map[int64]int64{7: 1}); err != nil {
				added <- err
				return
			}
		}
		added <- nil
	}()
	sum := int64(0)
	for done := false; !done; {
		select {
		case err := <-added:
			if done = true; err != nil {
				t.Fatal(err)
			}
		default:
		}
		got, err := s.Asked(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sum += got[7]
	}
	if sum != adds {
		t.Errorf("of %d units that were asked for %d were taken", adds, sum)
	}
}
