package updates

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/internal/region"
	"sluice/limiter"
)

const testNow = 1_795_000_000_000

// headAt is the head of a message from eu to us.
func headAt(at int64) *region.Head {
	return &region.Head{From: "eu", To: "us", Prefix: "sl:", At: at, Set: 7}
}

// message is one of some buckets.
func message(at int64, buckets []Bucket) *Message {
	return &Message{Head: *headAt(at), Buckets: buckets}
}

// drawSums draws sums that pass their check.
func drawSums(t *rapid.T) (m limiter.Sums) {
	large := rapid.SampledFrom([]int64{10, 1_000_000, limiter.MaxExact / 8}).Draw(t, "large")
	m = limiter.Sums{
		Born: rapid.Int64Range(0, 1<<42).Draw(t, "born"), Reset: rapid.Int64Range(0, 1<<42).Draw(t, "reset"),
		Shape: rapid.Int64Range(0, 1<<50).Draw(t, "shape"), Given: rapid.Int64Range(0, large).Draw(t, "given"),
	}
	if rapid.Bool().Draw(t, "drains") {
		m.Count = rapid.Int64Range(0, large).Draw(t, "limit")
		m.Burst = rapid.Int64Range(1, large).Draw(t, "burst")
	}
	m.Taken = m.Given + rapid.Int64Range(0, large).Draw(t, "taken")
	number := rapid.Int64Range(-1<<42, 1<<42).Draw(t, "number")
	for range rapid.IntRange(0, 3).Draw(t, "windows") {
		units := rapid.Int64Range(0, large).Draw(t, "units")
		m.Windows = append(m.Windows, limiter.WindowUnits{Number: number, Units: units})
		m.Taken += units
		number -= rapid.Int64Range(1, 100).Draw(t, "older")
	}
	return m
}

func TestMessage_IsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfNDistinct(rapid.StringN(1, 40, 200), 1, 20, rapid.ID).Draw(t, "keys")
		var want []Bucket
		for _, k := range keys {
			want = append(want, Bucket{limiter.Key(k), drawSums(t)})
		}
		m := message(1_795_000_000_000, want)
		m.CutOff = rapid.SampledFrom([][]string{nil, {"asia"}, {"asia", "sa"}}).Draw(t, "away")
		messages := Encode(m) // sorts them
		if len(messages) != 1 {
			t.Fatalf("%d messages, want 1", len(messages))
		}
		got, err := Decode(messages[0], testNow)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// busy returns the sums of many buckets as a busy region has them.
func busy(n int) []Bucket {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]Bucket, n)
	for i := range out {
		units, before := r.Int64N(200), r.Int64N(200)
		out[i] = Bucket{limiter.Key(fmt.Sprintf("{user:%08x}|%d|sc", r.Uint32(), 1+i%3)), limiter.Sums{
			Born: 1_795_000_000_000 - r.Int64N(3_600_000), Shape: 60_000*1441 + 1, Taken: units + before + r.Int64N(5000),
			Windows: []limiter.WindowUnits{{Number: 29_916_666, Units: units}, {Number: 29_916_665, Units: before}},
		}}
	}
	return out
}

