package quota

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// proxyConn is a Conn whose proxy sends one message after some time, and then nothing.
type proxyConn struct {
	ctx   context.Context
	after time.Duration
	send  func(*quotav3.RateLimitQuotaResponse) error
}

var _ Conn = &proxyConn{}

func (c *proxyConn) Context() context.Context { return c.ctx }

func (c *proxyConn) Send(m *quotav3.RateLimitQuotaResponse) error { return c.send(m) }

func (c *proxyConn) Recv() ([]byte, error) {
	select {
	case <-time.After(c.after):
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}
	if c.after == silence {
		return nil, io.EOF
	}
	c.after = silence
	return proto.Marshal(&quotav3.RateLimitQuotaUsageReports{Domain: "shop",
		BucketQuotaUsages: []*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{
			{BucketId: &quotav3.BucketId{Bucket: user}, NumRequestsDenied: 1},
		}})
}

// silence is longer than any test.
const silence = time.Hour

// streamOf serves a stream in virtual time, and returns how long it took and how it ended.
func streamOf(t *testing.T, after time.Duration, send func(*quotav3.RateLimitQuotaResponse) error,
	edit func(*world, *Deps)) (took time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, perUser(nil), 1)
		d := Deps{Checker: w.checker, Now: time.Now, Observe: nopObserver{}, Logger: slog.New(slog.DiscardHandler)}
		if edit != nil {
			edit(w, &d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		err = NewService(d).Stream(&proxyConn{ctx, after, send}, "a", func() error { return nil }, nil)
		took = time.Since(begun)
		cancel()
	})
	return took, err
}

// A stream of which no message comes holds nothing for long. The first message of a large proxy takes some seconds.
func TestService_WaitsForTheFirstMessage(t *testing.T) {
	sent := func(*quotav3.RateLimitQuotaResponse) error { return nil }
	if took, err := streamOf(t, silence, sent, nil); took != 15*time.Second || status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("silence: %v after %v", err, took)
	}
	last := status.Error(codes.Aborted, "answered")
	refuse := func(*quotav3.RateLimitQuotaResponse) error { return last }
	if took, err := streamOf(t, 14*time.Second, refuse, nil); status.Code(err) != codes.Aborted {
		t.Errorf("a slow message: %v after %v", err, took)
	}
}

// panicBoard panics when a node asks for the demand of others.
type panicBoard struct{}

func (panicBoard) Exchange(context.Context, string, Demand, int64) (Demand, error) { panic("board") }
func (panicBoard) Others(context.Context, string) (Demand, error)                  { return Demand{}, nil }

// panicObserver panics when units are granted.
type panicObserver struct{ nopObserver }

func (panicObserver) CountQuota(what string, _ int64) {
	if what == UnitsGranted {
		panic("granted")
	}
}

// A panic ends its stream and not the process, wherever it happens.
func TestService_PanicsEndOneStream(t *testing.T) {
	for where, tt := range map[string]struct {
		send func(*quotav3.RateLimitQuotaResponse) error
		edit func(*Deps)
	}{
		"board":   {nil, func(d *Deps) { d.Board = panicBoard{} }},
		"granted": {nil, func(d *Deps) { d.Observe = panicObserver{} }},
		"send":    {func(*quotav3.RateLimitQuotaResponse) error { panic("send") }, func(*Deps) {}},
	} {
		var caught []any
		_, err := streamOf(t, time.Second, tt.send, func(_ *world, d *Deps) {
			tt.edit(d)
			d.Recovered = func(v any, _ []byte) error {
				caught = append(caught, v)
				return status.Error(codes.Internal, "caught")
			}
		})
		if status.Code(err) != codes.Internal || len(caught) != 1 || caught[0] != where {
			t.Errorf("%s: %v, caught %v", where, err, caught)
		}
	}
}

// A bucket that is reported once, and then never again on a stream that goes on, takes no memory for long.
func TestService_AbandonsABucketThatNoReportNames(t *testing.T) {
	abandoned := status.Error(codes.Aborted, "abandoned")
	took, err := streamOf(t, time.Second, func(m *quotav3.RateLimitQuotaResponse) error {
		if m.GetBucketAction()[0].GetAbandonAction() != nil {
			return abandoned
		}
		return nil
	}, nil)
	if took < 60*time.Second || took > 70*time.Second || status.Code(err) != codes.Aborted {
		t.Errorf("%v after %v", err, took)
	}
}

// The answers of the store are lost three times. The units that it has charged the first time are sent, for the rest of
// their life.
func TestService_ALumpIsChargedOnceThoughItsAnswersAreLost(t *testing.T) {
	sent := status.Error(codes.Aborted, "sent")
	var got *quotav3.RateLimitQuotaResponse
	var in *world
	took, err := streamOf(t, time.Second, func(m *quotav3.RateLimitQuotaResponse) error {
		if left := in.left(t); left != 1900 {
			t.Errorf("%d units of 2000 are left", left)
		}
		got = m
		return sent
	}, func(w *world, _ *Deps) {
		lost := 0
		in, w.store.lose = w, func(context.Context) bool { lost++; return lost <= 3 }
	})
	last := got.GetBucketAction()[len(got.GetBucketAction())-1].GetQuotaAssignmentAction()
	if status.Code(err) != codes.Aborted || took != 4*time.Second || // asked after 1 to 4 s
		last.GetRateLimitStrategy().GetTokenBucket().GetMaxTokens() != 100 ||
		last.GetAssignmentTimeToLive().GetSeconds() != 56 {
		t.Errorf("%v after %v: %v", err, took, last)
	}
}

// A stream ends while the store charges a lump.
func TestService_ALumpOfAnEndedStreamGoesBack(t *testing.T) {
	for _, answered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			stopped, w := make(chan struct{}), newWorld(t, 1, perUser(nil), 1)
			w.store.lose = func(ctx context.Context) bool {
				w.store.lose = nil
				close(stopped)
				<-ctx.Done()
				return !answered
			}
			s := NewService(Deps{Checker: w.checker, Now: time.Now, Observe: nopObserver{},
				Logger: slog.New(slog.DiscardHandler)})
			ctx, cancel := context.WithCancel(t.Context())
			err := s.Stream(&proxyConn{ctx, time.Second, nil}, "a", func() error { return nil }, stopped)
			if left := w.left(t); status.Code(err) != codes.Unavailable || left != 2000 {
				t.Errorf("answered %v: %v, %d units of 2000 are left", answered, err, left)
			}
			cancel()
		})
	}
}

// Streams that report and die at any time leave nothing.
func TestService_StreamsThatDieLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, perUser(nil), 1)
		s := NewService(Deps{Checker: w.checker, Now: time.Now, Observe: nopObserver{},
			Logger: slog.New(slog.DiscardHandler)})
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Millisecond)
				defer cancel()
				send := func(*quotav3.RateLimitQuotaResponse) error {
					if i%3 == 0 {
						return status.Error(codes.Aborted, "dead")
					}
					return nil
				}
				after := time.Duration(i%7) * time.Millisecond
				_ = s.Stream(&proxyConn{ctx, after, send}, strconv.Itoa(i%2), func() error { return nil }, nil)
			})
		}
		wg.Wait()
		if s.streams != 0 || len(s.callers) != 0 || s.book.holders != 0 || s.book.names != 0 || len(s.book.shared) != 0 {
			t.Errorf("%d streams, %d callers, %+v", s.streams, len(s.callers), s.book)
		}
	})
}
