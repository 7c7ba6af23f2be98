package memstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/storetest"
)

var (
	fiveASecond = limiter.Limit{Algorithm: limiter.FixedWindow, Count: 5, Window: 1000}
	fiveAnHour  = limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 5, Window: 3_600_000}
)

// take takes 1 of l on key and fails the test on an error.
func take(t *testing.T, s limiter.Store, id, key string, l limiter.Limit) limiter.Decision {
	t.Helper()
	var res limiter.Result
	req := &limiter.Request{ID: id, Asks: []limiter.Ask{{Key: limiter.DirectKey(key, l), Limit: l, Weight: 1}}}
	if err := s.Do(context.Background(), req, &res); err != nil {
		t.Fatal(err)
	}
	return res.Limits[0]
}

func TestStore_ForgetsWhatExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.Options{})
		defer s.Close()
		for i := range 3000 {
			take(t, s, fmt.Sprint(i), fmt.Sprint(i), fiveASecond)
		}
		take(t, s, "", "stays", fiveAnHour)
		if s.Keys() != 3001 || s.Records() != 3000 {
			t.Fatalf("%d keys and %d records, want 3001 and 3000", s.Keys(), s.Records())
		}
		<-time.After(30 * time.Second)
		if s.Keys() != 1 {
			t.Errorf("%d keys after 30 s, want 1", s.Keys())
		}
		if s.Records() != 3000 {
			t.Errorf("%d records after 30 s, want 3000: they live a minute", s.Records())
		}
		<-time.After(2 * time.Minute)
		if s.Records() != 0 {
			t.Errorf("%d records after two minutes, want 0", s.Records())
		}
		if d := take(t, s, "", "stays", fiveAnHour); d.Remaining != 3 {
			t.Errorf("remaining %d of the key that stays, want 3", d.Remaining)
		}
	})
}

func TestStore_SteppedClockForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := storetest.NewClock(noon)
		s := memstore.New(memstore.Options{Clock: clock.Now})
		defer s.Close()
		take(t, s, "", "k", fiveASecond)
		clock.Advance(86_400_000)
		<-time.After(30 * time.Second)
		clock.Advance(-86_400_000)
		if d := take(t, s, "", "k", fiveASecond); d.Remaining != 3 {
			t.Errorf("remaining %d after the clock went a day forth and back, want 3", d.Remaining)
		}
	})
}

func TestStore_LongerLimitKeepsBucketLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.Options{})
		defer s.Close()
		short := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1, Window: 1000, Align: limiter.AlignFirstHit}
		long := short
		long.Window = 3_600_000
		take := func(l limiter.Limit) bool {
			var res limiter.Result
			req := &limiter.Request{Asks: []limiter.Ask{{Key: "{user:42}|1|fw", Limit: l, Weight: 1}}}
			if err := s.Do(t.Context(), req, &res); err != nil {
				t.Fatal(err)
			}
			return res.Allowed
		}
		take(short)
		if take(long) {
			t.Fatal("the edit forgot the consumption")
		}
		<-time.After(10 * time.Minute)
		if take(long) {
			t.Error("the longer window ended early: the denial did not prolong the bucket's life")
		}
	})
}

func TestStore_StaysUnderItsCaps(t *testing.T) {
	// Evictions choose among random shards, so that some long-lived keys go too: 9 of 50 on average, hardly ever 20.
	const maxKeys, long = 1000, 50
	s := newStore(t, memstore.Options{MaxKeys: maxKeys})
	for i := range long {
		take(t, s, "", fmt.Sprint("hour ", i), fiveAnHour)
	}
	for i := range 10 * maxKeys {
		take(t, s, "", fmt.Sprint("flood ", i), fiveASecond)
		if s.Keys() > maxKeys {
			t.Fatalf("%d keys, the cap is %d", s.Keys(), maxKeys)
		}
	}
	if s.Evicted() < 8*maxKeys {
		t.Errorf("evicted %d, want about %d", s.Evicted(), 9*maxKeys)
	}
	kept := 0
	for i := range long {
		if take(t, s, "", fmt.Sprint("hour ", i), fiveAnHour).Remaining == 3 {
			kept++
		}
	}
	if kept < long*3/5 {
		t.Errorf("a flood of short-lived keys evicted %d of %d long-lived ones", long-kept, long)
	}
}

