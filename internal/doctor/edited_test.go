package doctor_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/doctor"
	"sluice/rules"
	"sluice/rules/match"
)

// versions are those of a rule, newest first.
type versions []rules.Revision

// RuleHistory implements attention.Past.
func (v versions) RuleHistory(context.Context, int64, int, int64) ([]rules.Revision, error) {
	return v, nil
}

// edited is the report about a rule after edits, of which each is so long ago, oldest first.
func edited(t *testing.T, p *played, edits ...func(*rules.Rule) time.Duration) doctor.Report {
	t.Helper()
	r := ruleOf(1, "r", func(r *rules.Rule) { r.Limit, r.Version = 60, 1 })
	past := versions{{Version: 1, At: r.UpdatedAt, Changes: rules.Diff(nil, &r)}}
	for _, edit := range edits {
		was := r.Clone()
		r.UpdatedAt = now.Add(-edit(&r))
		r.Version++
		past = slices.Insert(past, 0, rules.Revision{Version: r.Version, At: r.UpdatedAt, Actor: rules.Actor{Name: "API"},
			Changes: rules.Diff(&was, &r)})
	}
	set, err := match.Compile([]rules.Rule{r}, 1, match.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := doctor.Doctor{Stats: p, Overrides: p, Past: past, Set: set, Now: now}
	got, err := d.Rule(t.Context(), &set.Get(1).Rule)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func limitCut(ago time.Duration) func(*rules.Rule) time.Duration {
	return func(r *rules.Rule) time.Duration { r.Limit = 3; return ago }
}

func described(ago time.Duration) func(*rules.Rule) time.Duration {
	return func(r *rules.Rule) time.Duration {
		r.Description, r.Owner, r.FailMode = "Words.", ptr("ops"), rules.FailClosed
		return ago
	}
}

// each plays requests in each second from a time until another one.
func each(p *played, from, until time.Time, allowed, denied int64) {
	for at := from; at.Before(until); at = at.Add(time.Second) {
		p.allow("user:a", at, allowed)
		p.deny("user:b", at, denied)
	}
}

// Two minutes after a limit was cut from 60 to 3, the rule denies 61 %. The doctor says so, and names the edit, also if
// the description was edited since.
func TestDoctor_NamesTheEditBeforeARise(t *testing.T) {
	for name, edits := range map[string][]func(*rules.Rule) time.Duration{
		"the last edit":       {limitCut(2 * time.Minute)},
		"an edit before that": {limitCut(2 * time.Minute), described(time.Minute)},
		"an hour ago":         {limitCut(time.Hour)},
	} {
		p := &played{}
		ago := edits[0](&rules.Rule{})
		each(p, now.Add(-ago-8*time.Minute), now.Add(-ago), 100, 0)
		each(p, now.Add(-ago), now, 39, 61)
		got := edited(t, p, edits...)
		i := slices.IndexFunc(got.Findings, func(f doctor.Finding) bool { return f.Finding == doctor.DeniesMore })
		if i != 0 {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		f := got.Findings[0]
		if f.Numbers["version"] != 2 || f.Numbers["denied_percent"] != 61 || f.Numbers["denied_before"] != 0 ||
			f.Link != "/console/rules/1/rollback?to=1" || !f.Since.Equal(now.Add(-ago)) ||
			!strings.Contains(f.Text, "version 2 (limit 60 to 3)") || !strings.Contains(f.Text, "before none") {
			t.Errorf("%s: %+v", name, f)
		}
		if got.Version != 2 || !got.Same.Equal(now.Add(-ago)) || got.Seen.Denied == 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Half a minute after an edit, what was denied since is not what was denied in the last minute.
func TestDoctor_CountsSinceAnEditYoungerThanAMinute(t *testing.T) {
	for ago, want := range map[time.Duration]string{
		40 * time.Second: "of 3,800 requests since the last edit, before 4,800 of 48,000.",
		2 * time.Minute:  "of 6,200 requests in the last minute, before 4,800 of 48,000.",
	} {
		p := &played{}
		each(p, now.Add(-ago-8*time.Minute), now.Add(-ago), 90, 10)
		each(p, now.Add(-ago), now, 10, 90)
		got := edited(t, p, limitCut(ago)).Findings[0]
		if got.Finding != doctor.DeniesMore || !strings.Contains(got.Text, want) {
			t.Errorf("%s ago: %s", ago, got.Text)
		}
	}
}

// A rule was disabled for 15 seconds. What it denies since it was enabled again is not because of that.
func TestDoctor_BlamesNoEditThatWasUndone(t *testing.T) {
	turned := func(on bool, ago time.Duration) func(*rules.Rule) time.Duration {
		return func(r *rules.Rule) time.Duration { r.IsActive = on; return ago }
	}
	p := &played{}
	each(p, now.Add(-8*time.Minute), now.Add(-65*time.Second), 99, 1)
	each(p, now.Add(-50*time.Second), now, 90, 10)
	got := edited(t, p, turned(false, 65*time.Second), turned(true, 50*time.Second))
	if slices.Contains(names(got.Findings), doctor.DeniesMore) {
		t.Errorf("%+v", got.Findings)
	}
}

func TestDoctor_NamesNoEditWithoutARise(t *testing.T) {
	cut, words := limitCut(2*time.Minute), described(2*time.Minute)
	for name, tt := range map[string]struct {
		before, after [2]int64
		edit          func(*rules.Rule) time.Duration
	}{
		"as much as before":         {[2]int64{39, 61}, [2]int64{39, 61}, cut},
		"no requests before":        {[2]int64{}, [2]int64{39, 61}, cut},
		"an edit that cuts nothing": {[2]int64{100, 0}, [2]int64{39, 61}, words},
	} {
		p := &played{}
		changed := now.Add(-2 * time.Minute)
		each(p, now.Add(-8*time.Minute), changed, tt.before[0], tt.before[1])
		each(p, changed, now, tt.after[0], tt.after[1])
		if got := names(edited(t, p, tt.edit).Findings); slices.Contains(got, doctor.DeniesMore) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What the doctor knows of a rule begins anew with an edit of the limit, but not with one of the description. What
// needs no keys is known a minute later.
func TestDoctor_KnowsARuleSinceItDecidesAsItDoes(t *testing.T) {
	p := &played{}
	p.deny("user:a", hour, 1000)
	got := edited(t, p, described(time.Minute))
	if !slices.Equal(names(got.Findings), []string{doctor.DeniesMost}) || got.Version != 1 || got.Seen.Denied != 1000 {
		t.Errorf("after an edit of the description: %+v", got)
	}
	got = edited(t, p, limitCut(3*time.Minute))
	if len(got.Findings) != 0 || got.Version != 2 || got.Seen.Requests != 0 {
		t.Errorf("after an edit of the limit: %+v", got)
	}
	p.deny("user:a", now.Add(-90*time.Second), 200)
	got = edited(t, p, limitCut(3*time.Minute))
	if !slices.Equal(names(got.Findings), []string{doctor.DeniesMost}) || got.Findings[0].Numbers["denied"] != 200 ||
		got.Findings[0].Since.Before(got.Same) {
		t.Errorf("some minutes after an edit of the limit: %+v", got)
	}
}
