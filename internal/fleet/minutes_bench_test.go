package fleet_test

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/fleet"
)

// BenchmarkReader_Minutes reads the minutes that are not in the rule database yet, of two nodes that decide by 10,000
// rules.
func BenchmarkReader_Minutes(b *testing.B) {
	const rules, minutes = 10_000, 8
	c := newClock()
	board := fleet.NewMemory(c.now)
	first := c.now().Unix() / 60
	postRules(b, board, c, rules, minutes*12, 5*time.Second)
	last := c.now().Unix()/60 - 1
	run := func(name string, first int64, after time.Duration) {
		b.Run(name, func(b *testing.B) {
			r := fleet.NewReader(board, c.now)
			b.ReportAllocs()
			for b.Loop() {
				if after == 0 {
					r = fleet.NewReader(board, c.now)
				}
				got, err := r.Minutes(b.Context(), first, last)
				if err != nil || len(got[0].Rules) < rules {
					b.Fatal(len(got), err)
				}
				c.add(after)
			}
		})
	}
	run("one minute, first read", last, 0)
	run("8 minutes, first read", first, 0)
	run("8 minutes, a second after another read", first, time.Second)
}

// BenchmarkReader_Live reads the last ten minutes, of two nodes that decide by 10,000 rules every second, a second
// after another read.
func BenchmarkReader_Live(b *testing.B) {
	c := newClock()
	board := fleet.NewMemory(c.now)
	postRules(b, board, c, 10_000, 600, time.Second)
	r := fleet.NewReader(board, c.now)
	b.ReportAllocs()
	for b.Loop() {
		if live := r.Live(b.Context()); live.Err != nil {
			b.Fatal(live.Err)
		}
		c.add(time.Second)
	}
}

// postRules lets two nodes decide by some rules and post, a number of times.
func postRules(b *testing.B, board fleet.Board, c *clock, rules, times int, every time.Duration) {
	b.Helper()
	nodes := []node{newNode("a", board, c), newNode("b", board, c)}
	c.add(every - time.Second) // the last post of a minute has all of it, as that of a node
	for range times {
		for _, n := range nodes {
			for i := range rules {
				n.Limit(fmt.Sprintf("charges-per-user-%05d", i), &fleet.Decided{Allowed: i%7 != 0})
			}
			n.Request(&fleet.Decided{Allowed: true})
			n.Post(b.Context())
		}
		c.add(every)
	}
}
