package database

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/rules"
)

// everyKind stores rules of every kind with what belongs to them, and names
// those that a schema without policies cannot hold.
func everyKind(t *testing.T, d *DB) (cannot []string) {
	t.Helper()
	mustPool(t, d, "shop")
	mustCreate(t, d, sample("plain"))
	owned := sample("owned")
	owned.Owner = ptr("payments")
	mustCreate(t, d, owned)
	for _, r := range policies() {
		mustCreate(t, d, r)
		cannot = append(cannot, r.Name)
	}
	mallory := sample("mallory")
	mallory.Limit, mallory.When = 0, ptr(`user == "mallory"`)
	mustCreate(t, d, mallory)
	mayFly := sample("may-fly")
	until := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	mayFly.ActiveUntil = &until
	mustCreate(t, d, mayFly)
	trial := sample("trial")
	trial.Candidate, trial.HotKeys = &rules.Candidate{Limit: ptr(int64(1))}, "leased"
	mustCreate(t, d, trial)
	off := sample("off")
	off.When, off.IsActive = ptr(`user == "eve"`), false
	mustCreate(t, d, off)

	granting, blocking := mustCreate(t, d, sample("granting")), mustCreate(t, d, sample("blocking"))
	mustOverride(t, d, rules.Override{RuleID: granting.ID, Key: "user:1", Unlimited: true, Reason: "friend"})
	mustOverride(t, d, rules.Override{RuleID: granting.ID, Key: "user:2*", Limit: ptr(int64(7))})
	mustOverride(t, d, rules.Override{RuleID: blocking.ID, Key: "user:3", Blocked: true})

	why := ada
	why.Reason = "because of ticket 7"
	edited := mustCreate(t, d, sample("edited"))
	edited.Limit = 77
	if _, err := d.UpdateRule(t.Context(), why, edited, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := d.CreateUser(t.Context(), ada, access.User{Name: "grace", Role: access.RoleAdmin,
		PasswordHash: "$argon2id$x"}, true); err != nil {
		t.Fatal(err)
	}
	if _, err := d.SignOn(t.Context(), someone("s1", "lin", access.RoleEditor)); err != nil {
		t.Fatal(err)
	}
	return append(cannot, "mallory", "may-fly")
}

// world is everything that a migration may touch.
type world struct {
	Rules     []rules.Rule
	Pools     []rules.Pool
	Overrides []rules.Override
	Users     []access.User
	Reasons   []string
	Audit     map[string]int
}

func readWorld(t *testing.T, d *DB) (w world) {
	t.Helper()
	ctx := t.Context()
	fail := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	var err error
	w.Rules, _, err = loadAllRules(ctx, d)
	fail(err)
	w.Pools, err = d.Pools().List(ctx)
	fail(err)
	w.Users, err = d.ListUsers(ctx)
	fail(err)
	for _, r := range w.Rules {
		page, err := d.ListOverrides(ctx, rules.OverrideQuery{RuleID: r.ID, PageSize: 100})
		fail(err)
		w.Overrides = append(w.Overrides, page.Overrides...)
		history, err := d.RuleHistory(ctx, r.ID, 0, 0)
		fail(err)
		for _, rev := range history {
			if rev.Reason != "" && rev.Actor.Kind != "system" {
				w.Reasons = append(w.Reasons, rev.Reason)
			}
		}
	}
	w.Audit = map[string]int{}
	entries, err := d.ListAudit(ctx, audit.Query{})
	fail(err)
	for _, e := range entries {
		if e.Actor.Kind != "system" {
			w.Audit[e.SubjectKind]++
		}
	}
	return w
}

var asBefore = cmpopts.IgnoreFields(rules.Rule{}, "Version", "UpdatedAt")

func TestMigrateDown_WidensNothingAndUpBringsEverythingBack(t *testing.T) {
	for _, version := range []int64{1, 2, 4} {
		onEach(t, func(t *testing.T, d *DB) {
			var log bytes.Buffer
			d.log = slog.New(slog.NewTextHandler(&log, nil))
			want := []string{}
			if cannot := everyKind(t, d); version < stepPolicies {
				want = cannot
			}
			if version < stepOverrides {
				want = append(want, "granting")
			}
			before := readWorld(t, d)
			if err := d.MigrateDown(t.Context(), version); err != nil {
				t.Fatal(err)
			}
			var off []string
			if err := d.read.Raw("SELECT name FROM rules WHERE NOT is_active AND name <> 'off'").Scan(&off).Error; err != nil {
				t.Fatal(err)
			}
			slices.Sort(off)
			slices.Sort(want)
			if diff := cmp.Diff(want, off, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("down to %d: should be off (-), are off (+):\n%s", version, diff)
			}
			for _, name := range want {
				if !strings.Contains(log.String(), `rule="`+name+": ") {
					t.Errorf("%s is not named:\n%s", name, log.String())
				}
			}
			if version >= stepUsers {
				var people []string
				if err := d.read.Raw("SELECT name FROM users").Scan(&people).Error; err != nil {
					t.Fatal(err)
				}
				if signOn := slices.Contains(people, "lin"); signOn != (version >= stepSignOn) {
					t.Errorf("down to %d: accounts %v", version, people)
				}
			}
			if err := d.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, readWorld(t, d), asBefore); diff != "" {
				t.Errorf("before (-), down to %d and up again (+):\n%s", version, diff)
			}
			if tables, err := parkedNow(d.read, d.dialect); err != nil || len(tables) != 0 {
				t.Errorf("left: %v %v", tables, err)
			}
			if len(before.Users) != 2 || len(before.Overrides) != 3 || len(before.Reasons) != 1 || before.Audit["user"] == 0 {
				t.Fatalf("the test stores too little: %+v", before)
			}
			mustPool(t, d, "next") // ids go on
			mustOverride(t, d, rules.Override{RuleID: before.Rules[0].ID, Key: "user:9", Blocked: true})
		})
	}
}