func TestDecode_RefusesOtherVersions(t *testing.T) {
	b := Encode(message(1_795_000_000_000, nil))[0]
	for _, version := range []byte{0, Version - 1, Version + 1} {
		b[0] = version
		if _, err := Decode(b, testNow); !errors.Is(err, region.ErrMessage) || !strings.Contains(err.Error(), "version") {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

func TestMessage_KeepsItsBoundsAndIsSmall(t *testing.T) {
	const n = 60_000
	seen, size := 0, 0
	for _, b := range Encode(message(1_795_000_000_000, busy(n))) {
		if len(b) > region.MaxMessage {
			t.Errorf("a message of %d bytes", len(b))
		}
		m, err := Decode(b, testNow)
		if err != nil {
			t.Fatal(err)
		}
		seen, size = seen+len(m.Buckets), size+len(b)
	}
	t.Logf("%.1f bytes a bucket", float64(size)/n)
	if seen != n || size > 60*n {
		t.Errorf("%d of %d buckets in %d bytes, want at most 60 bytes a bucket", seen, n, size)
	}
}

func TestMessage_WithoutBucketsSaysWhoIsThere(t *testing.T) {
	messages := Encode(message(5, nil))
	if len(messages) != 1 {
		t.Fatalf("%d messages", len(messages))
	}
	m, err := Decode(messages[0], testNow)
	if err != nil || m.Head != *headAt(5) || len(m.Buckets) > 0 {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestMessage_ALongBucketFits(t *testing.T) {
	long := Bucket{Key: limiter.Key(bytes.Repeat([]byte("k"), maxKey))}
	for i := range limiter.MaxSumWindows {
		long.Sums.Windows = append(long.Sums.Windows, limiter.WindowUnits{Number: int64(-i) * (1 << 40), Units: 1 << 40})
		long.Sums.Taken += 1 << 40
	}
	if m, err := Decode(Encode(message(5, []Bucket{long}))[0], testNow); err != nil || len(m.Buckets) != 1 {
		t.Errorf("%v", err)
	}
}

func TestDecode_RefusesWhatEncodeWouldNotWrite(t *testing.T) {
	good := Encode(message(5000, busy(3)))[0]
	twice := busy(1)
	twice = append(twice, twice[0])
	wrong := busy(1)
	wrong[0].Sums.Given = wrong[0].Sums.Taken
	headless := func(h region.Head) []byte { return Encode(&Message{Head: h, Buckets: busy(1)})[0] }
	for name, b := range map[string][]byte{
		"nothing":                  nil,
		"another version":          append([]byte{Version + 1}, good[1:]...),
		"cut off twice":            Encode(&Message{Head: *headAt(5000), CutOff: []string{"a", "a"}})[0],
		"cut off without a name":   Encode(&Message{Head: *headAt(5000), CutOff: []string{""}})[0],
		"cut off from too many":    Encode(&Message{Head: *headAt(5000), CutOff: manyNames(maxCutOff + 1)})[0],
		"no frame":                 {Version, 1, 2, 3},
		"too long":                 make([]byte, region.MaxMessage+1),
		"cut off":                  good[:len(good)-1],
		"no region":                headless(region.Head{To: "us", Prefix: "sl:", At: 5000}),
		"no receiver":              headless(region.Head{From: "eu", Prefix: "sl:", At: 5000}),
		"no prefix":                headless(region.Head{From: "eu", To: "us", At: 5000}),
		"a key twice":              Encode(message(5000, twice))[0],
		"sums that are none":       Encode(message(5000, wrong))[0],
		"a time before 1970":       Encode(message(-1, busy(1)))[0],
		"something behind the end": packer.EncodeAll(append(mustUnpack(t, good), 0), []byte{Version}),
		"more than it may unpack":  packer.EncodeAll(make([]byte, 4*region.MaxMessage), []byte{Version}),
	} {
		if m, err := Decode(b, testNow); !errors.Is(err, region.ErrMessage) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
}

// manyNames are names in order.
func manyNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("r%03d", i))
	}
	return names
}

func mustUnpack(t testing.TB, b []byte) []byte {
	t.Helper()
	body, err := unpacker.DecodeAll(b[1:], nil)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func FuzzDecode(f *testing.F) {
	f.Add(mustUnpack(f, Encode(message(5000, busy(4)))[0]))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := Decode(packer.EncodeAll(body, []byte{Version}), testNow)
		if err != nil {
			return
		}
		for i := range m.Buckets {
			if err := m.Buckets[i].Sums.Check(); err != nil {
				t.Errorf("%+v: %v", m.Buckets[i], err)
			}
		}
	})
}

func BenchmarkMessage(b *testing.B) {
	buckets := busy(10_000)
	size := 0
	for b.Loop() {
		for _, m := range Encode(message(1_795_000_000_000, buckets)) {
			size += len(m)
			if _, err := Decode(m, testNow); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(buckets)), "ns/bucket")
	b.ReportMetric(float64(size)/float64(b.N*len(buckets)), "bytes/bucket")
}
