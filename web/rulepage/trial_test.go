package rulepage_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/web/webtest"
)

// candidateCounts let the first rule of a world have a candidate that counted c.
func candidateCounts(w *webtest.World, c history.TrialCounts) {
	w.Rules.List[0].Candidate = &rules.Candidate{Limit: new(int64(80))}
	w.Figures.Trials[history.Trial{Rule: 1, Version: 1}] = c
}

func TestEvidence_SaysWhatWouldChangeAndByWhom(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	candidateCounts(w, history.TrialCounts{Seen: 3900, Denied: 300, Compared: 3900, NewlyDenied: 38, NewlyAllowed: 3,
		First: webtest.Now.Add(-30 * time.Hour), Keys: history.Top{Entries: []history.TopEntry{
			{Key: "user:42", Denied: 17}, {Key: "user:<b>7", Denied: 9, Allowed: 3, Over: 2}}}})
	b := w.As(access.RoleEditor)
	for _, path := range []string{"/console/rules/1", "/console/rules/1/turn?to=promote"} {
		page := b.Get(path)
		if !page.Has("41 of 3,900 requests would change: 38 newly denied, 3 newly allowed.", "of 3,900 requests, 1.1%",
			"Enough evidence: 3,900 requests in 1 day 6 h.", "user:42", "user:&lt;b&gt;7", "up to 2 more") {
			t.Errorf("%s: %d\n%s", path, page.Code, page.Body)
		}
		if page.HasAny("Too little", "<b>7") {
			t.Errorf("%s doubts, or shows markup", path)
		}
	}
	page := b.Post("/console/rules/1/promote", url.Values{"version": {"1"}})
	if page.Code != http.StatusSeeOther || w.Rules.List[0].Candidate != nil {
		t.Errorf("promoting: %d", page.Code)
	}
}

func TestEvidence_TooLittleSaysWhy(t *testing.T) {
	enough := history.TrialCounts{Seen: 5000, Denied: 60, Compared: 5000, NewlyDenied: 50,
		First: webtest.Now.Add(-25 * time.Hour), Keys: history.Top{Entries: []history.TopEntry{{Key: "user:1", Denied: 25}}}}
	for name, c := range map[string]struct {
		change func(*history.TrialCounts, *rules.Rule)
		want   string // "" if it is enough
	}{
		"enough":    {func(*history.TrialCounts, *rules.Rule) {}, ""},
		"no change": {func(c *history.TrialCounts, _ *rules.Rule) { c.NewlyDenied, c.Keys = 0, history.Top{} }, ""},
		"nothing": {func(c *history.TrialCounts, _ *rules.Rule) { *c = history.TrialCounts{} },
			"Too little evidence: no request has been seen yet."},
		"few": {func(c *history.TrialCounts, _ *rules.Rule) { c.Seen, c.Compared = 999, 999 },
			"Too little evidence: only 999 requests were seen, and 1,000 show what is usual."},
		"one": {func(c *history.TrialCounts, _ *rules.Rule) { c.Seen, c.Compared = 1, 1 }, "only 1 request was seen"},
		"a day": {func(c *history.TrialCounts, _ *rules.Rule) { c.First = webtest.Now.Add(-23 * time.Hour) },
			"Too little evidence: requests were seen for 23 h, and a whole day shows how traffic varies."},
		"a week": {func(_ *history.TrialCounts, r *rules.Rule) {
			r.Schedule = &rules.Schedule{Zone: "UTC", Windows: []rules.ScheduleWindow{
				{Days: []string{"sat"}, From: "00:00", To: "24:00", Limit: new(int64(10))}}}
		}, "requests were seen for 1 day 1 h, and the limit follows a schedule"},
		"one key": {func(c *history.TrialCounts, _ *rules.Rule) { c.Keys.Entries[0].Denied = 26 },
			"Too little evidence: one key, user:1, makes 26 of the 50 changes."},
		"one key of few": {func(c *history.TrialCounts, _ *rules.Rule) { c.NewlyDenied, c.Keys.Entries[0].Denied = 9, 9 },
			""},
		"not compared": {func(c *history.TrialCounts, _ *rules.Rule) { c.Compared = 4000 },
			"1,000 requests were not compared, because a fail mode decided"},
		"two reasons": {func(c *history.TrialCounts, _ *rules.Rule) { c.Seen, c.Compared, c.First = 5, 5, webtest.Now },
			"usual; requests were seen for "},
	} {
		t.Run(name, func(t *testing.T) {
			w := webtest.Start(t, webtest.Full)
			counts := enough
			counts.Keys.Entries = append([]history.TopEntry{}, enough.Keys.Entries...)
			candidateCounts(w, history.TrialCounts{})
			c.change(&counts, &w.Rules.List[0])
			candidateCounts(w, counts)
			b := w.As(access.RoleEditor)
			page := b.Get("/console/rules/1/turn?to=promote")
			if page.Has("Enough evidence") != (c.want == "") || c.want != "" && !page.Has(c.want) ||
				page.Has(`name="little_evidence"`) != (c.want != "") {
				t.Fatalf("want %q:\n%s", c.want, page.Body)
			}
			if c.want == "" {
				return
			}
			form := url.Values{"version": {"1"}, "reason": {"the <sale>"}}
			page = b.Post("/console/rules/1/promote", form)
			if page.Code != http.StatusUnprocessableEntity || !page.Has("must be checked", `value="the &lt;sale&gt;"`, c.want) {
				t.Errorf("without confirmation: %d\n%s", page.Code, page.Body)
			}
			if w.Rules.List[0].Candidate == nil || w.Changes != 0 {
				t.Error("promoted without confirmation")
			}
			form.Set("little_evidence", "on")
			if page = b.Post("/console/rules/1/promote", form); page.Code != http.StatusSeeOther ||
				w.Rules.List[0].Candidate != nil {
				t.Errorf("with confirmation: %d", page.Code)
			}
		})
	}
}

// TestEvidence_UnknownIsNotEnough: without the counts a promotion is possible, once confirmed.
func TestEvidence_UnknownIsNotEnough(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Figures.Err = rules.ErrUnavailable
	b := w.As(access.RoleEditor)
	page := b.Post("/console/rules/7/promote", url.Values{"version": {"3"}})
	if page.Code != http.StatusUnprocessableEntity || !page.Has("Too little evidence: the counts could not be loaded.") {
		t.Fatalf("got %d\n%s", page.Code, page.Body)
	}
	if strings.Contains(page.Body, "Newly denied") {
		t.Error("unknown counts are shown")
	}
	page = b.Post("/console/rules/7/promote", url.Values{"version": {"3"}, "little_evidence": {"on"}})
	if page.Code != http.StatusSeeOther {
		t.Errorf("confirmed: %d", page.Code)
	}
}
