package database

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/audit"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
	"sluice/rules/override"
)

// mustOverride stores an override of a rule.
func mustOverride(t testing.TB, d *DB, o rules.Override) rules.Override {
	t.Helper()
	created, err := d.CreateOverride(t.Context(), ada, o, match.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// held is the version of that number in the history of d.
func held(t testing.TB, d *DB, area string, n int64) Version {
	t.Helper()
	v := Version{N: n}
	err := d.read.Table("version_history").Where("name = ? AND version = ?", area, n).Limit(1).Pluck("stamp",
		&v.Stamp).Error
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// loaded is what a node that has everything up to since gets.
func loaded(t testing.TB, d *DB, since int64) (rows []override.Row, full bool, seq int64) {
	t.Helper()
	is, err := d.LoadOverrides(t.Context(), held(t, d, areaOverrides, since), func(f bool) { full = f },
		func(s override.Row) { rows = append(rows, s) })
	if err != nil {
		t.Fatal(err)
	}
	return rows, full, is.N
}

// words returns the keys of rows, those that are gone with a minus.
func words(rows []override.Row) string {
	var out []string
	for _, r := range rows {
		word := r.Match
		if r.Prefix {
			word += "*"
		}
		if r.Deleted {
			word = "-" + word
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

func TestOverrides_ComeBackAsStored(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		r := mustCreate(t, d, sample("a"))
		end := time.Date(2999, 1, 2, 3, 4, 5, 678_900_000, time.FixedZone("", 3600))
		got := mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "42", Limit: ptr[int64](50), Burst: ptr[int64](70),
			Reason: " big customer ", ExpiresAt: &end})
		want := rules.Override{
			ID: got.ID, RuleID: r.ID, Key: "user:42", Match: "{user:42}", Limit: ptr[int64](50), Burst: ptr[int64](70),
			Reason:    " big customer ",
			ExpiresAt: ptr(end.UTC().Truncate(time.Millisecond)), Version: 1, CreatedAt: got.CreatedAt, UpdatedAt: got.CreatedAt,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		read, err := d.GetOverride(t.Context(), r.ID, got.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, read); diff != "" {
			t.Error(diff)
		}
		if got.CreatedAt.IsZero() {
			t.Error("no time of creation")
		}
	})
}

// Nodes get what an override replaces of the calendar, and the period in which it was edited goes on, whether it was
// edited by itself or with a file.
func TestOverrides_KeepThePeriodInWhichTheirCalendarIsEdited(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		monthly := sample("a")
		monthly.Algorithm, monthly.WindowMS, monthly.Burst = "fixed_window", 0, nil
		monthly.Calendar = &rules.Calendar{Every: rules.EveryMonth}
		r := mustCreate(t, d, monthly)
		day := func(day int64) *rules.OverrideCalendar { return &rules.OverrideCalendar{AnchorDay: day} }
		other := int64(time.Now().UTC().AddDate(0, 0, 14).Day()) // of today, so that the period differs
		o := mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "42", Calendar: day(other)})
		mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "43", Limit: ptr[int64](5)})
		is := func(what string, id int64, first bool) rules.Override {
			t.Helper()
			got, err := d.GetOverride(t.Context(), r.ID, id)
			if err != nil || got.First == (rules.FirstPeriod{}) == first {
				t.Errorf("%s: got %+v, %v", what, got, err)
			}
			rows, _, _ := loaded(t, d, -1)
			for _, row := range rows {
				if row.ID == id && row.Calendar != match.OverrideRow(&got).Calendar {
					t.Errorf("%s: nodes get %+v of %+v", what, row, got)
				}
			}
			return got
		}
		made := is("created", o.ID, other != 1)
		o.Reason = "a word"
		if _, err := d.UpdateOverride(t.Context(), ada, o, 1, match.Options{}); err != nil {
			t.Fatal(err)
		}
		if again := is("a word", o.ID, other != 1); again.First != made.First || *again.Calendar != *day(other) {
			t.Errorf("a word makes %+v of %+v", again, made)
		}
		in := rules.OverrideImport{RuleID: r.ID, Items: []rules.ImportedOverride{
			{Line: 2, Override: rules.Override{Key: "user:42", Limit: ptr[int64](9)}},
			{Line: 3, Override: rules.Override{Key: "user:44", Calendar: day(other)}},
		}}
		if _, err := d.ImportOverrides(t.Context(), ada, in, match.Options{}); err != nil {
			t.Fatal(err)
		}
		if got := is("without", o.ID, false); got.Calendar != nil {
			t.Errorf("the calendar is still %+v", got.Calendar)
		}
		p, err := d.ListOverrides(t.Context(), rules.OverrideQuery{RuleID: r.ID, Match: "{user:44}"})
		if err != nil || len(p.Overrides) != 1 {
			t.Fatalf("got %+v, %v", p, err)
		}
		if got := is("imported", p.Overrides[0].ID, other != 1); got.First != made.First {
			t.Errorf("imported: %+v, want %+v", got.First, made.First)
		}
		_, err = d.CreateOverride(t.Context(), ada, rules.Override{RuleID: r.ID, Key: "user:1"}, match.Options{})
		if invalid := new(field.ValidationError); !errors.As(err, &invalid) {
			t.Errorf("neither limit nor calendar: %v", err)
		}
	})
}

