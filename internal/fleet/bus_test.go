package fleet_test

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/fleet"
	"sluice/internal/testenv"
	"sluice/limiter"
)

// ear is what a node has heard.
type ear struct {
	mu   sync.Mutex
	keys map[limiter.Key]int
	ends map[limiter.Key]bool // told that leases end
}

func (e *ear) heard(k limiter.Key, leases bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keys == nil {
		e.keys, e.ends = map[limiter.Key]int{}, map[limiter.Key]bool{}
	}
	e.keys[k]++
	e.ends[k] = leases
}

func (e *ear) count(k limiter.Key) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.keys[k]
}

func bus(t *testing.T, url, prefix string) (*fleet.Bus, *ear) {
	t.Helper()
	e := &ear{}
	b, err := fleet.NewBus(fleet.BusOptions{Client: client(t, url), Prefix: prefix, Received: e.heard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b, e
}

// meet makes sure that a hears b.
func meet(t *testing.T, a *ear, b *fleet.Bus) {
	t.Helper()
	eventually(t, "the nodes hear each other", func() bool {
		b.Send("{hello}|1|sc", false)
		return a.count("{hello}|1|sc") > 0
	})
}

func TestBus_OthersHearAndTheSpeakerDoesNot(t *testing.T) {
	for name, url := range map[string]string{
		"one server": testenv.SharedRedis(t).URL(),
		"cluster":    testenv.SharedCluster(t).URL(),
	} {
		t.Run(name, func(t *testing.T) {
			a, earA := bus(t, url, "bus:")
			b, earB := bus(t, url, "bus:")
			_, stranger := bus(t, url, "other:")
			meet(t, earA, b)
			meet(t, earB, a)
			keys := make([]limiter.Key, 300)
			for i := range keys {
				keys[i] = limiter.Key("{user:" + strings.Repeat("x", i) + "}|1|sc")
				a.Send(keys[i], i%3 == 0)
			}
			eventually(t, "the other node has heard all", func() bool {
				for _, k := range keys {
					if earB.count(k) != 1 {
						return false
					}
				}
				return true
			})
			earB.mu.Lock()
			for i, k := range keys {
				if earB.ends[k] != (i%3 == 0) {
					t.Errorf("key %d was told with leases %v, heard with %v", i, i%3 == 0, earB.ends[k])
				}
			}
			earB.mu.Unlock()
			if earA.count(keys[0]) != 0 || stranger.count(keys[0]) != 0 {
				t.Error("the speaker, or a node with other buckets, heard it too")
			}
		})
	}
}

var thousandLost = regexp.MustCompile(`sluice_forget_total\{way="lost"\} \d{4}`)

func TestBus_ListensAgainWhenRedisIsBack(t *testing.T) {
	srv := testenv.Redis(t)
	a, _ := bus(t, srv.URL(), "")
	_, earB := bus(t, srv.URL(), "")
	meet(t, earB, a)
	metrics := prometheus.NewRegistry()
	a.Register(metrics)
	srv.Kill()
	for range 3000 { // more than may wait
		a.Send("{away}|1|sc", false)
	}
	eventually(t, "what could not be told is counted", func() bool {
		return thousandLost.MatchString(testenv.Scrape(t, metrics))
	})
	srv.Restart()
	eventually(t, "the nodes hear each other again", func() bool {
		a.Send("{back}|1|sc", false)
		return earB.count("{back}|1|sc") > 0
	})
}

func TestBus_ForeignMessagesAreLeftAlone(t *testing.T) {
	url := testenv.SharedRedis(t).URL()
	a, _ := bus(t, url, "foreign:")
	_, earB := bus(t, url, "foreign:")
	c := client(t, url)
	for _, m := range []string{"", "short", "8 bytes.", "8 bytes.\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"8 bytes.\x7fcut"} {
		if err := c.Publish(context.Background(), "foreign:forget", m).Err(); err != nil {
			t.Fatal(err)
		}
	}
	meet(t, earB, a)
	earB.mu.Lock()
	defer earB.mu.Unlock()
	if len(earB.keys) != 1 {
		t.Errorf("heard %v", earB.keys)
	}
}

func TestBus_NeedsWhatItIsMadeOf(t *testing.T) {
	if _, err := fleet.NewBus(fleet.BusOptions{}); err == nil {
		t.Error("started without a client")
	}
}
