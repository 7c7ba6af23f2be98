package app

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice/internal/history/incident"
	"sluice/internal/trouble"
)

// watched is a starvedWatch whose counts and clock the test sets.
type watched struct {
	*starvedWatch
	incidents    *incident.Log
	at           time.Time
	checks, late int64
	lines        *buffer
}

func newWatched() *watched {
	w := &watched{at: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC), lines: &buffer{}}
	now := func() time.Time { return w.at }
	w.incidents = incident.NewLog("n", "", now)
	log := slog.New(slog.NewTextHandler(w.lines, nil))
	w.starvedWatch = &starvedWatch{
		counts:  func() (int64, int64) { return w.checks, w.late },
		delay99: func() time.Duration { return 98 * time.Millisecond },
		trouble: trouble.New(log, now, w.incidents.Note), log: log, now: now,
	}
	return w
}

// pass lets seconds pass, each with so many checks and late ones.
func (w *watched) pass(seconds int, checks, late int64) {
	for range seconds {
		w.at = w.at.Add(time.Second)
		w.checks, w.late = w.checks+checks, w.late+late
		w.look()
	}
}

func TestStarvedWatch_MoreThanAHundredthOfTheChecksAndAHandful(t *testing.T) {
	for _, c := range []struct {
		name         string
		seconds      int
		checks, late int64
		want         bool
	}{
		{"all in time", 60, 200, 0, false}, {"one of a hundred", 60, 200, 2, false}, {"more", 60, 200, 3, true},
		{"nine in all", 9, 1, 1, false}, {"ten in all", 10, 1, 1, true},
	} {
		w := newWatched()
		w.pass(c.seconds, c.checks, c.late)
		if got := len(w.trouble.Current()) > 0; got != c.want {
			t.Errorf("%s: the node lacks CPU: %t, want %t", c.name, got, c.want)
		}
		if got := len(w.incidents.Own()) > 0; got != c.want {
			t.Errorf("%s: an incident: %t, want %t", c.name, got, c.want)
		}
	}
}

func TestStarvedWatch_TellsOnceFromBeginningToEnd(t *testing.T) {
	w := newWatched()
	w.pass(20, 100, 10)
	c := w.trouble.Current()
	if len(c) != 1 || c[0].Condition != nodeStarved || c[0].Numbers["late"] != 200 || c[0].Numbers["checks"] != 2000 {
		t.Fatalf("troubles %+v", c)
	}
	own := w.incidents.Own()
	if len(own) != 1 || !own[0].Running() || own[0].Cause != starvedAdvice {
		t.Fatalf("incidents %+v", own)
	}
	w.pass(55, 100, 0) // 25 s until fewer than 1 % of 30 s were late, and the hold
	if own := w.incidents.Own(); len(w.trouble.Current()) != 1 || len(own) != 1 || !own[0].Running() {
		t.Errorf("it ended early: %+v, %+v", w.trouble.Current(), own)
	}
	w.pass(15, 100, 0)
	if own := w.incidents.Own(); len(w.trouble.Current()) != 0 || len(own) != 1 || own[0].Running() {
		t.Errorf("it does not end: %+v, %+v", w.trouble.Current(), own)
	}
}

func TestStarvedWatch_OneLineAMinute(t *testing.T) {
	w := newWatched()
	lines := func() int { return strings.Count(w.lines.String(), "\n") }
	w.pass(30, 100, 0)
	if lines() != 0 {
		t.Errorf("no check was late, and %s", w.lines)
	}
	w.pass(1, 100, 1)
	if got := w.lines.String(); lines() != 1 || !strings.Contains(got, "checks=1 ") ||
		!strings.Contains(got, "scheduling_delay=98ms") || !strings.Contains(got, starvedAdvice) ||
		strings.Contains(got, "Redis") {
		t.Errorf("want one line that says what to do:\n%s", got)
	}
	w.pass(59, 100, 2)
	if lines() != 1 {
		t.Errorf("%d lines within a minute", lines())
	}
	w.pass(1, 100, 2)
	if lines() != 2 || !strings.Contains(w.lines.String(), "checks=120 ") {
		t.Errorf("%d lines after a minute:\n%s", lines(), w.lines)
	}
	w.pass(300, 100, 0)
	if lines() != 2 {
		t.Errorf("%d lines, and no check was late again", lines())
	}
}
