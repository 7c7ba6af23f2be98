package updates

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/limiter"
	"sluice/limiter/memstore"
)

// join adds a node to a region that has one. It sends with a client.
func (w *world) join(region, name string, phase time.Duration, client *http.Client) *place {
	w.t.Helper()
	first := w.places[region]
	opt := first.opt
	opt.Client, opt.Log = client, slog.New(slog.NewTextHandler(io.Discard, nil))
	x, err := New(opt)
	if err != nil {
		w.t.Fatal(err)
	}
	p := &place{Exchange: x, store: first.store, board: first.board, log: &strings.Builder{}, phase: phase}
	w.places[name] = p
	return p
}

// noRoute fails every request.
type noRoute struct{}

func (noRoute) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("no route") }

func TestExchange_OneNodeOfARegionExportsInAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		eu := w.places["eu"]
		other := w.join("eu", "eu2", interval/2, eu.opt.Client)
		w.run(func() {
			pass(2 * interval)
			sent := w.sent.Load()
			for range 20 {
				eu.spend(t, ada, 1)
				pass(interval / 2)
			}
			a, b := eu.Overview().Exported, other.Overview().Exported
			if a+b < 9 || a+b > 11 || min(a, b) != 0 {
				t.Errorf("%d and %d exports in ten intervals, want one each by one node", a, b)
			}
			if n := w.sent.Load() - sent; n < 18 || n > 22 {
				t.Errorf("%d messages between two regions in ten intervals, want 20", n)
			}
		})
	})
}

// A node that does not reach a region leaves the turn to one that does.
func TestExchange_ANodeThatReachesTheOthersTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		eu, us := w.places["eu"], w.places["us"]
		lame := w.join("eu", "eu2", interval/4, &http.Client{Transport: noRoute{}})
		eu.phase = interval / 2
		w.run(func() {
			pass(10 * interval)
			for range 10 {
				eu.spend(t, ada, 1)
				pass(interval)
				if us.CutOff() || eu.CutOff() || lame.CutOff() {
					t.Error("cut off though one node reaches the other region")
				}
			}
			pass(interval)
			if left := us.spend(t, ada, 0); left != 90 {
				t.Errorf("the other region has %d left, want 90", left)
			}
			if n := lame.Overview().Exported; n != 0 {
				t.Errorf("the node that reaches nobody has exported %d buckets", n)
			}
			w.setCut(true) // then nobody is better than another
			pass(10 * interval)
			for range 10 {
				eu.spend(t, ada, 1)
				pass(interval)
			}
			if n := lame.Overview().Exported; n == 0 {
				t.Error("the node never has its turn again")
			}
		})
	})
}

// A beat that failed is sent again. Else a node that yields has nothing to send, and never learns that it reaches the
// region again.
func TestExchange_ANodeThatYieldsNoticesThatItReachesTheOthersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		eu := w.places["eu"]
		route := &sometimes{RoundTripper: eu.opt.Client.Transport}
		lame := w.join("eu", "eu2", interval/4, &http.Client{Transport: route})
		eu.phase = interval / 2
		w.run(func() {
			pass(5 * interval)
			if lame.Overview().Peers[0].Failure == "" {
				t.Fatal("its beat has not failed")
			}
			route.open.Store(true)
			pass(3 * interval)
			if p := lame.Overview().Peers[0]; p.Failure != "" || !p.FailingSince.IsZero() {
				t.Errorf("three intervals after the heal: %q, since %v", p.Failure, p.FailingSince)
			}
		})
	})
}

// sometimes fails requests until it is open.
type sometimes struct {
	http.RoundTripper
	open atomic.Bool
}

func (s *sometimes) RoundTrip(r *http.Request) (*http.Response, error) {
	if !s.open.Load() {
		return noRoute{}.RoundTrip(r)
	}
	return s.RoundTripper.RoundTrip(r)
}

// perSlot is a store that no node exports alone, as on a cluster.
type perSlot struct{ *memstore.Store }

func (perSlot) Changed(context.Context) (int, error) { return int(limiter.MaxExact), nil }

// On a cluster the key of the turn may be where no server answers while other servers have changed buckets.
func TestExchange_ExportsWhileItCannotAskForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		eu, us := w.places["eu"], w.places["us"]
		eu.opt.Store = perSlot{eu.store}
		w.run(func() {
			pass(2 * interval)
			eu.board.mu.Lock()
			eu.board.err = errors.New("CLUSTERDOWN")
			eu.board.mu.Unlock()
			eu.spend(t, ada, 30)
			pass(3 * interval)
			if left := us.spend(t, ada, 0); left != 70 {
				t.Errorf("the other region has %d left, want 70", left)
			}
		})
	})
}
