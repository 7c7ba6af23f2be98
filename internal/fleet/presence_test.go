package fleet_test

import (
	"testing"
	"time"

	"sluice/internal/fleet"
	"sluice/internal/testenv"
)

// announce starts a node that announces itself every 20 ms.
func announce(t *testing.T, url, prefix string) *fleet.Presence {
	t.Helper()
	p, err := fleet.NewPresence(fleet.PresenceOptions{Client: client(t, url), Prefix: prefix, Now: time.Now,
		Every: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func all(n int, ps ...*fleet.Presence) func() bool {
	return func() bool {
		for _, p := range ps {
			if p.Live() != n {
				return false
			}
		}
		return true
	}
}

func TestPresence_NodesCountEachOther(t *testing.T) {
	url := testenv.SharedRedis(t).URL()
	a, b, c := announce(t, url, "three:"), announce(t, url, "three:"), announce(t, url, "three:")
	announce(t, url, "others:")
	eventually(t, "each counts three", all(3, a, b, c))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one has left", all(2, a, b))
}

func TestPresence_SeesThatANodeWasReplaced(t *testing.T) {
	url := testenv.SharedRedis(t).URL()
	a, b := announce(t, url, "replaced:"), announce(t, url, "replaced:")
	eventually(t, "each counts two", all(2, a, b))
	c := announce(t, url, "replaced:")
	eventually(t, "each counts three", all(3, a, b, c))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one has left", func() bool { return a.Left() == 1 && c.Left() == 1 && a.Live() == 2 })
}

func TestPresence_CountOutlivesRedis(t *testing.T) {
	srv := testenv.Redis(t)
	a, b := announce(t, srv.URL(), ""), announce(t, srv.URL(), "")
	eventually(t, "each counts two", all(2, a, b))
	srv.Kill()
	eventually(t, "the outage is noticed", func() bool { return !a.Connected() && !b.Connected() })
	if !all(2, a, b)() {
		t.Error("the count was forgotten in the outage")
	}
	srv.Restart() // empty
	eventually(t, "Redis is back", func() bool {
		if !all(2, a, b)() {
			t.Error("the count fell while the other node had not yet announced itself")
		}
		return a.Connected() && b.Connected()
	})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one has left", all(1, a))
}

// A node that starts in an outage goes by the number last known, and tells the
// number to remember.
func TestPresence_StartsInAnOutageWithTheNumberLastKnown(t *testing.T) {
	srv := testenv.Redis(t)
	srv.Kill()
	counted := make(chan int, 10)
	p, err := fleet.NewPresence(fleet.PresenceOptions{
		Client: client(t, srv.URL()), Now: time.Now, Every: 20 * time.Millisecond, Known: 4,
		Counted: func(n int) { counted <- n },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	if p.Live() != 4 {
		t.Errorf("live %d, want the 4 last known", p.Live())
	}
	srv.Restart()
	eventually(t, "this node finds itself alone", all(1, p))
	if n := <-counted; n != 1 {
		t.Errorf("told %d", n)
	}
}

func TestPresence_AloneWithoutRedis(t *testing.T) {
	srv := testenv.Redis(t)
	srv.Kill()
	p := announce(t, srv.URL(), "")
	if p.Live() != 1 || p.Connected() {
		t.Errorf("live %d, connected %v", p.Live(), p.Connected())
	}
	if _, err := fleet.NewPresence(fleet.PresenceOptions{}); err == nil {
		t.Error("started without a client")
	}
}

func TestPresence_OnACluster(t *testing.T) {
	url, prefix := testenv.SharedCluster(t).URL(), ownPrefix()
	a, b := announce(t, url, prefix), announce(t, url, prefix)
	eventually(t, "each counts two", all(2, a, b))
}
