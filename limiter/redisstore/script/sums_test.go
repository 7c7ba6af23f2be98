package script

import (
	"context"
	"encoding/binary"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
	"sluice/limiter"
)

// spanning sends takes of one bucket that spans regions.
type spanning struct {
	t      *testing.T
	client *redis.Client
	names  Names
}

func newSpanning(t *testing.T) *spanning {
	c := redis.NewClient(&redis.Options{Addr: testenv.SharedRedis(t).Addr, MaxRetries: -1, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	prefix := t.Name() + ":"
	return &spanning{t: t, client: c, names: Names{
		Prefix: prefix, Bucket: func(k limiter.Key) string { return prefix + string(k) },
	}}
}

// take takes w units of one limit and returns the decision and the name of its bucket.
func (s *spanning) take(a limiter.Ask) (limiter.Decision, string) {
	s.t.Helper()
	r := &Request{}
	r.Encode(&s.names, &limiter.Request{Asks: []limiter.Ask{a}})
	keys, arg := Encode([]*Request{r}, nil)
	reply, err := s.client.Eval(context.Background(), New().Source, keys, arg, s.names.Prefix+"changed", 3, 200).Text()
	if err != nil {
		s.t.Fatal(err)
	}
	Decode(reply, []*Request{r})
	if r.Err != nil {
		s.t.Fatal(r.Err)
	}
	return r.Result.Limits[0], r.Keys[0]
}

// stored returns the sums of a bucket as they are stored.
func (s *spanning) stored(name string) limiter.Sums {
	s.t.Helper()
	m, err := SumsOf(s.client.Get(context.Background(), name).Val())
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// sumsBy returns the stored form of sums that the version before wrote, of a bucket that is listed or not.
func sumsBy(m limiter.Sums, listed bool) (out []byte) {
	newest, rest := m.Windows[0], m.Windows[1:]
	for _, n := range [...]int64{m.Born, m.Reset, m.Given, m.Shape, m.Denied, m.Taken - newest.Units} {
		out = append(out, binary.BigEndian.AppendUint64(nil, uint64(n))[1:]...) //nolint:gosec // as in two's complement
	}
	for _, w := range rest {
		out = append(out, binary.BigEndian.AppendUint64(nil, uint64(w.Number))[1:]...) //nolint:gosec // see above
		out = append(out, binary.BigEndian.AppendUint64(nil, uint64(w.Units))[1:]...)  //nolint:gosec // see above
	}
	mark := uint16(2 * (len(out) + 30)) //nolint:gosec // few
	if listed {
		mark++
	}
	out = binary.LittleEndian.AppendUint32(out, uint32(m.Guard.Share)) //nolint:gosec // at most FullShare
	out = binary.LittleEndian.AppendUint64(out, math.Float64bits(float64(m.Guard.Told)))
	out = binary.LittleEndian.AppendUint64(out, math.Float64bits(float64(newest.Number)))
	out = binary.LittleEndian.AppendUint16(out, mark)
	return binary.LittleEndian.AppendUint64(out, math.Float64bits(float64(newest.Units)))
}

// A region whose nodes are replaced goes on with what the version before has stored.
func TestSums_OfTheVersionBeforeAreRead(t *testing.T) {
	for _, l := range []limiter.Limit{
		{Algorithm: limiter.FixedWindow, Count: 100, Window: 3_000_000_000},
		{Algorithm: limiter.SlidingWindowCounter, Count: 100, Window: 3_000_000_000},
		{Algorithm: limiter.SlidingWindowBuckets, Count: 100, Window: 3_000_000_000, Buckets: 2},
		{Algorithm: limiter.TokenBucket, Count: 100, Window: 3_000_000_000, Burst: 100},
	} {
		t.Run(l.Algorithm.String(), func(t *testing.T) { readsSumsBefore(t, l) })
	}
}

func readsSumsBefore(t *testing.T, l limiter.Limit) {
	s, ctx := newSpanning(t), context.Background()
	take := func(key string, spans bool) (limiter.Decision, string) {
		return s.take(limiter.Ask{Key: limiter.Key(key), Limit: l, Weight: 5, Spans: spans, Guard: limiter.GuardOpen})
	}
	_, plain := take("{a}|1|sc", false)
	_, name := take("{a}|1|sc", true)
	want := s.stored(name)
	newest := want.Windows[0]
	want.Born, want.Given, want.Denied, want.Taken = 1_700_000_000_000, 2, 4, 30
	want.Windows = append(want.Windows, limiter.WindowUnits{Number: newest.Number - 1, Units: 20})
	before := func(m limiter.Sums, listed bool) string {
		return s.client.Get(ctx, plain).Val() + string(sumsBy(m, listed))
	}

	s.client.Set(ctx, name, before(want, true), 0)
	if diff := cmp.Diff(want, s.stored(name)); diff != "" {
		t.Errorf("as it is stored (-want +got):\n%s", diff)
	}
	d, _ := take("{a}|1|sc", true)
	if want := int64(90); d.Remaining != want {
		t.Errorf("remaining %d, want %d: the state was not read", d.Remaining, want)
	}
	want.Taken, want.Windows[0].Units = want.Taken+5, newest.Units+5
	if diff := cmp.Diff(want, s.stored(name)); diff != "" {
		t.Errorf("after a take (-want +got):\n%s", diff)
	}

	s.client.Set(ctx, name, before(want, true), 0)
	s.client.HSet(ctx, name+heardSuffix, "us", string(sumsBy(want, false)))
	changed, leased := s.names.Prefix+"changed", s.names.Prefix+"leased"
	export := func() Member {
		t.Helper()
		reply, err := s.client.Eval(ctx, Exporting().Source, []string{changed, leased}, 10, 60_000).Text()
		if err != nil {
			t.Fatal(err)
		}
		members, err := DecodeExport(reply)
		if err != nil || len(members) != 1 {
			t.Fatalf("exported %v, %v, want one bucket", members, err)
		}
		return members[0]
	}
	m := export()
	if diff := cmp.Diff(want, m.Sums); diff != "" {
		t.Errorf("as it is exported (-want +got):\n%s", diff)
	}
	if len(m.Heard) != 1 || m.Heard[0].Sums.Taken != want.Taken {
		t.Errorf("heard of %v, want 35 units of us", m.Heard)
	}

	s.client.Set(ctx, name, before(want, false), 0)
	m.Guard = limiter.Guard{Share: 1, Told: newest.Units}
	confirm := EncodeConfirm([]Member{m})
	err := s.client.Eval(ctx, Confirming().Source, []string{leased}, confirm).Err()
	if err != nil && err != redis.Nil { //nolint:errorlint // as the client returns it
		t.Fatal(err)
	}
	if d, _ := take("{a}|1|sc", true); !d.Held {
		t.Errorf("%+v, want it to be held back by the guard that was confirmed", d)
	}
	want.Denied += 5
	if diff := cmp.Diff(want, export().Sums); diff != "" {
		t.Errorf("after a denial (-want +got):\n%s", diff)
	}
}

// The commonest takes leave the life of the bucket as it is, which therefore suffices for all takes of the window.
func TestSums_LiveUntilNothingCounts(t *testing.T) {
	s := newSpanning(t)
	const window = 600_000
	for _, l := range []limiter.Limit{
		{Algorithm: limiter.FixedWindow, Count: 1000, Window: window},
		{Algorithm: limiter.FixedWindow, Count: 1000, Window: window, Align: limiter.AlignFirstHit},
		{Algorithm: limiter.SlidingWindowCounter, Count: 1000, Window: window},
		{Algorithm: limiter.SlidingWindowBuckets, Count: 1000, Window: window, Buckets: 60},
		{Algorithm: limiter.SlidingWindowLog, Count: 1000, Window: window},
		{Algorithm: limiter.TokenBucket, Count: 1000, Window: window, Burst: 1000},
		{Algorithm: limiter.GCRA, Count: 1000, Window: window, Burst: 1000},
		{Algorithm: limiter.LeakyBucket, Count: 1000, Window: window, Burst: 1000},
	} {
		key := limiter.Key("{a}|" + string(rune('a'+l.Align)) + "|" + l.Algorithm.String())
		for _, weight := range []int64{1, 1, 900} {
			d, name := s.take(limiter.Ask{Key: key, Limit: l, Weight: weight, Spans: true})
			left := s.client.PTTL(context.Background(), name).Val().Milliseconds()
			if !d.Allowed || left < d.Reset {
				t.Errorf("%s: %+v, which is kept for %d ms, want the reset at least", l.Algorithm, d, left)
			}
		}
	}
}