func TestOverrides_OneForEachKey(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		a, b := mustCreate(t, d, sample("a")), mustCreate(t, d, sample("b"))
		mustOverride(t, d, rules.Override{RuleID: a.ID, Key: "user:42", Blocked: true})
		mustOverride(t, d, rules.Override{RuleID: a.ID, Key: "user:42*", Blocked: true})
		mustOverride(t, d, rules.Override{RuleID: b.ID, Key: "user:42", Blocked: true})
		for _, key := range []string{"user:42", "42", "user:4%32", "user:42*"} {
			if _, err := d.CreateOverride(ctx, ada, rules.Override{RuleID: a.ID, Key: key, Unlimited: true},
				match.Options{}); !errors.Is(err, rules.ErrOverrideExists) {
				t.Errorf("%s again: got %v, want ErrOverrideExists", key, err)
			}
		}
		if _, err := d.CreateOverride(ctx, ada, rules.Override{RuleID: 99, Key: "user:1", Blocked: true},
			match.Options{}); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("no such rule: got %v", err)
		}
		var invalid *field.ValidationError
		if _, err := d.CreateOverride(ctx, ada, rules.Override{RuleID: a.ID, Key: "user:1"}, match.Options{}); !errors.As(err,
			&invalid) {
			t.Errorf("says nothing: got %v", err)
		}
	})
}

// One that has ended makes room for a new one, cleaned up or not.
func TestOverrides_AnEndedOneMakesRoom(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
			d, err := Open(t.Context(), Options{DSN: b.dsn(t), Now: func() time.Time { return now }, CallTimeout: patience})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			r := mustCreate(t, d, sample("a"))
			o := rules.Override{RuleID: r.ID, Key: "user:42", Blocked: true, ExpiresAt: ptr(now.Add(time.Minute))}
			first := mustOverride(t, d, o)
			now = now.Add(time.Minute)
			if p, err := d.ListOverrides(t.Context(), rules.OverrideQuery{RuleID: r.ID}); err != nil || len(p.Overrides) != 0 {
				t.Errorf("listed after its end: %+v, %v", p, err)
			}
			if p, err := d.ListOverrides(t.Context(), rules.OverrideQuery{RuleID: r.ID, IncludeExpired: true}); err != nil ||
				len(p.Overrides) != 1 {
				t.Errorf("asked for ended ones: %+v, %v", p, err)
			}
			o.ExpiresAt = nil
			if second := mustOverride(t, d, o); second.ID == first.ID || second.Version != 1 {
				t.Errorf("got %+v, want a new one", second)
			}
		})
	}
}

