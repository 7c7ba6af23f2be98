package memstore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/storetest"
)

const noon = 1_795_000_000_000

// oneOfEach is a limit of every algorithm.
var oneOfEach = []limiter.Limit{
	{Algorithm: limiter.FixedWindow, Count: 10, Window: 60_000},
	{Algorithm: limiter.SlidingWindowLog, Count: 10, Window: 60_000},
	{Algorithm: limiter.SlidingWindowCounter, Count: 10, Window: 60_000},
	{Algorithm: limiter.SlidingWindowBuckets, Count: 10, Window: 60_000, Buckets: 60},
	{Algorithm: limiter.TokenBucket, Count: 10, Window: 60_000, Burst: 10},
	{Algorithm: limiter.GCRA, Count: 10, Window: 60_000, Burst: 10},
	{Algorithm: limiter.LeakyQueue, Count: 10, Window: 60_000, Burst: 10},
	{Algorithm: limiter.Concurrency, Count: 10, Window: 60_000},
}

// request is a request of op on one or all of the limits of an entity.
func request(op limiter.Op, id string, who int, limits ...limiter.Limit) *limiter.Request {
	req := &limiter.Request{Op: op, ID: id}
	for i, l := range limits {
		key := limiter.Key(fmt.Sprintf("{user:%d}|%d|%s", who, i, l.Algorithm))
		req.Asks = append(req.Asks, limiter.Ask{Key: key + limiter.Key("|"+l.Algorithm.Kind()), Limit: l, Weight: 1})
	}
	return req
}

func mustDo(t interface {
	Helper()
	Fatal(args ...any)
}, s limiter.Store, req *limiter.Request) limiter.Result {
	t.Helper()
	var res limiter.Result
	if err := s.Do(context.Background(), req, &res); err != nil {
		t.Fatal(err)
	}
	return res
}

// sample is the snapshot of a small store at noon.
func sample(t testing.TB) []byte {
	t.Helper()
	clock := storetest.NewClock(noon)
	s := newStore(t, memstore.Options{Clock: clock.Now})
	mustDo(t, s, request(limiter.OpTake, "a", 1, oneOfEach...))
	clock.Advance(1000)
	mustDo(t, s, request(limiter.OpTake, "b", 1, oneOfEach...))
	var buf bytes.Buffer
	if err := s.Snapshot(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestSnapshot_RestoredStoreAnswersAsTheFirst(t *testing.T) {
	clock := storetest.NewClock(noon)
	rapid.Check(t, func(rt *rapid.T) {
		clock.Set(noon)
		first, second := memstore.New(memstore.Options{Clock: clock.Now}), memstore.New(memstore.Options{Clock: clock.Now})
		defer first.Close()
		defer second.Close()
		draw := func() *limiter.Request {
			clock.Advance(rapid.Int64Range(0, 9000).Draw(rt, "ms"))
			op := rapid.SampledFrom([]limiter.Op{limiter.OpTake, limiter.OpTake, limiter.OpTake, limiter.OpPeek,
				limiter.OpRefund}).Draw(rt, "op")
			id := fmt.Sprint(rapid.IntRange(0, 9).Draw(rt, "id"))
			n := rapid.IntRange(1, len(oneOfEach)).Draw(rt, "limits")
			req := request(op, id, rapid.IntRange(0, 3).Draw(rt, "who"), oneOfEach[:n]...)
			if rapid.Bool().Draw(rt, "ban") {
				req.Asks = slices.Insert(req.Asks, 1, limiter.Ask{Key: limiter.BanKey(req.Asks[0].Key),
					Limit: limiter.BanLimit(2, 60_000, 10_000, 2, 40_000)})
			}
			return req
		}
		for range rapid.IntRange(0, 30).Draw(rt, "before") {
			mustDo(rt, first, draw())
		}
		var buf bytes.Buffer
		if err := first.Snapshot(&buf); err != nil {
			rt.Fatal(err)
		}
		if err := second.Restore(&buf); err != nil {
			rt.Fatal(err)
		}
		if first.Keys() != second.Keys() || first.Records() != second.Records() {
			rt.Fatalf("%d keys and %d records became %d and %d", first.Keys(), first.Records(), second.Keys(), second.Records())
		}
		for range 20 {
			req := draw()
			want, got := mustDo(rt, first, req), mustDo(rt, second, req)
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("%s %+v (-first +restored):\n%s", req.Op, req.Asks, diff)
			}
		}
	})
}

// refuses fails the test unless restoring data gives wantErr and changes
// nothing.
func refuses(t *testing.T, s *memstore.Store, data []byte, wantErr error) {
	t.Helper()
	if err := s.Restore(bytes.NewReader(data)); !errors.Is(err, wantErr) {
		t.Fatalf("got %v, want %v", err, wantErr)
	}
	if s.Keys() != 1 {
		t.Fatalf("%d keys after a refused snapshot, want the 1 from before", s.Keys())
	}
}

// occupied is a store that holds one key.
func occupied(t *testing.T) *memstore.Store {
	s := newStore(t, memstore.Options{Clock: storetest.NewClock(noon).Now})
	take(t, s, "", "mine", fiveAnHour)
	return s
}

func TestRestore_TornAnywhereIsRefused(t *testing.T) {
	data, s := sample(t), occupied(t)
	for n := range data {
		refuses(t, s, data[:n], memstore.ErrSnapshot)
	}
	refuses(t, s, append(bytes.Clone(data), 0), memstore.ErrSnapshot)
	if err := s.Restore(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
}

func TestRestore_FlippedBitAnywhereIsRefused(t *testing.T) {
	data, s := sample(t), occupied(t)
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 1 << (i % 8)
		err := s.Restore(bytes.NewReader(bad))
		if !errors.Is(err, memstore.ErrSnapshot) && !errors.Is(err, memstore.ErrSnapshotVersion) {
			t.Fatalf("byte %d of %d: got %v", i, len(data), err)
		}
	}
	if s.Keys() != 1 {
		t.Errorf("%d keys after refused snapshots, want 1", s.Keys())
	}
}

func TestRestore_KeepsWhichChargesAResetMadeVoid(t *testing.T) {
	clock := storetest.NewClock(noon)
	s := newStore(t, memstore.Options{Clock: clock.Now})
	mustDo(t, s, request(limiter.OpTake, "before", 1, fiveAnHour))
	mustDo(t, s, request(limiter.OpReset, "", 1, fiveAnHour))
	mustDo(t, s, request(limiter.OpTake, "", 1, fiveAnHour))
	mustDo(t, s, request(limiter.OpTake, "after", 1, fiveAnHour))
	var buf bytes.Buffer
	if err := s.Snapshot(&buf); err != nil {
		t.Fatal(err)
	}
	again := newStore(t, memstore.Options{Clock: clock.Now})
	if err := again.Restore(&buf); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]int64{"before": 0, "after": 1} {
		if got := mustDo(t, again, request(limiter.OpRefund, id, 1, fiveAnHour)).Limits[0].Refunded; got != want {
			t.Errorf("%s: %d given back, want %d", id, got, want)
		}
	}
}

