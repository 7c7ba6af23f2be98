package redisstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/limiter"
)

// A server has the limit from when it has the call, however late that was written.
func TestCallTime_CountsFromWhenTheServerHasTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 21 * time.Millisecond
		c, release := newCallTime(t.Context(), limits{limit: limit})
		defer release()
		<-time.After(90 * time.Millisecond) // this node was not run
		if until, ok := c.Deadline(); !ok || !until.Equal(time.Now().Add(limit)) {
			t.Errorf("the write has %s", time.Until(until))
		}
		<-time.After(10 * time.Millisecond)
		if until, _ := c.Deadline(); !until.Equal(time.Now().Add(limit)) {
			t.Errorf("the read has %s", time.Until(until))
		}
		<-time.After(5 * time.Millisecond)
		if had := c.had(time.Now()); had != 5*time.Millisecond {
			t.Errorf("the server has had it for %s", had)
		}
		hard, release := newCallTime(t.Context(), limits{limit: limit, hard: time.Now().Add(time.Millisecond)})
		defer release()
		if until, _ := hard.Deadline(); !until.Equal(time.Now().Add(time.Millisecond)) {
			t.Errorf("beyond the caller's own deadline: %s", time.Until(until))
		}
	})
}

func TestCallTime_NeverWrittenIsNoFailureOfTheServer(t *testing.T) {
	const limit = 21 * time.Millisecond
	for _, tt := range []struct {
		name    string
		after   time.Duration
		asked   bool
		dialing bool
		err     error
		want    bool
	}{
		{"all connections are in use", time.Millisecond, false, false, redis.ErrPoolTimeout, true},
		{"no more may be made", time.Millisecond, false, true, redis.ErrPoolExhausted, true},
		{"no connection by the limit", limit, false, true, context.DeadlineExceeded, false},
		{"this node was late", 90 * time.Millisecond, false, true, context.DeadlineExceeded, true},
		{"and did not even dial", limit, false, false, context.DeadlineExceeded, true},
		{"a dial that failed", limit, true, false, &notDialled{err: errDown}, false},
		{"a dial that this node was late for", limit, true, false, &notDialled{err: errDown, late: true}, true},
		{"written", limit, true, false, os.ErrDeadlineExceeded, false},
		{"refused", time.Millisecond, false, true, errDown, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, release := newCallTime(t.Context(), limits{limit: limit})
			defer release()
			if tt.asked {
				c.Deadline()
			}
			<-time.After(tt.after)
			if got := c.unwritten(fmt.Errorf("wrapped: %w", tt.err), tt.dialing); got != tt.want {
				t.Errorf("%s: got %v", tt.name, got)
			}
		})
	}
}

// Only silence for the whole store timeout counts for the breaker, of one call or of several in a row.
func TestServer_HasHadItsTimeBeforeItFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := &servers{fair: 20 * time.Millisecond, now: time.Now}
		sv := &server{of: ss, breaker: &breaker{}}
		silence := func(had time.Duration) (ended, limiter.Cause) {
			c, release := newCallTime(t.Context(), limits{limit: 21 * time.Millisecond})
			defer release()
			c.Deadline()
			<-time.After(had)
			how, err := sv.judge(c, os.ErrDeadlineExceeded)
			return how, limiter.CauseOf(err)
		}
		for i, tt := range []struct {
			had   time.Duration
			how   ended
			cause limiter.Cause
		}{
			{21 * time.Millisecond, silent, limiter.CauseTimeout},
			{13 * time.Millisecond, nothing, limiter.CauseTimeout},
			{13 * time.Millisecond, silent, limiter.CauseTimeout}, // 26 ms in all
			{0, succeeded, ""}, // it answers
			{2 * time.Millisecond, nothing, limiter.CauseStarved}, // mostly this node's own delay
			{13 * time.Millisecond, nothing, limiter.CauseTimeout},
		} {
			if tt.how == succeeded {
				c, release := newCallTime(t.Context(), limits{limit: time.Second})
				if how, err := sv.judge(c, nil); how != succeeded || err != nil {
					t.Errorf("an answer: %d, %v", how, err)
				}
				release()
				continue
			}
			if how, cause := silence(tt.had); how != tt.how || cause != tt.cause {
				t.Errorf("call %d, which the server had for %s: got %d, %s", i, tt.had, how, cause)
			}
		}
		if got := sv.snapshot(time.Now()).State; got != BreakerClosed {
			t.Errorf("the breaker is %s", got)
		}
	})
}

func TestServer_AReplyIsAnAnswer(t *testing.T) {
	sv := &server{of: &servers{fair: time.Second, now: time.Now}, breaker: &breaker{}}
	sv.silent.Store(int64(time.Minute))
	c, release := newCallTime(t.Context(), limits{limit: time.Second})
	defer release()
	var reply redis.Error = redisError("WRONGTYPE of this key")
	if how, err := sv.judge(c, reply); how != succeeded || err == nil || sv.silent.Load() != 0 {
		t.Errorf("got %d, %v, silent for %d", how, err, sv.silent.Load())
	}
	if how, err := sv.judge(c, errors.New("read tcp: connection reset by peer")); how != failed || err == nil {
		t.Errorf("got %d, %v", how, err)
	}
}

// redisError is an error that a server replied.
type redisError string

func (e redisError) Error() string { return string(e) }

func (redisError) RedisError() {}

// A caller of a few ms leaves before a connection is there. That says nothing yet about the server.
func TestServer_HasNotFailedWhenAShortCallEndsBeforeItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, own = 21 * time.Millisecond, 2 * time.Millisecond
		ss := &servers{fair: 20 * time.Millisecond, now: time.Now}
		sv := &server{of: ss, breaker: &breaker{}}
		sv.dialing.Store(1)
		for i := range 12 {
			c, release := newCallTime(t.Context(), limits{limit: own, hard: time.Now().Add(own)})
			<-c.Done()
			want := nothing
			if i >= 9 {
				want = silent // 20 ms in all
			}
			if how, err := sv.judge(c, c.Err()); how != want {
				t.Errorf("call %d: got %d, %v, want %d", i, how, err, want)
			}
			release()
		}
		if got := sv.snapshot(time.Now()).State; got != BreakerClosed {
			t.Errorf("the breaker is %s", got)
		}
		sv.heard()
		c, release := newCallTime(t.Context(), limits{limit: limit})
		defer release()
		<-c.Done()
		if how, err := sv.judge(c, c.Err()); how != silent {
			t.Errorf("no connection in the whole time: got %d, %v", how, err)
		}
	})
}
