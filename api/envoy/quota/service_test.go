package quota

import (
	"log/slog"
	"testing"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
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
		x, err := s.open()
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{first, second} {
			m, err := decode(b)
			if err != nil {
				return
			}
			if err := x.report(m); err != nil {
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

func TestService_StreamsAreBounded(t *testing.T) {
	w := newWorld(t, 1, perUser(nil), 1)
	s := NewService(Deps{Checker: w.checker, Now: func() time.Time { return time.UnixMilli(w.now) },
		Observe: nopObserver{}, Logger: slog.New(slog.DiscardHandler)})
	var last *serving
	for range maxStreams {
		x, err := s.open()
		if err != nil {
			t.Fatal(err)
		}
		last = x
	}
	if _, err := s.open(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more: %v", err)
	}
	s.close(last)
	if _, err := s.open(); err != nil {
		t.Errorf("after the end of one: %v", err)
	}
}