func TestRestore_NewerVersionIsNamed(t *testing.T) {
	data := sample(t)
	binary.BigEndian.PutUint32(data[8:], 5)
	refuses(t, occupied(t), reseal(data), memstore.ErrSnapshotVersion)
}

// reseal makes the checksum fit again.
func reseal(data []byte) []byte {
	if len(data) < sha256.Size {
		return data
	}
	body := data[: len(data)-sha256.Size : len(data)-sha256.Size]
	sum := sha256.Sum256(body)
	return append(body, sum[:]...)
}

func TestRestore_LeavesOutWhatExpired(t *testing.T) {
	clock := storetest.NewClock(noon)
	s := newStore(t, memstore.Options{Clock: clock.Now})
	take(t, s, "", "soon", fiveASecond)
	take(t, s, "a", "later", fiveAnHour)
	var buf bytes.Buffer
	if err := s.Snapshot(&buf); err != nil {
		t.Fatal(err)
	}
	clock.Advance(10 * 60_000)
	restored := newStore(t, memstore.Options{Clock: clock.Now})
	if err := restored.Restore(&buf); err != nil {
		t.Fatal(err)
	}
	if restored.Keys() != 1 || restored.Records() != 1 {
		t.Errorf("%d keys and %d records, want 1 and 1", restored.Keys(), restored.Records())
	}
	if d := take(t, restored, "", "later", fiveAnHour); d.Remaining != 3 {
		t.Errorf("remaining %d, want 3", d.Remaining)
	}
}

func TestRestore_StaysUnderASmallerCap(t *testing.T) {
	clock := storetest.NewClock(noon)
	first := newStore(t, memstore.Options{Clock: clock.Now})
	for i := range 500 {
		take(t, first, fmt.Sprint(i), fmt.Sprint(i), fiveAnHour)
	}
	var buf bytes.Buffer
	if err := first.Snapshot(&buf); err != nil {
		t.Fatal(err)
	}
	second := newStore(t, memstore.Options{Clock: clock.Now, MaxKeys: 100, MaxRecordBytes: 50 << 10})
	if err := second.Restore(&buf); err != nil {
		t.Fatal(err)
	}
	if second.Keys() != 100 || second.Evicted() != 400 {
		t.Errorf("%d keys, %d evicted; want 100, 400", second.Keys(), second.Evicted())
	}
	if n := second.Records(); n < 25 || n > 100 || second.RecordBytes() > 50<<10 {
		t.Errorf("%d records of %d bytes, want 25 to 100 within %d bytes", n, second.RecordBytes(), 50<<10)
	}
}

