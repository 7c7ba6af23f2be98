package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
	"sluice/limiter/storetest"
)

// entity returns a name no other test uses.
func entity() string { return fmt.Sprintf("rs:%d", entities.Add(1)) }

// ask makes an ask for one unit on the entity's bucket of rule n.
func ask(entity string, n int, l limiter.Limit) limiter.Ask {
	return limiter.Ask{Key: limiter.Key(fmt.Sprintf("{%s}|%d|%s", entity, n, l.Algorithm.Kind())), Limit: l, Weight: 1}
}

func take(t testing.TB, s limiter.Store, id string, asks ...limiter.Ask) limiter.Result {
	t.Helper()
	return do(t, s, limiter.OpTake, id, asks...)
}

func do(t testing.TB, s limiter.Store, op limiter.Op, id string, asks ...limiter.Ask) limiter.Result {
	t.Helper()
	var res limiter.Result
	if err := s.Do(context.Background(), &limiter.Request{Op: op, ID: id, Asks: asks}, &res); err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	return res
}

// wantCause fails unless err is a StoreError of that cause.
func wantCause(t testing.TB, err error, cause limiter.Cause, unknown bool) {
	t.Helper()
	var se *limiter.StoreError
	if !errors.As(err, &se) || se.Cause != cause || se.Unknown != unknown {
		t.Fatalf("got %v, want cause %s, unknown %v", err, cause, unknown)
	}
}

// TestStore_AResetTouchesNoOtherBucket has two users of whom the packed name of the second is that of the first and
// ":b".
func TestStore_AResetTouchesNoOtherBucket(t *testing.T) {
	s := open(t, client(t, testenv.Redis(t).URL()), redisstore.Options{})
	first, second := ask("user:a", 7, shop), ask("user:acOH", 7, shop)
	take(t, s, "", first)
	before := take(t, s, "", second).Limits[0].Used
	do(t, s, limiter.OpReset, "", first)
	if used := do(t, s, limiter.OpPeek, "", second).Limits[0].Used; used != before {
		t.Errorf("%d used by user acOH after a reset of user a, want %d", used, before)
	}
}

func TestStore_EveryKeyExpires(t *testing.T) {
	c := client(t, testenv.Redis(t).URL())
	s := open(t, c, redisstore.Options{})
	name := entity()
	for round := range 4 {
		for i, l := range limits(minute) {
			a := ask(name, i, l)
			id := fmt.Sprintf("id-%d", round)
			take(t, s, id, a)
			a.Weight = 7
			take(t, s, id+"-heavy", a)
			a.Weight = 1000
			take(t, s, id+"-denied", a)
			do(t, s, limiter.OpRefund, id, a)
			if l.Algorithm == limiter.Concurrency {
				do(t, s, limiter.OpRenew, id+"-heavy", a)
			} else {
				do(t, s, limiter.OpCharge, id+"-charge", a)
				do(t, s, limiter.OpRefund, "", a)
			}
		}
	}
	keys, err := c.Keys(context.Background(), "*").Result()
	if err != nil || len(keys) < len(limits(minute)) {
		t.Fatalf("got %d keys, %v", len(keys), err)
	}
	for _, k := range keys {
		// -1 is a key without expiry; one that has just gone answers -2.
		if ttl := c.PTTL(context.Background(), k).Val(); ttl == -1 || ttl > 2*time.Hour {
			t.Errorf("%s lives %v", k, ttl)
		}
	}
}

func TestStore_ResetLeavesNothingBehind(t *testing.T) {
	c := client(t, testenv.Redis(t).URL())
	s := open(t, c, redisstore.Options{})
	for i, l := range limits(month) {
		a := ask(entity(), i, l)
		a.Weight = 3
		take(t, s, "lease", a)
		res := do(t, s, limiter.OpReset, "", a)
		if d := res.Limits[0]; !res.Allowed || d.Remaining != l.Capacity() || d.Reset != 0 {
			t.Errorf("%s: reset answers %+v", l.Algorithm, d)
		}
	}
	keys := c.Keys(context.Background(), "*").Val()
	for _, k := range keys {
		switch {
		case strings.Contains(k, "}:r:"):
		case strings.HasSuffix(k, ":"): // when it was reset, for as long as a record may name an earlier charge
			if ttl := c.PTTL(context.Background(), k).Val(); ttl <= 0 || ttl > 25*time.Hour {
				t.Errorf("%s lives %v", k, ttl)
			}
		default:
			t.Errorf("%s is still there", k)
		}
	}
}

