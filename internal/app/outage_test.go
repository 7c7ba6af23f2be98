package app

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/internal/history/incident"
	"sluice/internal/trouble"
	"sluice/limiter"
)

func TestOutage_IsLoggedNowAndThenNotPerRequest(t *testing.T) {
	log, at := &buffer{}, time.UnixMilli(1_000_000)
	now := func() time.Time { return at }
	o := &outageLog{log: slog.New(slog.NewTextHandler(log, nil)), now: now, incidents: incident.NewLog("n", "", now)}
	lines := func() int { return strings.Count(log.String(), "could not decide") }
	o.ObserveDegraded(decide.Degraded{FailMode: "open", Cause: limiter.CauseCanceled})
	if lines() != 0 {
		t.Error("a caller that went away was blamed on the store")
	}
	for range 1000 {
		o.ObserveDegraded(decide.Degraded{FailMode: "open", Cause: limiter.CauseTimeout})
	}
	if lines() != 1 || !strings.Contains(log.String(), "cause=timeout") {
		t.Errorf("%d lines, want 1 that names the cause:\n%s", lines(), log)
	}
	for range 2 {
		o.ObserveDegraded(decide.Degraded{FailMode: "closed", Cause: limiter.CauseAuth})
	}
	if lines() != 2 || !strings.Contains(log.String(), "cause=auth") {
		t.Errorf("%d lines after another cause, want 2:\n%s", lines(), log)
	}
	at = at.Add(outageLogInterval)
	o.ObserveDegraded(decide.Degraded{FailMode: "open", Cause: limiter.CauseTimeout})
	if lines() != 3 {
		t.Errorf("%d lines after a pause, want 3", lines())
	}
}

// A late node and an overload are no outage of Redis.
func TestOutage_WhatSaysNothingAboutTheStoreIsNotBlamedOnIt(t *testing.T) {
	log, at := &buffer{}, time.UnixMilli(1_000_000)
	now := func() time.Time { return at }
	incidents := incident.NewLog("n", "", now)
	o := &outageLog{log: slog.New(slog.NewTextHandler(log, nil)), now: now, incidents: incidents}
	decided := func(cause limiter.Cause) {
		o.ObserveDegraded(decide.Degraded{FailMode: "open", Cause: cause})
		o.ObserveDecision(&decide.Decision{Answer: &decide.Answer{Op: limiter.OpTake, Verdict: decide.Allowed,
			Degraded: "open", Cause: cause}})
	}
	decided(limiter.CauseStarved)
	if log.String() != "" {
		t.Errorf("a late node is logged as an outage: %s", log)
	}
	decided(limiter.CauseOverload)
	decided(limiter.CauseOverload)
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "more checks arrive") ||
		strings.Contains(got, "could not decide") {
		t.Errorf("want one line about overload:\n%s", got)
	}
	if own := incidents.Own(); len(own) != 0 {
		t.Errorf("incidents %+v, want none", own)
	}
	// Beside an outage of Redis they count in incidents of their own.
	decided(limiter.CauseTimeout)
	trouble.New(slog.New(slog.DiscardHandler), now, incidents.Note).Set(
		trouble.Trouble{Condition: nodeStarved, Since: at, Cause: starvedAdvice})
	decided(limiter.CauseStarved)
	decided(limiter.CauseStarved)
	open := map[string]int64{}
	for _, i := range incidents.Own() {
		open[i.Kind] = i.Total.Open
	}
	if len(open) != 2 || open[incident.Timeouts] != 1 || open[incident.Starved] != 2 {
		t.Errorf("decided in incidents: %v", open)
	}
}

// A full disk under a file queue denies requests that could have waited.
func TestOutage_OfAQueueIsLogged(t *testing.T) {
	log, at := &buffer{}, time.UnixMilli(1_000_000)
	o := &outageLog{log: slog.New(slog.NewTextHandler(log, nil)), now: func() time.Time { return at }}
	o.ObserveDeferral(decide.Deferral{Rule: "jobs", What: decide.DeferralRefused, Reason: "full", Count: 1})
	if log.String() != "" {
		t.Errorf("a full queue is no outage: %s", log)
	}
	for range 100 {
		o.ObserveDeferral(decide.Deferral{Rule: "jobs", What: decide.DeferralRefused, Reason: "unavailable", Count: 1,
			Err: errors.New("no space left on device")})
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "rule=jobs") ||
		!strings.Contains(got, "no space left") {
		t.Errorf("want one line that names the rule and the error:\n%s", got)
	}
}
