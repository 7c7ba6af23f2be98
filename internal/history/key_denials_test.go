package history_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/history"
)

// denyKey lets a node deny a key so often, and posts.
func (n poster) denyKey(t *testing.T, rule, key string, times int) {
	t.Helper()
	for range times {
		n.Top(rule, history.ByKey, key, false, 1)
	}
	n.Post(t.Context())
}

// The denials of a key add up over nodes and seconds, and its run begins with the first of them after a minute without
// any.
func TestKeyDenials_OfAllNodesSinceTheirRunBegan(t *testing.T) {
	c := newClock()
	for name, board := range boards(t, c) {
		t.Run(name, func(t *testing.T) {
			c.reset()
			a, b := newPoster("a", board, c), newPoster("b", board, c)
			live := history.NewLiveReader(board, c.now)
			a.denyKey(t, "charges", "user:9", 3)
			c.add(2 * time.Minute) // the first denial is of an earlier run
			began := c.now().Truncate(time.Second)
			for range 40 {
				a.denyKey(t, "charges", "user:9", 2)
				b.denyKey(t, "charges", "user:9", 3)
				b.Top("charges", history.ByKey, "user:7", true, 1) // allowed
				c.add(time.Second)
			}
			b.denyKey(t, "search", "user:7", 4)
			c.add(5 * time.Second)
			got, err := live.DeniedKeys(t.Context())
			if err != nil || len(got) != 2 {
				t.Fatalf("%+v, %v", got, err)
			}
			k := got[0]
			if k.Rule != "charges" || k.Key != "user:9" || k.Minute != 200 || !k.Since.Equal(began) || k.Longer ||
				k.Error != 0 ||
				!k.Last.Equal(began.Add(39*time.Second)) || len(k.Line) != 60 || k.PerSecond() != 3 {
				t.Errorf("%+v, %v/s", k, k.PerSecond())
			}
			if k := got[1]; k.Rule != "search" || k.Key != "user:7" || k.Minute != 4 {
				t.Errorf("%+v", k)
			}
			c.add(2 * time.Minute)
			if got, err = live.DeniedKeys(t.Context()); err != nil || len(got) != 0 {
				t.Errorf("after two minutes without denials: %+v, %v", got, err)
			}
		})
	}
}

// A run that lasts longer than figures are known says so.
func TestKeyDenials_OfALongRunSayThatItIsOlder(t *testing.T) {
	c := newClock()
	board := history.NewMemory(c.now)
	a, live := newPoster("a", board, c), history.NewLiveReader(board, c.now)
	for i := range 900 {
		a.denyKey(t, "charges", "user:9", 1)
		c.add(time.Second)
		if i%100 == 0 { // what was read before is not read again
			if _, err := live.DeniedKeys(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := live.DeniedKeys(t.Context())
	if err != nil || len(got) != 1 || !got[0].Longer || c.now().Sub(got[0].Since) < 9*time.Minute {
		t.Errorf("%+v, %v", got, err)
	}
}

// A node posts the most denied keys of a second, says how wrong a sample may be, and cuts long keys.
func TestKeyDenials_AreBounded(t *testing.T) {
	c := newClock()
	board := history.NewMemory(c.now)
	a := newPoster("a", board, c)
	for i := range 30 {
		for range i + 1 {
			a.Top("charges", history.ByKey, fmt.Sprintf("user:%d", i), false, 1)
		}
	}
	a.Top("charges", history.ByKey, "sampled", false, 100)
	a.denyKey(t, "charges", strings.Repeat("x", 1000), 200)
	c.add(3 * time.Second)
	got, err := history.NewLiveReader(board, c.now).DeniedKeys(t.Context())
	if err != nil || len(got) != 10 {
		t.Fatalf("%d keys, %v", len(got), err)
	}
	if k := got[0]; k.Key != strings.Repeat("x", 256) || k.Minute != 200 {
		t.Errorf("%+v", k)
	}
	if k := got[1]; k.Key != "sampled" || k.Minute != 100 || k.Error != 199 {
		t.Errorf("%+v", k)
	}
	if k := got[9]; k.Key != "user:22" || k.Minute != 23 {
		t.Errorf("%+v", k)
	}
}

// Without the board, the keys are those that this node denied, and the error says so.
func TestKeyDenials_WithoutTheBoardAreThoseOfThisNode(t *testing.T) {
	c := newClock()
	own := history.NewMemory(c.now)
	a := newPoster("a", own, c)
	live := history.NewLiveReader(&flaky{away: true}, c.now)
	live.FallBackOn(own)
	a.denyKey(t, "charges", "user:9", 5)
	c.add(3 * time.Second)
	got, err := live.DeniedKeys(t.Context())
	if !errors.As(err, new(*history.OwnError)) || len(got) != 1 || got[0].Minute != 5 {
		t.Errorf("%+v, %v", got, err)
	}
}