func TestStore_FixedWindowIsOneInteger(t *testing.T) {
	c := client(t, testenv.SharedRedis(t).URL())
	s := open(t, c, redisstore.Options{})
	a := ask(entity(), 1, limiter.Limit{Algorithm: limiter.FixedWindow, Count: 100, Window: minute})
	take(t, s, "", a)
	if enc := c.ObjectEncoding(context.Background(), "sl:"+string(a.Key)).Val(); enc != "int" {
		t.Errorf("got encoding %q", enc)
	}
}

func TestStore_LongerWindowKeepsConsumptionAlive(t *testing.T) {
	c := client(t, testenv.SharedRedis(t).URL())
	s := open(t, c, redisstore.Options{})
	for i, l := range limits(minute) {
		a := ask(entity(), i, l)
		take(t, s, "id", a)
		a.Limit.Window = 24 * 60 * minute
		for _, op := range []limiter.Op{limiter.OpPeek, limiter.OpPeek} {
			do(t, s, op, "", a)
		}
		if l.Algorithm == limiter.GCRA {
			continue // its state is an instant, which a longer window does not move
		}
		if ttl := c.PTTL(context.Background(), "sl:"+string(a.Key)).Val(); ttl < 5*time.Minute {
			t.Errorf("%s: lives only %v under a window of a day", l.Algorithm, ttl)
		}
	}
}

func TestStore_ADenialKeepsAliveWhatAnEditMakesLastLonger(t *testing.T) {
	c := client(t, testenv.SharedRedis(t).URL())
	s := open(t, c, redisstore.Options{})
	for i, l := range limits(minute) {
		if l.Algorithm == limiter.Concurrency {
			continue // needs an id, which TestStore_LongerWindow has
		}
		a := ask(entity(), i, l)
		a.Weight = 100
		take(t, s, "", a)
		if l.Algorithm.Bucketed() {
			a.Limit.Count = 1 // a hundred minutes to drain
		} else {
			a.Limit.Window = month
		}
		if take(t, s, "", a).Allowed {
			t.Fatalf("%s admits 200 of 100", l.Algorithm)
		}
		if l.Algorithm == limiter.GCRA {
			continue // its state is an instant, which no edit moves
		}
		if ttl := c.PTTL(context.Background(), "sl:"+string(a.Key)).Val(); ttl < 5*time.Minute {
			t.Errorf("%s: lives only %v", l.Algorithm, ttl)
		}
	}
}

func TestStore_ForeignTypeFailsAloneAndWritesNothing(t *testing.T) {
	c := client(t, testenv.SharedRedis(t).URL())
	s := open(t, c, redisstore.Options{})
	ctx := context.Background()
	for i, l := range limits(month) {
		name := entity()
		good, bad := ask(name, i, l), ask(name, 100, l)
		c.HSet(ctx, "sl:"+string(bad.Key), "a", "b")
		calls := []limiter.Call{
			{Request: limiter.Request{ID: "x", Asks: []limiter.Ask{good}}},
			{Request: limiter.Request{ID: "y", Asks: []limiter.Ask{good, bad}}},
			{Request: limiter.Request{ID: "z", Asks: []limiter.Ask{good}}},
		}
		s.DoAll(ctx, calls)
		wantCause(t, calls[1].Err, limiter.CauseWrongType, false)
		if calls[0].Err != nil || calls[2].Err != nil {
			t.Fatalf("neighbours failed: %v, %v", calls[0].Err, calls[2].Err)
		}
		if got := calls[2].Result.Limits[0].Remaining; got != 98 {
			t.Errorf("%s: remaining %d after two takes and a failed one", l.Algorithm, got)
		}
		if n := c.HLen(ctx, "sl:"+string(bad.Key)).Val(); n != 1 {
			t.Errorf("%s: the foreign value was touched", l.Algorithm)
		}
	}
}