func TestSnapshot_UnderTrafficIsSound(t *testing.T) {
	s := newStore(t, memstore.Options{})
	var wg sync.WaitGroup
	for who := range 4 {
		wg.Go(func() {
			for i := range 150 {
				mustDo(t, s, request(limiter.OpTake, fmt.Sprint(i), who*1000+i, oneOfEach...))
			}
		})
	}
	for range 5 {
		var buf bytes.Buffer
		if err := s.Snapshot(&buf); err != nil {
			t.Fatal(err)
		}
		restored := newStore(t, memstore.Options{})
		if err := restored.Restore(&buf); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

func TestSaveFile_AppearsWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "counters")
	s := newStore(t, memstore.Options{})
	for range 2 {
		take(t, s, "", "k", fiveAnHour)
		if err := s.SaveFile(path); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}
	restored := newStore(t, memstore.Options{})
	if err := restored.LoadFile(path); err != nil {
		t.Fatal(err)
	}
	if d := take(t, restored, "", "k", fiveAnHour); d.Remaining != 2 {
		t.Errorf("remaining %d after load, want 2", d.Remaining)
	}
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.SaveFile(filepath.Join(dir, "taken")); err == nil {
		t.Error("saving over a folder succeeded")
	}
	if err := s.SaveFile(filepath.Join(dir, "missing", "counters")); err == nil {
		t.Error("saving into a missing folder succeeded")
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestLoadFile_MissingAndTornAreToldApart(t *testing.T) {
	s := occupied(t)
	path := filepath.Join(t.TempDir(), "counters")
	if err := s.LoadFile(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	if err := os.WriteFile(path, sample(t)[:100], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.LoadFile(path); !errors.Is(err, memstore.ErrSnapshot) {
		t.Errorf("got %v, want ErrSnapshot", err)
	}
}

func FuzzRestore(f *testing.F) {
	data := sample(f)
	f.Add(data, false)
	f.Add(data[:len(data)/2], false)
	f.Add([]byte("SLUICEMS"), true)
	f.Add(bytes.Replace(bytes.Clone(data), []byte("|sb"), []byte("|sl"), 1), true)
	f.Fuzz(func(t *testing.T, data []byte, fit bool) {
		s := memstore.New(memstore.Options{Clock: storetest.NewClock(noon).Now})
		defer s.Close()
		if fit {
			data = reseal(data)
		}
		if err := s.Restore(bytes.NewReader(data)); err != nil && s.Keys() != 0 {
			t.Fatalf("refused (%v), yet %d keys are there", err, s.Keys())
		}
		// Whatever was accepted must bear every operation.
		for _, op := range []limiter.Op{limiter.OpPeek, limiter.OpTake, limiter.OpRefund, limiter.OpReset} {
			mustDo(t, s, request(op, "a", 1, oneOfEach...))
		}
	})
}

func TestSnapshot_ALongLogIsRestored(t *testing.T) {
	clock := storetest.NewClock(noon)
	first := newStore(t, memstore.Options{Clock: clock.Now})
	long := limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 5000, Window: 10_000}
	for range 3000 {
		take(t, first, "", "k", long)
		clock.Advance(1)
	}
	var buf bytes.Buffer
	if err := first.Snapshot(&buf); err != nil {
		t.Fatal(err)
	}
	if buf.Len() > 12_000 {
		t.Errorf("a log of 3000 entries takes %d bytes", buf.Len())
	}
	second := newStore(t, memstore.Options{Clock: clock.Now})
	if err := second.Restore(&buf); err != nil {
		t.Fatal(err)
	}
	clock.Set(noon + 10_000 + 999) // a thousand have expired
	if a, b := take(t, first, "", "k", long), take(t, second, "", "k", long); a != b || a.Remaining != 2999 {
		t.Errorf("before %+v, after %+v", a, b)
	}
}

func TestRestore_AMalformedLogIsRefused(t *testing.T) {
	clock := storetest.NewClock(noon)
	s := newStore(t, memstore.Options{Clock: clock.Now})
	for range 300 {
		take(t, s, "", "k", limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 5000, Window: 10_000})
		clock.Advance(1)
	}
	var buf bytes.Buffer
	if err := s.Snapshot(&buf); err != nil {
		t.Fatal(err)
	}
	block := bytes.Repeat([]byte{1, 1}, 100) // gap and units of the entries of a block
	at := bytes.Index(buf.Bytes(), block)
	if at < 0 {
		t.Fatal("no block in the snapshot")
	}
	for _, b := range []byte{0, 2, 0x80} {
		data := bytes.Clone(buf.Bytes())
		data[at+50] = b
		refuses(t, occupied(t), reseal(data), memstore.ErrSnapshot)
	}
}
