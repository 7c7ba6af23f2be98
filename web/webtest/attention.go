package webtest

import (
	"slices"
	"time"

	"sluice/internal/history"
	"sluice/rules"
)

// Flood makes one key deny most of the first rule.
func Flood(w *World) {
	line := make([]int64, 60)
	for i := 20; i < len(line); i++ {
		line[i] = int64(44 + i*7%9)
	}
	keys := []history.KeyDenials{
		{Rule: "charges-per-user", Key: "user:flood-9", Since: Now.Add(-42 * time.Second), Minute: 665, Line: line},
		{Rule: "search-per-user", Key: "user:7", Since: Now.Add(-9 * time.Minute), Longer: true, Minute: 31,
			Line: slices.Repeat([]int64{0, 1, 0, 0, 1}, 12)},
		{Rule: "logins-per-address", Key: "ip:203.0.113.9", Since: Now.Add(-4 * time.Minute), Minute: 12,
			Line: slices.Repeat([]int64{1, 0, 0, 0, 0}, 12)},
	}
	w.Fleet.Change(func(l *history.Live) {
		w.Fleet.Keys = keys
		l.Rules[0].Minute = history.Figures{Allowed: 9000, Denied: 700}
	})
}

// WrongEdit cuts the limit of the second rule, so that it denies most of its requests. It goes on for three minutes.
func WrongEdit(w *World) {
	at := Now.Add(-3 * time.Minute)
	r := &w.Rules.List[1]
	was := r.Clone()
	r.Limit, r.Burst, r.Version, r.UpdatedAt = 3, new(int64(3)), was.Version+1, at
	w.Rules.Revisions[r.ID] = append([]rules.Revision{{Version: r.Version, Action: "update",
		Actor: rules.Actor{Kind: "token", Name: "API"}, At: at, Rule: r.Clone(), Changes: rules.Diff(&was, r)}},
		w.Rules.Revisions[r.ID]...)
	if err := w.Compile(); err != nil {
		panic(err) // canned data is valid
	}
	w.Fleet.Change(func(l *history.Live) {
		live := &l.Rules[1]
		live.Minute = history.Figures{Allowed: 234, Denied: 366}
		for i := range live.Tens {
			live.Tens[i].Figures = history.Figures{Allowed: 95, Denied: 5}
			if !live.Tens[i].At.Before(at) {
				live.Tens[i].Figures = history.Figures{Allowed: 39, Denied: 61}
			}
		}
	})
}

// Outage is one in which fail modes decide.
func Outage(w *World) {
	w.Incidents.List = append(w.Incidents.List, RunningIncident())
	w.Fleet.Change(func(l *history.Live) {
		l.Rules[2].Minute = history.Figures{Denied: 140, Degraded: 140, DegradedDenied: 140}
	})
}

// Unusual has a flood, a wrong edit and an outage.
func Unusual(w *World) {
	Flood(w)
	WrongEdit(w)
	Outage(w)
}
