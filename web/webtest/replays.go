package webtest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"sluice/internal/access"
	"sluice/internal/backtest"
	"sluice/internal/records"
)

// newReplays reads the log of a world.
func newReplays(w *World) *backtest.Jobs {
	return backtest.NewJobs(backtest.JobOptions{Now: w.Clock.Now, Logger: slog.New(slog.DiscardHandler),
		Source: "the files in /var/lib/sluice/decisions", OneNode: true,
		Has: "The log has all denials, and the allowed requests of 10% of the users.",
		Open: func(ctx context.Context, from int64) (*backtest.Log, func(), error) {
			if w.OpenLog != nil {
				return w.OpenLog(ctx, from)
			}
			return backtest.NewLog(backtest.NewLines("decisions.jsonl", strings.NewReader(sampleLog()))), func() {}, nil
		}})
}

// NoLog takes the decision log away.
func NoLog(w *World) {
	w.Replays = backtest.NewJobs(backtest.JobOptions{Now: w.Clock.Now, Logger: slog.New(slog.DiscardHandler)})
	if err := w.Serve(w.Deps(nil)); err != nil {
		panic(err) // it was served before
	}
}

// NeverRead has the decision log never answer.
func NeverRead(w *World) {
	w.OpenLog = func(ctx context.Context, _ int64) (*backtest.Log, func(), error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
}

// sampleLog is the decision log of the last 50 minutes: ten users who charge, two of them too much, and one who is not
// sampled, in a log of 10 % of the users. One line is corrupt.
var sampleLog = sync.OnceValue(func() string {
	var b []byte
	add := func(at time.Time, user string, drawn, allowed bool) {
		e := records.Event{Schema: records.Schema, TS: at.UnixMilli(), Key: "user:" + user, Rule: "charges-per-user",
			Limit: 100, Used: 1, Allowed: allowed, Weight: 1, Status: http.StatusOK, Op: "check", Face: "http",
			Node: "n1", Mode: "enforce",
			Rate: 10, Drawn: drawn, Route: "/v1/charges", Method: http.MethodPost,
			Facts: &records.Facts{Method: http.MethodPost, Route: "/v1/charges", User: user}}
		b = append(e.Append(b), '\n')
	}
	for minute := range 50 {
		at := Now.Add(time.Duration(minute-50) * time.Minute)
		for user := range 10 {
			n := 2 + (minute+user*3)%7
			switch {
			case user == 4 && minute%10 < 3:
				n = 70 + minute
			case user == 7 && minute > 35:
				n = 130
			}
			for i := range n {
				add(at.Add(time.Duration(i)*time.Minute/time.Duration(n)), fmt.Sprint(40+user), true, true)
			}
		}
		add(at.Add(59*time.Second), "99", false, false)
		if minute == 20 {
			b = append(b, "{\"schema\":1,\"ts\"\n"...)
		}
	}
	return string(b)
})

// DenialsOnly is a decision log with a denial of a user that was not drawn.
func DenialsOnly() string {
	for line := range strings.Lines(sampleLog()) {
		if strings.Contains(line, `"drawn":false`) {
			return line
		}
	}
	return ""
}

// Try starts a replay of a rule of the sample, with a limit, from the editor, and returns the path of its page.
func (b *Browser) Try(limit string) string {
	return b.start("/console/rules/replay", url.Values{"id": {"1"}, "version": {"1"}, "name": {"charges-per-user"},
		"method": {"POST"}, "route": {"/v1/charges"}, "scope": {"user"}, "limit": {limit}, "window_ms": {"1"},
		"window_ms.unit": {"minute"}, "algorithm": {"sliding_window_counter"}, "over_limit": {"deny"}, "mode": {"enforce"},
		"fail_mode": {"local"}, "is_active": {"on"}, "replay.range": {"hour"}})
}

// Suggest starts to suggest limits of that rule, and returns the path of its page.
func (b *Browser) Suggest() string {
	return b.start("/console/rules/1/suggest", url.Values{"windows": {"10s, 1m"}, "headroom": {"1.2"},
		"replay.range": {"day"}})
}

// start returns path if the job does not start.
func (b *Browser) start(path string, form url.Values) string {
	if page := b.Post(path, form); page.Code == http.StatusSeeOther {
		return page.Header.Get("Location")
	}
	return path
}

// fillJob replaces $REPLAY, $RUNNING or $SUGGEST by the path of a new job in the session that was begun last, and $UNDO
// by the page after a change in that session.
func (w *World) fillJob(path string) string {
	switch path {
	case "$REPLAY":
		path = w.last.Try("60")
		w.Replays.Wait()
	case "$UNDO":
		path = w.last.start("/console/rules/1/overrides", url.Values{"key": {"user:77"}, "kind": {"blocked"}})
	case "$RUNNING":
		path = w.last.Try("60")
	case "$SUGGEST":
		path = w.last.Suggest()
		w.Replays.Wait()
	}
	return path
}

// replayPages are the pages of replays and suggested limits.
func replayPages() []Shown {
	return []Shown{
		{Name: "replay", About: "Try a rule on recent traffic, result", Role: access.RoleEditor, Path: "$REPLAY"},
		{Name: "replay-running", About: "Try a rule on recent traffic, running", Role: access.RoleEditor, Path: "$RUNNING",
			Prepare: NeverRead},
		{Name: "replay-begin", About: "Replay", Role: access.RoleEditor, Path: "/console/rules/replay"},
		{Name: "replay-begin-none", About: "Replay, no rules", Kind: Empty, Role: access.RoleEditor,
			Path: "/console/rules/replay"},
		{Name: "replay-lost", About: "Try a rule on recent traffic, unknown", Role: access.RoleEditor,
			Path: "/console/rules/replay?job=lost"},
		{Name: "replay-no-log", About: "Edit a rule, no decision log", Role: access.RoleEditor, Path: "/console/rules/1/edit",
			Prepare: NoLog},
		{Name: "suggest", About: "Suggest limits", Role: access.RoleEditor, Path: "/console/rules/1/suggest"},
		{Name: "suggest-errors", About: "Suggest limits, invalid", Role: access.RoleEditor, Path: "/console/rules/1/suggest",
			Form: url.Values{"windows": {"soon"}, "headroom": {"0.5"}, "replay.range": {"year"}}},
		{Name: "suggest-result", About: "Suggest limits, result", Role: access.RoleEditor, Path: "$SUGGEST"},
	}
}