func TestStore_MalformedBytesAreRefused(t *testing.T) {
	c := client(t, testenv.SharedRedis(t).URL())
	s := open(t, c, redisstore.Options{})
	ctx := context.Background()
	strs := []string{"", "x", "12:", "-5", "1:99999999999999999", "\x7f\x01", "\x09", "\xff\x00\x00\x00\x00\x00\x00\x00",
		"\x3f\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"\x09\x00\x00\x00\x00\x00\x01\x01\x01\x00", strings.Repeat("\x09", 63)}
	for i, l := range limits(month) {
		put := func(k, v string) { c.Set(ctx, k, v, 0) }
		switch l.Algorithm {
		case limiter.Concurrency:
			continue // a sorted set has no form to get wrong but its scores
		case limiter.SlidingWindowLog:
			put = func(k, v string) { c.RPush(ctx, k, "0", v) }
		}
		for _, v := range strs {
			a := ask(entity(), i, l)
			put("sl:"+string(a.Key), v)
			err := s.Do(ctx, &limiter.Request{Asks: []limiter.Ask{a}}, &limiter.Result{})
			if limiter.CauseOf(err) != limiter.CauseBadState {
				t.Errorf("%s with %q: %v", l.Algorithm, v, err)
			}
		}
	}
}

func TestStore_MalformedRecordIsRefused(t *testing.T) {
	c := client(t, testenv.SharedRedis(t).URL())
	s := open(t, c, redisstore.Options{})
	for _, v := range []string{"", "x", "\xc1", "\x93\x01\x02\x03", "\x93\x01\x00\x05"} {
		name := entity()
		c.Set(context.Background(), "sl:{"+name+"}:r:id", v, 0)
		a := ask(name, 1, limits(month)[0])
		err := s.Do(context.Background(), &limiter.Request{ID: "id", Asks: []limiter.Ask{a}}, &limiter.Result{})
		wantCause(t, err, limiter.CauseBadState, false)
		if c.Exists(context.Background(), "sl:"+string(a.Key)).Val() != 0 {
			t.Error("the bucket was charged all the same")
		}
	}
}

func TestStore_LongLogStaysCheapAndExact(t *testing.T) {
	clock := storetest.NewClock(1_760_000_000_000)
	c := client(t, testenv.SharedRedis(t).URL())
	s := open(t, c, redisstore.Options{Clock: clock.Now})
	a := ask(entity(), 1, limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 2000, Window: 10_000})
	calls := make([]limiter.Call, 2000)
	for i := range calls {
		calls[i].Request.Asks = []limiter.Ask{a}
	}
	for i := range 20 { // one entry a millisecond, 100 requests at a time
		for j := range 100 {
			s.DoAll(context.Background(), calls[i*100+j:i*100+j+1])
			clock.Advance(1)
		}
	}
	clock.Set(1_760_000_000_000 + 10_000 + 999) // a thousand have expired
	a.Weight = 1001
	if d := take(t, s, "", a).Limits[0]; d.Allowed || d.RetryAfter != 1 || d.Remaining != 1000 {
		t.Fatalf("got %+v", d)
	}
	if n := c.LLen(context.Background(), "sl:"+string(a.Key)).Val(); n != 9 {
		t.Errorf("2,000 entries are %d elements, want 7 blocks, the index and the tail", n)
	}
	clock.Advance(1)
	if d := take(t, s, "", a).Limits[0]; !d.Allowed || d.Remaining != 0 {
		t.Fatalf("got %+v", d)
	}
	if n := c.LLen(context.Background(), "sl:"+string(a.Key)).Val(); n != 6 {
		t.Errorf("a take that found a thousand expired entries left %d elements", n)
	}
	if n := c.MemoryUsage(context.Background(), "sl:"+string(a.Key)).Val(); n > 6000 {
		t.Errorf("a log of a thousand entries takes %d bytes", n)
	}
}

func TestStore_NewRefusesABadPrefixAndNoClient(t *testing.T) {
	if _, err := redisstore.New(redisstore.Options{}); err == nil {
		t.Error("no client was accepted")
	}
	c := redis.NewClient(&redis.Options{})
	defer func() { _ = c.Close() }()
	if _, err := redisstore.New(redisstore.Options{Client: c, Prefix: "{a}"}); err == nil {
		t.Error("braces in the prefix were accepted")
	}
}