func TestOverrides_EditsAndDeletionsReachNodesOneByOne(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		r := mustCreate(t, d, sample("a"))
		a := mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "user:a", Blocked: true})
		mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "user:b*", Unlimited: true})
		rows, full, seq := loaded(t, d, -1)
		if !full || words(rows) != "{user:a} {user:b*" {
			t.Fatalf("first load: full %v, %s", full, words(rows))
		}
		if rows, full, again := loaded(t, d, seq); full || len(rows) != 0 || again != seq {
			t.Errorf("nothing changed: full %v, %s, %d", full, words(rows), again)
		}
		if err := d.DeleteOverride(ctx, ada, r.ID, a.ID, 0); err != nil {
			t.Fatal(err)
		}
		back := mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "user:a", Limit: ptr[int64](7)})
		rows, full, next := loaded(t, d, seq)
		if full || words(rows) != "-{user:a} {user:a}" || next != seq+2 || rows[1].Limit != 7 || rows[1].Burst != -1 {
			t.Errorf("changes: full %v, %+v, %d after %d", full, rows, next, seq)
		}
		back.Limit, back.Key = ptr[int64](8), ""
		if _, err := d.UpdateOverride(ctx, ada, back, 1, match.Options{}); err != nil {
			t.Fatal(err)
		}
		if rows, _, _ := loaded(t, d, next); len(rows) != 1 || rows[0].Limit != 8 {
			t.Errorf("an edit: %+v", rows)
		}
		if _, full, _ := loaded(t, d, next+100); !full {
			t.Error("a node ahead of the database must load everything")
		}
		if err := d.DeleteRule(ctx, ada, r.ID, 0); err != nil {
			t.Fatal(err)
		}
		rows, full, last := loaded(t, d, next+1)
		if full || words(rows) != "-" || rows[0].RuleID != r.ID {
			t.Errorf("after the rule: full %v, %+v", full, rows)
		}
		if rows, _, _ := loaded(t, d, -1); len(rows) != 0 {
			t.Errorf("a deleted rule leaves %s", words(rows))
		}
		if got := mustVersions(t, d).Overrides; got != last {
			t.Errorf("version %d, want %d", got, last)
		}
	})
}

func TestOverrides_VersionsGuardAgainstColleagues(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		r := mustCreate(t, d, sample("a"))
		o := mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "user:a", Blocked: true})
		edit := o
		edit.Blocked, edit.Unlimited = false, true
		got, err := d.UpdateOverride(ctx, ada, edit, 1, match.Options{})
		if err != nil || got.Version != 2 || !got.Unlimited || got.Blocked {
			t.Errorf("got %+v, %v", got, err)
		}
		if _, err := d.UpdateOverride(ctx, ada, edit, 1, match.Options{}); !errors.Is(err, rules.ErrStale) {
			t.Errorf("stale edit: %v", err)
		}
		if err := d.DeleteOverride(ctx, ada, r.ID, o.ID, 1); !errors.Is(err, rules.ErrStale) {
			t.Errorf("stale deletion: %v", err)
		}
		edit.Key = "user:b"
		var invalid *field.ValidationError
		if _, err := d.UpdateOverride(ctx, ada, edit, 0, match.Options{}); !errors.As(err, &invalid) ||
			invalid.Fields[0].Field != "key" {
			t.Errorf("another key: %v", err)
		}
		other := mustCreate(t, d, sample("b"))
		if err := d.DeleteOverride(ctx, ada, other.ID, o.ID, 0); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("by another rule: %v", err)
		}
		if err := d.DeleteOverride(ctx, ada, r.ID, o.ID, 2); err != nil {
			t.Error(err)
		}
	})
}

