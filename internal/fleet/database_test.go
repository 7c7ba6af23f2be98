package fleet_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/fleet"
	"sluice/internal/testenv"
)

// claim claims the counters under a prefix for a minute.
func claim(t *testing.T, c redis.UniversalClient, prefix, node, id string) fleet.Claim {
	t.Helper()
	got, err := fleet.ClaimDatabase(t.Context(), c, prefix, node, id, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestClaimDatabase_ChangesHandsOnceNoNodeIsLive(t *testing.T) {
	for name, url := range map[string]string{
		"one server": testenv.Redis(t).DocumentedUser(t),
		"a cluster":  testenv.SharedCluster(t).URL(),
	} {
		t.Run(name, func(t *testing.T) {
			c, prefix := client(t, url), ownPrefix()
			steps := []struct {
				node, id string
				want     fleet.Claim
			}{
				{"one", "a", fleet.Claim{}},
				{"two", "a", fleet.Claim{Before: "a"}},
				{"three", "b", fleet.Claim{Before: "a", Refused: true}},
				{"one", "", fleet.Claim{}}, // leaves
				{"three", "b", fleet.Claim{Before: "a", Refused: true}},
				{"two", "", fleet.Claim{}},
				{"three", "b", fleet.Claim{Before: "a"}},
				{"one", "a", fleet.Claim{Before: "b", Refused: true}},
			}
			for i, s := range steps {
				if s.id == "" {
					if err := fleet.LeaveDatabase(t.Context(), c, prefix, s.node); err != nil {
						t.Fatal(err)
					}
				} else if got := claim(t, c, prefix, s.node, s.id); got != s.want {
					t.Errorf("step %d: got %+v, want %+v", i, got, s.want)
				}
			}
			if got := c.HGet(t.Context(), prefix+"settings", "database").Val(); got != "b" {
				t.Errorf("stored is %q, want b", got)
			}
		})
	}
}

// A node that was killed counts as live until it expires.
func TestClaimDatabase_AKilledNodeExpires(t *testing.T) {
	c, prefix := client(t, testenv.SharedRedis(t).URL()), ownPrefix()
	if _, err := fleet.ClaimDatabase(t.Context(), c, prefix, "one", "a", 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another database has the counters", func() bool { return !claim(t, c, prefix, "two", "b").Refused })
}

func TestClaimDatabase_OfManyThatStartTogetherOneWins(t *testing.T) {
	const nodes = 16
	url, prefix := testenv.SharedRedis(t).URL(), ownPrefix()
	refused := make([]bool, nodes)
	var all sync.WaitGroup
	for i := range nodes {
		c := client(t, url)
		all.Go(func() { refused[i] = claim(t, c, prefix, fmt.Sprint(i), fmt.Sprint("database ", i)).Refused })
	}
	all.Wait()
	won := 0
	for _, r := range refused {
		if !r {
			won++
		}
	}
	if won != 1 {
		t.Errorf("%d of %d nodes with databases of their own have the counters, want 1", won, nodes)
	}
}

// A server that refuses writes still says whose the counters are.
func TestClaimDatabase_ReadsWhereItMayNotWrite(t *testing.T) {
	c := client(t, testenv.Redis(t).URL())
	claim(t, c, "sl:", "one", "a")
	if err := c.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if got := claim(t, c, "sl:", "two", "a"); got != (fleet.Claim{Before: "a"}) {
		t.Errorf("a node of the stored database: %+v", got)
	}
	if got := claim(t, c, "sl:", "three", "b"); !got.Refused {
		t.Errorf("a node of another database: %+v", got)
	}
}
