package redisstore

import (
	"testing"
	"time"
)

func TestTerms_SayWhatBecomesOfARequestThatWaits(t *testing.T) {
	const ms = time.Millisecond
	start := time.UnixMilli(1_000_000)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	plain := terms{start: start, deadline: at(21 * ms), turn: at(80 * ms)}
	own := terms{start: start, deadline: at(13 * ms), turn: at(13 * ms), hard: at(13 * ms)}
	hasty := terms{start: start, deadline: at(ms), turn: at(ms), hard: at(ms)}
	short := terms{start: start, deadline: at(21 * ms), turn: at(ms)} // what a client of a gateway can make it
	none := terms{start: start, deadline: at(21 * ms)}
	lost := func(d time.Duration) func() time.Duration { return func() time.Duration { return d } }
	answering := circumstances{succeeded: at(ms)}
	for _, tt := range []struct {
		name  string
		of    terms
		after time.Duration
		in    circumstances
		want  fate
		again time.Duration // 0: never
	}{
		{"within the store timeout", plain, 20 * ms, answering, held, 80 * ms},
		{"beyond it", plain, 79 * ms, answering, held, 80 * ms},
		{"no turn", plain, 80 * ms, answering, overloaded, 0},
		{"nobody was answered", plain, 80 * ms, circumstances{succeeded: at(-ms)}, unanswered, 0},
		{"a server that fails", plain, 20 * ms, circumstances{failing: true}, held, 21 * ms},
		{"one that has failed", plain, 21 * ms, circumstances{failing: true, succeeded: at(ms)}, unanswered, 0},
		{"a node that was stopped", plain, 100 * ms, circumstances{succeeded: at(ms), lost: lost(50 * ms)}, held, 130 * ms},
		{"and has had its time", plain, 130 * ms, circumstances{succeeded: at(ms), lost: lost(50 * ms)}, overloaded, 0},
		{"stopped for long", plain, 1080 * ms, circumstances{succeeded: at(ms), lost: lost(time.Hour)}, overloaded, 0},
		{"the caller's own deadline", own, 13 * ms, answering, overloaded, 0},
		{"which nothing extends", own, 13 * ms, circumstances{succeeded: at(ms), lost: lost(time.Second)}, overloaded, 0},
		{"of an unanswered one", own, 13 * ms, circumstances{}, unanswered, 0},
		{"of one who waits too short to know", hasty, ms, circumstances{}, overloaded, 0},
		{"a short turn, and the server answers", short, 2 * ms, circumstances{succeeded: at(2 * ms)}, overloaded, 0},
		{"and has not answered yet", short, 2 * ms, circumstances{}, held, 21 * ms},
		{"and has had its time", short, 21 * ms, circumstances{}, unanswered, 0},
		{"the caller watches", none, time.Hour, answering, held, 0},
		{"and the server fails", none, time.Hour, circumstances{failing: true}, unanswered, 0},
		{"no deadline", terms{}, time.Hour, circumstances{failing: true}, held, 0},
	} {
		got, again := tt.of.waiting(at(tt.after), &tt.in)
		if got != tt.want || tt.again == 0 != again.IsZero() || tt.again > 0 && !again.Equal(at(tt.again)) {
			t.Errorf("%s: got %d, again after %s", tt.name, got, again.Sub(start))
		}
	}
}

func TestTerms_TimeLostBeforeARequestArrivedIsNotGivenToIt(t *testing.T) {
	start := time.UnixMilli(1_000_000)
	of := terms{start: start, deadline: start.Add(time.Millisecond), turn: start.Add(time.Millisecond), lost: time.Minute}
	in := circumstances{succeeded: start.Add(1), lost: func() time.Duration { return time.Minute }}
	if got, _ := of.waiting(start.Add(time.Millisecond), &in); got != overloaded {
		t.Errorf("got %d, want overload", got)
	}
}

func TestTerms_ImpatientRequestsWaitForTheStoreTimeout(t *testing.T) {
	const ms = time.Millisecond
	start := time.UnixMilli(1_000_000)
	of := terms{start: start, deadline: start.Add(21 * ms), turn: start.Add(80 * ms)}
	short := terms{start: start, deadline: start.Add(21 * ms), turn: start.Add(10 * ms)}
	answering, silent := circumstances{succeeded: start.Add(1)}, circumstances{}
	for _, tt := range []struct {
		of    terms
		after time.Duration
		in    circumstances
		want  fate
	}{
		{of, 20 * ms, answering, held}, {of, 21 * ms, answering, overloaded},
		{of, 21 * ms, silent, held}, // a call under way may still succeed
		{short, 9 * ms, answering, held}, {short, 10 * ms, answering, overloaded},
	} {
		if got, _ := tt.of.refuses(start.Add(tt.after), &tt.in); got != tt.want {
			t.Errorf("after %s: got %d, want %d", tt.after, got, tt.want)
		}
	}
}

func TestTerms_WhatWasSentEndsByItself(t *testing.T) {
	start := time.UnixMilli(1_000_000)
	deadline, hard := start.Add(21*time.Millisecond), start.Add(50*time.Millisecond)
	for _, tt := range []struct {
		name    string
		of      terms
		now     time.Time
		failing bool
		ended   bool
	}{
		{"the server answers", terms{deadline: deadline}, start.Add(time.Hour), false, false},
		{"it fails", terms{deadline: deadline}, deadline, true, true},
		{"it fails, before the deadline", terms{deadline: deadline}, deadline.Add(-1), true, false},
		{"the caller's own deadline", terms{deadline: deadline, hard: hard}, hard, false, true},
		{"before that", terms{deadline: deadline, hard: hard}, hard.Add(-1), false, false},
		{"no deadline", terms{}, start.Add(time.Hour), true, false},
	} {
		if ended, _ := tt.of.sent(tt.now, tt.failing); ended != tt.ended {
			t.Errorf("%s: ended is %v", tt.name, ended)
		}
	}
}