func TestOverrides_ChangesAreInTheAuditLogOfTheirRule(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		r := mustCreate(t, d, sample("a"))
		o := mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "user:a", Blocked: true, Reason: "abuse"})
		o.Reason = "spam"
		if _, err := d.UpdateOverride(ctx, ada, o, 0, match.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := d.DeleteOverride(ctx, ada, r.ID, o.ID, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := d.ImportOverrides(ctx, ada, rules.OverrideImport{RuleID: r.ID, Items: lines("user:x", "user:y")},
			match.Options{}); err != nil {
			t.Fatal(err)
		}
		entries, err := d.ListAudit(ctx, audit.Query{SubjectKind: subjectRule, SubjectID: r.ID})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			got = append(got, e.Action+" "+e.Actor.Name+" "+e.SubjectName)
		}
		want := []string{"override_import ada a", "override_delete ada a", "override_update ada a", "override_create ada a",
			"create ada a"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if details := string(entries[3].Details); !strings.Contains(details, "abuse") ||
			!strings.Contains(details, "user:a") {
			t.Errorf("details %s", details)
		}
		fields := [][]field.Change{
			nil,
			{{Field: "blocked", Old: true}, {Field: "reason", Old: "spam"}},
			{{Field: "reason", Old: "abuse", New: "spam"}},
			{{Field: "blocked", New: true}, {Field: "reason", New: "abuse"}},
		}
		for i, want := range fields {
			if diff := cmp.Diff(want, entries[i].Changes()); diff != "" || (entries[i].Key() == "user:a") != (i > 0) {
				t.Errorf("%s of %q: %s", entries[i].Action, entries[i].Key(), diff)
			}
		}
	})
}

func TestOverrides_WithoutTheirAuditEntryDoNotHappen(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		r := mustCreate(t, d, sample("a"))
		o := mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "user:a", Blocked: true})
		breakAudit(t, d)
		_, _, before := loaded(t, d, -1)
		failures := map[string]error{"delete": d.DeleteOverride(ctx, ada, r.ID, o.ID, 0),
			"rule": d.DeleteRule(ctx, ada, r.ID, 0)}
		_, failures["create"] = d.CreateOverride(ctx, ada, rules.Override{RuleID: r.ID, Key: "user:b", Blocked: true},
			match.Options{})
		o.Reason = "spam"
		_, failures["update"] = d.UpdateOverride(ctx, ada, o, 0, match.Options{})
		_, failures["import"] = d.ImportOverrides(ctx, ada, rules.OverrideImport{RuleID: r.ID, Items: lines("user:c"),
			Prune: true}, match.Options{})
		for name, err := range failures {
			if err == nil {
				t.Errorf("%s succeeded without its audit entry", name)
			}
		}
		rows, _, after := loaded(t, d, -1)
		if words(rows) != "{user:a}" || after != before {
			t.Errorf("a failed change left a trace: %s, %d after %d", words(rows), after, before)
		}
		if _, err := d.CreateOverride(ctx, rules.Actor{}, o, match.Options{}); !errors.Is(err, ErrNoActor) {
			t.Errorf("nobody's change: %v", err)
		}
	})
}

func TestListOverrides_PagesAndSearches(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		r := mustCreate(t, d, sample("a"))
		var keys []string
		for i := range 1200 {
			keys = append(keys, fmt.Sprintf("user:u%04d", i))
		}
		if _, err := d.ImportOverrides(ctx, ada, rules.OverrideImport{RuleID: r.ID, Items: lines(keys...)},
			match.Options{}); err != nil {
			t.Fatal(err)
		}
		var got []string
		q := rules.OverrideQuery{RuleID: r.ID, PageSize: 500}
		for {
			p, err := d.ListOverrides(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			for i := range p.Overrides {
				got = append(got, p.Overrides[i].Key)
			}
			if !p.More {
				break
			}
			q.AfterID = p.Overrides[len(p.Overrides)-1].ID
		}
		if diff := cmp.Diff(keys, got); diff != "" {
			t.Error(diff)
		}
		mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "user:odd", Blocked: true, Reason: "100% Abuse"})
		for text, want := range map[string]int{"U000": 10, "abuse": 1, "100%": 1, "%": 1, "_": 0, "\x00": 0, "user:odd": 1} {
			if p, err := d.ListOverrides(ctx, rules.OverrideQuery{RuleID: r.ID, Text: text, PageSize: 100}); err != nil ||
				len(p.Overrides) != want {
				t.Errorf("%q: got %d, %v, want %d", text, len(p.Overrides), err, want)
			}
		}
		if p, err := d.ListOverrides(ctx, rules.OverrideQuery{RuleID: r.ID, Match: "{user:u0007}"}); err != nil ||
			len(p.Overrides) != 1 {
			t.Errorf("one key: %+v, %v", p, err)
		}
		other := mustCreate(t, d, sample("b"))
		mustOverride(t, d, rules.Override{RuleID: other.ID, Key: "user:u0007", Blocked: true})
		of := func() (ids []int64) {
			p, err := d.ListOverrides(ctx, rules.OverrideQuery{AllRules: true, Text: "u0007"})
			if err != nil {
				t.Fatal(err)
			}
			for i := range p.Overrides {
				ids = append(ids, p.Overrides[i].RuleID)
			}
			return ids
		}
		if got := of(); !slices.Equal(got, []int64{r.ID, other.ID}) {
			t.Errorf("over all rules: %v", got)
		}
		if err := d.DeleteRule(ctx, ada, other.ID, 0); err != nil {
			t.Fatal(err)
		}
		if got := of(); !slices.Equal(got, []int64{r.ID}) {
			t.Errorf("over all rules after one was deleted: %v", got)
		}
	})
}