func TestMigrateDown_WhatWasEditedMeanwhileStays(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		r := sample("r")
		r.When = ptr(`user == "mallory"`)
		r = mustCreate(t, d, r)
		if err := d.MigrateDown(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := d.write.Exec("UPDATE rules SET is_active = ?, limit_count = 9, version = version + 1",
			true).Error; err != nil {
			t.Fatal(err)
		}
		if err := d.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := d.GetRule(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got.Limit != 9 || !got.IsActive || got.When != nil {
			t.Errorf("got %+v", got)
		}
	})
}

// A build that does not know the member shed, started in between, restores and drops the copies that it knows.
func TestMigrateDown_APoolShedsAgainAfterAnEarlierBuildRan(t *testing.T) {
	for _, version := range []int64{1, stepShed - 1} {
		onEach(t, func(t *testing.T, d *DB) {
			mustPool(t, d, "counts")
			sheds := samplePool("sheds")
			sheds.Shed = true
			if _, err := d.Pools().Create(t.Context(), ada, sheds); err != nil {
				t.Fatal(err)
			}
			if err := d.MigrateDown(t.Context(), version); err != nil {
				t.Fatal(err)
			}
			toStep(t, d, stepShed-1)
			if version < stepPolicies {
				const restore = `INSERT INTO pools (id, name, description, limit_count, window_ms, low_percent, normal_percent, version,
					created_at, updated_at) %s SELECT id, name, description, limit_count, window_ms, low_percent, normal_percent,
					version, created_at, updated_at FROM parked_pools`
				overriding := map[dialect]string{dialectPostgres: "OVERRIDING SYSTEM VALUE"}[d.dialect]
				if err := d.write.Exec(fmt.Sprintf(restore, overriding)).Error; err != nil {
					t.Fatal(err)
				}
			}
			if err := d.write.Exec("DROP TABLE IF EXISTS parked_pools").Error; err != nil {
				t.Fatal(err)
			}
			if err := d.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			got, err := d.Pools().List(t.Context())
			if err != nil || len(got) != 2 || got[0].Shed || !got[1].Shed {
				t.Errorf("down to %d, with an earlier build in between: %+v, %v", version, got, err)
			}
			if tables, err := parkedNow(d.read, d.dialect); err != nil || len(tables) != 0 {
				t.Errorf("left: %v, %v", tables, err)
			}
		})
	}
}
