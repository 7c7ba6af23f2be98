package updates

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sluice/limiter"
)

// A link that is open in one direction only: us hears nothing of eu, and eu must know that nobody has what it spends.
func TestExchange_ARegionThatIsNotHeardIsCutOffToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		eu, us := w.places["eu"], w.places["us"]
		w.run(func() {
			pass(time.Second)
			w.setDeaf("us", true)
			pass(6 * interval)
			if !us.CutOff() || !eu.CutOff() {
				t.Errorf("cut off: us, which hears nothing, %v; eu, which is not heard, %v", us.CutOff(), eu.CutOff())
			}
			w.setDeaf("us", false)
			pass(4 * interval)
			if us.CutOff() || eu.CutOff() {
				t.Errorf("after the heal cut off: us %v, eu %v", us.CutOff(), eu.CutOff())
			}
		})
	})
}

// A node that starts while its region is cut off knows it at once: a storm of restarts must not give out limits.
func TestExchange_ANodeThatStartsInACutKnowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		w.setCut(true)
		eu := w.places["eu"]
		if !eu.CutOff() {
			t.Error("before its first look a node spends as if all regions were there")
		}
		w.run(func() {
			for range 10 {
				pass(interval)
				if !eu.CutOff() {
					t.Error("it has heard of nobody and is not cut off")
				}
			}
			w.setCut(false)
			pass(3 * interval)
			if eu.CutOff() {
				t.Error("cut off after the heal")
			}
		})
	})
}

// What is spent is told every interval, also where an answer takes longer than that: the published bound counts the
// delay of one way.
func TestExchange_TellsEveryIntervalOverALongLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		w.delay = 150 * time.Millisecond
		eu, us := w.places["eu"], w.places["us"]
		w.run(func() {
			pass(2 * time.Second)
			most := time.Duration(0)
			for range 40 {
				before := us.spend(t, ada, 0)
				eu.spend(t, ada, 1)
				began := time.Now()
				for us.spend(t, ada, 0) == before {
					pass(time.Millisecond)
				}
				most = max(most, time.Since(began))
				pass(33 * time.Millisecond)
				eu.spend(t, "{user:bob}|1|fw", 1) // others also have news
			}
			if most > w.delay+interval+5*time.Millisecond {
				t.Errorf("news took up to %v, published are %v", most, w.delay+interval)
			}
		})
	})
}

// However many buckets wait for a region that is lost, the others are told.
func TestExchange_ALostRegionDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us", "asia")
		eu, us := w.places["eu"], w.places["us"]
		const waiting = 2 * mostAtOnce // fewer than mostWaiting, and more than one message has
		eu.box = NewOutbox(waiting, eu.names...)
		w.run(func() {
			w.setDeaf("asia", true)
			for i := range 3 * waiting / 2 {
				eu.spend(t, limiter.Key(fmt.Sprintf("{user:%d}|1|fw", i)), 20)
				if i%5000 == 4999 {
					pass(interval)
				}
			}
			pass(10 * interval)
			eu.spend(t, ada, 30)
			pass(4 * interval)
			if left := us.spend(t, ada, 0); left != 70 {
				t.Errorf("us has %d left, want 70: %+v", left, eu.Overview())
			}
		})
	})
}