func TestStore_KeepsNoneOfTheCallersMemory(t *testing.T) {
	s := newStore(t, memstore.Options{})
	for _, name := range []string{"short", strings.Repeat("x", 90)} {
		key := []byte("{user:" + name + "}|1|")
		id := []byte("some id")
		request := func(l limiter.Limit) *limiter.Request {
			k := unsafe.String(unsafe.SliceData(key), len(key))
			return &limiter.Request{ID: unsafe.String(unsafe.SliceData(id), len(id)),
				Asks: []limiter.Ask{{Key: limiter.Key(k), Limit: l, Weight: 1}}}
		}
		limits := []limiter.Limit{fiveAnHour, {Algorithm: limiter.Concurrency, Count: 5, Window: 3_600_000}}
		for i, l := range limits {
			key[len(key)-2] = byte('1' + i)
			mustDo(t, s, request(l))
		}
		saved := string(id)
		copy(id, "XXXXXXX")
		for i, l := range limits {
			key[len(key)-2] = byte('1' + i)
			if got := mustDo(t, s, request(l)); got.Replayed || got.Limits[0].Remaining != 3 {
				t.Errorf("%s: got %+v for another id, want 3 remaining", l.Algorithm, got)
			}
			copy(id, saved)
			if got := mustDo(t, s, request(l)); got.Limits[0].Remaining > 4 || got.Limits[0].Remaining < 3 {
				t.Errorf("%s: got %+v for the first id, want no further charge", l.Algorithm, got)
			}
			copy(id, "XXXXXXX")
		}
	}
}

func TestStore_CheckAllocatesNothing(t *testing.T) {
	s := newStore(t, memstore.Options{})
	for _, l := range benchLimits {
		req := &limiter.Request{Asks: []limiter.Ask{{Key: limiter.DirectKey("k", l), Limit: l, Weight: 1}}}
		var res limiter.Result
		got := testing.AllocsPerRun(1000, func() {
			if err := s.Do(context.Background(), req, &res); err != nil {
				t.Fatal(err)
			}
		})
		if got >= 1 {
			t.Errorf("%s: %v allocations a check, want none", l.Algorithm, got)
		}
	}
}

func TestStore_ClosedRefusesButCanBeSaved(t *testing.T) {
	s := memstore.New(memstore.Options{})
	take(t, s, "", "k", fiveAnHour)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	req := &limiter.Request{Asks: []limiter.Ask{{Key: "{k}|1|sc", Limit: fiveAnHour, Weight: 1}}}
	err := s.Do(context.Background(), req, &limiter.Result{})
	if got := limiter.CauseOf(err); err == nil || got != limiter.CauseClosed {
		t.Errorf("got %v, want cause %s", err, limiter.CauseClosed)
	}
	var se *limiter.StoreError
	if !errors.As(err, &se) || se.Unknown {
		t.Errorf("got %v, want a StoreError that says not applied", err)
	}
	var buf bytes.Buffer
	if err := s.Snapshot(&buf); err != nil {
		t.Fatal(err)
	}
	restored := newStore(t, memstore.Options{})
	if err := restored.Restore(&buf); err != nil {
		t.Fatal(err)
	}
	if d := take(t, restored, "", "k", fiveAnHour); d.Remaining != 3 {
		t.Errorf("remaining %d after save and load, want 3", d.Remaining)
	}
}

func TestStore_SumsAreDroppedWithTheirBuckets(t *testing.T) {
	s := memstore.New(memstore.Options{MaxKeys: 100})
	defer s.Close()
	for i := range 20_000 {
		var res limiter.Result
		key := limiter.DirectKey(fmt.Sprint(i), fiveAnHour)
		a := limiter.Ask{Key: key, Limit: fiveAnHour, Weight: 1, Spans: true}
		if err := s.Do(context.Background(), &limiter.Request{Asks: []limiter.Ask{a}}, &res); err != nil {
			t.Fatal(err)
		}
	}
	sums, err := s.Export(context.Background(), 100_000, time.Hour)
	if err != nil || len(sums) != 100 {
		t.Errorf("%d buckets exported, %v, want the 100 that are left", len(sums), err)
	}
}

func TestModel_RegionsConform(t *testing.T) {
	storetest.Regions(t, storetest.RegionHarness{New: func(t *testing.T, clock func() int64) limiter.Exporter {
		s := memstore.New(memstore.Options{Clock: clock, Regions: storetest.TwoRegions})
		t.Cleanup(func() { _ = s.Close() })
		return s
	}})
}
