package playbook

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// arrival is one request as nginx saw it, in ms of nginx's clock.
type arrival struct {
	at      int64
	allowed bool
	wait    int64
}

// A real nginx with delay= decides on 100 requests. Its log has the time, the verdict and the wait of each. At the same
// times, the rule that the page makes of the setting gives the same.
func TestMigrating_NginxDelaysTheSame(t *testing.T) {
	const sent = 100
	for _, c := range []struct{ rate, burst, delay int64 }{{10, 8, 3}, {20, 12, 1}} {
		t.Run(fmt.Sprintf("%d a second", c.rate), func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "log")
			url := startNginx(t, fmt.Sprintf("%dr/s", c.rate), fmt.Sprintf("burst=%d delay=%d", c.burst, c.delay),
				"error_log "+log+" debug;")
			sendInWaves(t, url)
			seen := readNginxLog(t, log)
			if len(seen) != sent {
				t.Fatalf("the log has %d requests, want %d", len(seen), sent)
			}
			for _, algorithm := range []string{"gcra", "token_bucket", "leaky_bucket"} {
				replayArrivals(t, seen, fmt.Sprintf("{name: a, scope: ip, algorithm: %s, limit: %d, window_ms: 1000, burst: %d, "+
					"delay: {after: %d, step_ms: %d}}", algorithm, c.rate, c.burst+1, c.delay+1, 1000/c.rate))
			}
		})
	}
}

// sendInWaves sends 40 requests at once, of which nginx denies some, then 20 one after another, and 40 at once again.
func sendInWaves(t *testing.T, url string) {
	t.Helper()
	wave := func() {
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() { get(t, url) })
		}
		all.Wait()
	}
	wave()
	for range 20 {
		get(t, url)
	}
	wave()
}

// replayArrivals asks a server for each request at its time.
func replayArrivals(t *testing.T, seen []arrival, rule string) {
	t.Helper()
	w := Serve(t)
	if err := w.PutInForce([]byte("rules:\n  - " + rule + "\n")); err != nil {
		t.Fatal(err)
	}
	start, passed, delayed, denied := w.Now(), 0, 0, 0
	for i, a := range seen {
		w.SetTime(start.Add(time.Duration(a.at-seen[0].at) * time.Millisecond))
		status, text, err := w.send(&request{method: "POST", path: "/ratelimit/check", body: `{"ip": "203.0.113.7"}`})
		var got struct {
			Allowed bool  `json:"allowed"`
			DelayMS int64 `json:"delay_ms"`
		}
		if err != nil || status != 200 || json.Unmarshal([]byte(text), &got) != nil {
			t.Fatalf("%d %s, %v", status, text, err)
		}
		switch {
		case !a.allowed:
			denied++
		case a.wait > 0:
			delayed++
		default:
			passed++
		}
		if got.Allowed != a.allowed || max(got.DelayMS-a.wait, a.wait-got.DelayMS) > 1 {
			t.Errorf("%s\nrequest %d after %d ms: %+v, nginx %+v", rule, i, a.at-seen[0].at, got, a)
		}
	}
	if min(passed, delayed, denied) < 2 {
		t.Errorf("nginx let %d pass, delayed %d and denied %d: too few of one kind", passed, delayed, denied)
	}
}

var (
	nginxTurn  = regexp.MustCompile(`: timer delta: (\d+)$`)
	nginxTimer = regexp.MustCompile(`: \*(\d+) event timer add: \d+: (\d+):(\d+)$`)
	nginxLimit = regexp.MustCompile(`: \*(\d+) limit_req\[0\]: (-?\d+) [\d.]+$`)
)

// nginx's log of limit_req says NGX_OK or NGX_AGAIN for what passes, and NGX_BUSY for what is denied.
const nginxBusy = "-3"

// readNginxLog reads the requests of nginx's debug log. nginx's clock stands still in each turn of its loop, which ends
// with how much later the turn is than the one before. A timer says when it ends and after how long, so it has the time
// in full; each is compared with the turn that sets it. The timer of a delayed request is its wait.
func readNginxLog(t *testing.T, file string) (seen []arrival) {
	t.Helper()
	text, err := os.ReadFile(file) //nolint:gosec // the test's own
	if err != nil {
		t.Fatal(err)
	}
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var now, timed int64 // of the turn before, and of a timer in this one
	turn, waits := 0, map[string]int{}
	for line := range strings.SplitSeq(string(text), "\n") {
		if m := nginxTurn.FindStringSubmatch(line); m != nil {
			now += number(m[1])
			if timed != 0 && now != timed && turn > 0 {
				t.Fatalf("a timer is of %d, its turn of %d: %s", timed, now, line)
			}
			if timed != 0 {
				now = timed
			}
			for i := turn; i < len(seen); i++ {
				seen[i].at = now
			}
			turn, timed = len(seen), 0
		} else if m := nginxTimer.FindStringSubmatch(line); m != nil {
			timed = number(m[3]) - number(m[2])
			if i, found := waits[m[1]]; found && i >= turn {
				seen[i].wait = number(m[2])
			}
		} else if m := nginxLimit.FindStringSubmatch(line); m != nil {
			waits[m[1]] = len(seen)
			seen = append(seen, arrival{allowed: m[2] != nginxBusy})
		}
	}
	if !slices.IsSortedFunc(seen, func(a, b arrival) int { return int(a.at - b.at) }) {
		t.Fatalf("the requests are not in the order of their times: %+v", seen)
	}
	return seen
}
