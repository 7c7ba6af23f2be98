package memstore_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/storetest"
)

// replayed takes 1 under a name and reports whether the stored answer came back.
func replayed(t *testing.T, s limiter.Store, id, key string) bool {
	t.Helper()
	var res limiter.Result
	req := &limiter.Request{ID: id, Asks: []limiter.Ask{{
		Key:   limiter.DirectKey(key, fiveAnHour),
		Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1e9, Window: 3_600_000}, Weight: 1,
	}}}
	if err := s.Do(context.Background(), req, &res); err != nil {
		t.Fatal(err)
	}
	return res.Replayed
}

func TestRecords_OldestMakeRoomAndAreCounted(t *testing.T) {
	const most = 1 << 20
	s := newStore(t, memstore.Options{MaxRecordBytes: most, Clock: storetest.NewClock(noon).Now})
	stored := 0
	for room := uint64(0); room == 0; room, _ = s.DroppedRecords() {
		replayed(t, s, "pay", fmt.Sprint("user ", stored))
		stored++
	}
	if b := s.RecordBytes(); b > most || b < most*9/10 {
		t.Errorf("%d bytes of records after the first was dropped, the bound is %d", b, most)
	}
	for i := 1; i < stored; i++ {
		if !replayed(t, s, "pay", fmt.Sprint("user ", i)) {
			t.Fatalf("request %d of %d was charged again, but only the oldest was dropped", i, stored)
		}
	}
	for i := range 3 * stored {
		replayed(t, s, "pay", fmt.Sprint("later ", i))
	}
	room, key := s.DroppedRecords()
	if held := s.Records(); room != uint64(4*stored-held) || key != 0 {
		t.Errorf("%d dropped for room, %d for a key; want %d and 0", room, key, 4*stored-held)
	}
}

func TestRecords_OneKeyUsesAnEighth(t *testing.T) {
	const most = 1 << 20
	s := newStore(t, memstore.Options{MaxRecordBytes: most, Clock: storetest.NewClock(noon).Now})
	replayed(t, s, "pay-1", "victim")
	for i := range 4000 {
		replayed(t, s, fmt.Sprint("flood-", i), "attacker")
	}
	if b := s.RecordBytes(); b > most/8+2000 {
		t.Errorf("%d bytes of records, want an eighth of %d and one record", b, most)
	}
	if !replayed(t, s, "pay-1", "victim") {
		t.Error("the ids of one key dropped the stored answer of another")
	}
	if !replayed(t, s, "flood-3999", "attacker") {
		t.Error("the newest id of the flooding key was dropped")
	}
	if replayed(t, s, "flood-0", "attacker") {
		t.Error("the oldest id of the flooding key is still there")
	}
	if room, key := s.DroppedRecords(); room != 0 || key == 0 {
		t.Errorf("%d dropped for room, %d for a key; want 0 and some", room, key)
	}
}

// The bytes that the store counts are those it uses: measured on the heap, with
// names of the usual length.
func TestRecords_BytesAreThoseOfTheHeap(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	s := newStore(t, memstore.Options{MaxRecordBytes: 32 << 20, MaxKeys: 10, Clock: storetest.NewClock(noon).Now})
	before := heap()
	for i := range 100_000 {
		replayed(t, s, fmt.Sprintf("0f8fad5b-d9cb-469f-a165-%012d", i), fmt.Sprint("user:", i))
	}
	used, counted := heap()-before, s.RecordBytes()
	if counted < 30<<20 {
		t.Fatalf("only %d bytes of records counted, the flood was too small", counted)
	}
	if used > counted*5/4 || used < counted/2 {
		t.Errorf("records take %d bytes of the heap and are counted as %d", used, counted)
	}
	runtime.KeepAlive(s)
}

func TestRecords_GoneAfterTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.Options{})
		defer s.Close()
		for i := range 1000 {
			take(t, s, fmt.Sprint(i), fmt.Sprint("key ", i%10), fiveASecond)
		}
		<-time.After(3 * time.Minute)
		if s.Records() != 0 || s.RecordBytes() != 0 {
			t.Errorf("%d records of %d bytes three minutes later, want none", s.Records(), s.RecordBytes())
		}
	})
}

func TestRecords_SettlingAndReplacingKeepTheSum(t *testing.T) {
	s := newStore(t, memstore.Options{})
	ask := []limiter.Ask{{Key: limiter.DirectKey("k", fiveAnHour), Limit: fiveAnHour, Weight: 2}}
	before := int64(0)
	for _, op := range []limiter.Op{limiter.OpTake, limiter.OpSettle, limiter.OpRefund, limiter.OpTake} {
		var res limiter.Result
		if err := s.Do(context.Background(), &limiter.Request{Op: op, ID: "a", Asks: ask}, &res); err != nil {
			t.Fatal(err)
		}
		if op == limiter.OpTake && before == 0 {
			before = s.RecordBytes()
		}
	}
	if s.RecordBytes() != before || s.Records() != 1 {
		t.Errorf("%d records of %d bytes, want one of %d", s.Records(), s.RecordBytes(), before)
	}
}

func TestRecords_StormStaysWithinItsBounds(t *testing.T) {
	const most = 1 << 20
	s := newStore(t, memstore.Options{MaxRecordBytes: most})
	var wg sync.WaitGroup
	for who := range 4 {
		wg.Go(func() {
			for i := range 3000 {
				replayed(t, s, fmt.Sprint(who, i), fmt.Sprint("key ", i%97))
			}
		})
	}
	wg.Wait()
	if b := s.RecordBytes(); b > most || b <= 0 {
		t.Errorf("%d bytes of records, the bound is %d", b, most)
	}
	room, key := s.DroppedRecords()
	if got := room + key + uint64(s.Records()); got != 12_000 {
		t.Errorf("%d dropped and held, want 12000", got)
	}
}

func TestRestore_KeepsTheOrderOfRecords(t *testing.T) {
	clock := storetest.NewClock(noon)
	first := newStore(t, memstore.Options{Clock: clock.Now})
	for i := range 300 {
		replayed(t, first, "id", fmt.Sprint("user ", i))
		clock.Advance(1)
	}
	var buf bytes.Buffer
	if err := first.Snapshot(&buf); err != nil {
		t.Fatal(err)
	}
	half := first.RecordBytes() / 2
	second := newStore(t, memstore.Options{Clock: clock.Now, MaxRecordBytes: half})
	if err := second.Restore(&buf); err != nil {
		t.Fatal(err)
	}
	held := second.Records()
	if held < 140 || second.RecordBytes() > half {
		t.Fatalf("%d records of %d bytes restored, want about 150 within %d", held, second.RecordBytes(), half)
	}
	for i := 300 - held; i < 300; i++ {
		if !replayed(t, second, "id", fmt.Sprint("user ", i)) {
			t.Fatalf("record %d was dropped, though one of the newest %d", i, held)
		}
	}
}