func TestCleanOverrides_DropsWhatNobodyNeeds(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := context.Background()
			now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
			d, err := Open(ctx, Options{DSN: b.dsn(t), Now: func() time.Time { return now }, CallTimeout: patience})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			r, doomed := mustCreate(t, d, sample("a")), mustCreate(t, d, sample("b"))
			ends := mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "user:ends", Blocked: true,
				ExpiresAt: ptr(now.Add(time.Hour))})
			mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "user:stays", Blocked: true})
			gone := mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "user:gone", Blocked: true})
			if err := d.DeleteOverride(ctx, ada, r.ID, gone.ID, 0); err != nil {
				t.Fatal(err)
			}
			_, _, seq := loaded(t, d, -1)
			// Rows that a deletion of their rule left behind.
			mustOverride(t, d, rules.Override{RuleID: doomed.ID, Key: "user:orphan", Blocked: true})
			if err := d.DeleteRule(ctx, ada, doomed.ID, 0); err != nil {
				t.Fatal(err)
			}
			row := overrideRow{RuleID: doomed.ID, Key: "user:x", MatchKey: "{user:x}", Blocked: true, Version: 1,
				CreatedAt: newRowTime(now), UpdatedAt: newRowTime(now)}
			if err := d.write.Create(&row).Error; err != nil {
				t.Fatal(err)
			}
			count := func() (n int64) {
				if err := d.read.Model(&overrideRow{}).Count(&n).Error; err != nil {
					t.Fatal(err)
				}
				return n
			}
			clean := func() {
				if more, err := d.CleanOverrides(ctx); err != nil || more {
					t.Fatalf("more %v, %v", more, err)
				}
			}
			clean()
			if got := count(); got != 2 {
				t.Errorf("%d rows, want the orphan gone and the others kept", got)
			}
			if _, full, _ := loaded(t, d, seq); full {
				t.Error("tombstones went too early")
			}
			now = now.Add(25*time.Hour + time.Minute)
			clean()
			if _, err := d.GetOverride(ctx, r.ID, ends.ID); !errors.Is(err, rules.ErrNotFound) || count() != 1 {
				t.Errorf("an override that ended long ago is still there: %v", err)
			}
			if _, full, _ := loaded(t, d, seq); !full {
				t.Error("a node that is behind the tombstones must load everything")
			}
		})
	}
}

func TestUpdateOverride_ThatChangesNothingWritesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		r, end := mustCreate(t, d, sample("a")), d.now().Add(time.Hour).Truncate(time.Millisecond)
		o := mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "user:x", Limit: ptr[int64](50), Reason: "why",
			ExpiresAt: &end})
		before := fingerprint(t, d)
		for _, version := range []int64{0, o.Version} {
			got, err := d.UpdateOverride(t.Context(), ada, o, version, match.Options{})
			if diff := cmp.Diff(o, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		}
		if _, err := d.UpdateOverride(t.Context(), ada, o, o.Version+1, match.Options{}); !errors.Is(err, rules.ErrStale) {
			t.Errorf("a stale version: %v", err)
		}
		if diff := cmp.Diff(before, fingerprint(t, d)); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
	})
}
