package home

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
)

// What a denied request took elsewhere is given back before the answer, so that a repeat by its id is charged anew and
// does not rely on units that are about to be given back.
func TestStore_ARepeatOfADeniedRequestIsChargedEverywhere(t *testing.T) {
	w := onMemory(t, names...)
	takes, denies := ask(at("asia", 0), 10, 1), ask(at("us", 0), 0, 1)
	first := w["eu"].do(t, limiter.OpTake, "x", takes, denies)
	if first.Allowed || left(t, w, takes) != 10 {
		t.Errorf("allowed %v, %d left of 10 after a denial", first.Allowed, left(t, w, takes))
	}
	denies.Limit.Count = 1
	if again := w["eu"].do(t, limiter.OpTake, "x", takes, denies); !again.Allowed || again.Replayed {
		t.Fatalf("the repeat: %+v", again)
	}
	eventually(t, "nothing waits to be given back", func() bool { return w["eu"].Stats().Pending == 0 })
	if left(t, w, takes) != 9 || left(t, w, denies) != 0 {
		t.Errorf("%d of 10 and %d of 1 left after one unit of each", left(t, w, takes), left(t, w, denies))
	}
}

// A request whose id was made for it is not repeated, so what it may have taken is given back, whoever made the id.
func TestStore_ATakeThatNobodyRepeatsIsGivenBack(t *testing.T) {
	w := onMemory(t, names...)
	there := ask(inUS, 10, 1)
	w["us"].loseAnswers(true)
	for id, unrepeated := range map[string]bool{"made": true, "sent": false} {
		req := limiter.Request{ID: id, Unrepeated: unrepeated, Asks: []limiter.Ask{there}}
		var res limiter.Result
		var se *limiter.StoreError
		if err := w["eu"].Do(t.Context(), &req, &res); !errors.As(err, &se) || !se.Unknown {
			t.Fatalf("id %s: %v", id, err)
		}
	}
	if got := w["eu"].Stats().Pending; got != 1 {
		t.Errorf("%d takes wait to be given back, want the one that nobody repeats", got)
	}
	w["us"].loseAnswers(false)
	eventually(t, "one is given back", func() bool { return w["eu"].Stats().Undone == 1 && left(t, w, there) == 9 })
}

// The record of a take whose id was made here is kept for as long as it may be given back or come twice, and no longer;
// that of a caller's take for as long as the take counts, up to an hour.
func TestStore_ARecordOfATakeWithoutAnIDIsBrief(t *testing.T) {
	if undoSure <= maxAge {
		t.Errorf("a take is given back again for %v, and may be carried out until it is %v old", undoSure, maxAge)
	}
	if needed := undoLife + undoMost + undoSure + maxAge; needed.Milliseconds() > limiter.RecordBrief {
		t.Errorf("a record is needed for %v and kept for %d ms", needed, limiter.RecordBrief)
	}
	servers, stores := map[string]*testenv.RedisServer{}, map[string]limiter.Store{}
	for _, name := range names {
		servers[name] = testenv.Redis(t)
		stores[name] = onRedis(t, servers[name], nil)
	}
	w := world(t, 10*time.Second, stores)
	asks := []limiter.Ask{ask(at("eu", 0), 10, 1), ask(at("us", 0), 10, 1)}
	for i := range asks {
		asks[i].Limit.Algorithm = limiter.SlidingWindowLog // a fixed window could end soon
	}
	for id, kept := range map[string][2]int64{"": {60_000, limiter.RecordBrief}, "x": {3_000_000, limiter.RecordTTLMax}} {
		if res := w["eu"].do(t, limiter.OpTake, id, asks...); !res.Allowed {
			t.Fatalf("id %q: %+v", id, res)
		}
		for _, name := range []string{"eu", "us"} {
			text, err := servers[name].Command(t.Context(), "EVAL", "local k = redis.call('KEYS', '*:r:*')[1] "+
				"local n = redis.call('PTTL', k) redis.call('DEL', k) return n", "0")
			ms, other := strconv.ParseInt(strings.TrimLeft(strings.TrimSpace(text), ":"), 10, 64)
			if err != nil || other != nil || ms < kept[0] || ms > kept[1] {
				t.Errorf("id %q: the record in %s is kept for %s ms, %v, want %v", id, name, text, err, kept)
			}
		}
	}
}
