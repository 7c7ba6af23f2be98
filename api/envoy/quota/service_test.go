package quota

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"sluice/limiter"
)

type nopObserver struct{}

func (nopObserver) HoldQuota(int, int)       {}
func (nopObserver) CountQuota(string, int64) {}
func (nopObserver) RefuseQuota(string)       {}

// No message makes the service panic, and what it refuses has a status that says so.
func FuzzReport(f *testing.F) {
	for _, m := range []*quotav3.RateLimitQuotaUsageReports{
		{}, {Domain: "shop"},
		{Domain: "shop", BucketQuotaUsages: []*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{
			nil, {}, {BucketId: &quotav3.BucketId{Bucket: user}, NumRequestsDenied: 1},
			{BucketId: &quotav3.BucketId{Bucket: user}, NumRequestsAllowed: 1 << 63},
		}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, b)
	}
	w := newWorld(f, 1, perUser(nil), 1)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		s := NewService(Deps{Checker: w.checker, Now: func() time.Time { return time.UnixMilli(w.now) },
			Observe: nopObserver{}, Logger: slog.New(slog.DiscardHandler)})
		x, err := s.open("a")
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{first, second} {
			m, err := decode(b)
			if err != nil {
				return
			}
			if _, err := x.report(m); err != nil {
				if code := status.Code(err); code != codes.InvalidArgument && code != codes.ResourceExhausted {
					t.Errorf("refused with %v", err)
				}
				break
			}
		}
		for _, h := range x.stream.Due(10, 0) {
			x.ask(t.Context(), h)()
		}
		s.message(x.stream.Actions(10, 0))
		if s.close(x); s.book.Holders() != 0 {
			t.Errorf("%d holders after the stream", s.book.Holders())
		}
	})
}

// counted is an Observer of units and refusals.
type counted struct {
	nopObserver
	units   map[string]int64
	refused map[string]int
}

func (c counted) CountQuota(what string, units int64) { c.units[what] += units }
func (c counted) RefuseQuota(reason string)           { c.refused[reason]++ }

func usages(n int, allowed uint64, name func(i int) string) *quotav3.RateLimitQuotaUsageReports {
	m := &quotav3.RateLimitQuotaUsageReports{Domain: "shop"}
	for i := range n {
		m.BucketQuotaUsages = append(m.BucketQuotaUsages, &quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{
			BucketId: &quotav3.BucketId{Bucket: map[string]string{"user": name(i)}}, NumRequestsAllowed: allowed})
	}
	return m
}

// newCounted is a Service with a stream.
func newCounted(t *testing.T) (*serving, counted) {
	t.Helper()
	w, c := newWorld(t, 1, perUser(nil), 1), counted{units: map[string]int64{}, refused: map[string]int{}}
	s := NewService(Deps{Checker: w.checker, Now: func() time.Time { return time.UnixMilli(w.now) }, Observe: c,
		Logger: slog.New(slog.DiscardHandler)})
	x, err := s.open("a")
	if err != nil {
		t.Fatal(err)
	}
	return x, c
}

// 1,100 times the largest number is more than an int64 can hold.
func TestService_TheSumOfCountsIsBounded(t *testing.T) {
	x, c := newCounted(t)
	most := limiter.MaxExact
	if _, err := x.report(usages(1100, uint64(most), strconv.Itoa)); err != nil {
		t.Fatal(err)
	}
	if got := c.units[UnitsSpent]; got != most {
		t.Errorf("%d units spent", got)
	}
}

func TestService_RefusesImpossibleReports(t *testing.T) {
	for name, m := range map[string]*quotav3.RateLimitQuotaUsageReports{
		"a bucket twice":     usages(2, 1, func(int) string { return "42" }),
		"too large a number": usages(1, uint64(limiter.MaxExact)+1, strconv.Itoa),
	} {
		x, c := newCounted(t)
		if _, err := x.report(m); status.Code(err) != codes.InvalidArgument || c.refused[refusedInvalid] != 1 {
			t.Errorf("%s: %v, refused: %v", name, err, c.refused)
		}
	}
}

func TestService_TheBytesOfNamesAreBounded(t *testing.T) {
	x, c := newCounted(t)
	long := strings.Repeat("a", 4000)
	if _, err := x.report(usages(17_000, 1, func(i int) string { return long + strconv.Itoa(i) })); err != nil {
		t.Fatal(err)
	}
	if b := x.service.book; b.names > maxNames/4 || b.holders+c.refused[refusedBuckets] != 17_000 || b.holders < 4000 {
		t.Errorf("%d holders with %d bytes, refused: %v", b.holders, b.names, c.refused)
	}
	x.service.close(x)
	if b := x.service.book; b.names != 0 {
		t.Errorf("%d bytes after the stream", b.names)
	}
}

func TestService_StreamsAreBounded(t *testing.T) {
	w, c := newWorld(t, 1, perUser(nil), 1), counted{units: map[string]int64{}, refused: map[string]int{}}
	s := NewService(Deps{Checker: w.checker, Now: func() time.Time { return time.UnixMilli(w.now) },
		Observe: c, Logger: slog.New(slog.DiscardHandler)})
	open := func(n int, caller string) (last *serving) {
		for range n {
			x, err := s.open(caller)
			if err != nil {
				t.Fatal(err)
			}
			last = x
		}
		return last
	}
	refuses := func(caller, reason, what string) {
		t.Helper()
		before := c.refused[reason]
		if _, err := s.open(caller); status.Code(err) != codes.ResourceExhausted || c.refused[reason] != before+1 {
			t.Errorf("%s: %v, refused: %v", what, err, c.refused)
		}
	}
	first := open(250, "a")
	refuses("a", refusedCaller, "one more of a caller")
	s.close(first)
	open(1, "a")
	refuses("a", refusedCaller, "again")
	open(250, "b")
	open(250, "c")
	last := open(250, "d")
	refuses("e", refusedStreams, "one more of a node")
	s.close(last)
	s.close(open(1, "e"))
	if len(s.callers) != 4 {
		t.Errorf("%d callers", len(s.callers))
	}
}
