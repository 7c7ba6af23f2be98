package database

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/audit"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
	"sluice/rules/profile"
)

func sampleProfile(name string) profile.Profile {
	p := profile.New()
	p.Name, p.Description = name, "the shop's edge"
	p.Facts.User = []profile.Source{{Header: "X-User"}, {Value: "anonymous"}}
	p.Facts.Attributes = map[string][]profile.Source{"tenant": {{Claim: "tenant"}}}
	p.Routes = []string{"/users/{id}", "/files/*"}
	p.Missing = map[string]profile.MissingFact{"attr:tenant": {Action: profile.MissingDeny}}
	p.Domain, p.Entries = name, map[string]string{"remote_address": "ip", "who am I": "user"}
	p.Weight = &profile.WeightSource{Header: "X-Weight"}
	p.Proof = profile.Proof{Networks: []string{"127.0.0.1"}, Certificates: []string{}}
	return p
}

func mustProfile(t testing.TB, d *DB, name string) profile.Profile {
	t.Helper()
	p, err := d.Profiles().Create(t.Context(), ada, sampleProfile(name))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A profile's life: every edit counts as an edit of the rules and leaves an entry.
func TestProfiles_LiveAsPoolsDo(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		shop := mustProfile(t, d, "shop")
		mustProfile(t, d, "bar")
		if shop.Version != 1 || shop.CreatedAt.IsZero() || mustVersions(t, d).Rules != 2 {
			t.Errorf("got %+v", shop)
		}
		if _, err := d.Profiles().Create(ctx, ada, sampleProfile("shop")); !errors.Is(err, rules.ErrNameTaken) {
			t.Errorf("a second one of the name: %v", err)
		}
		edit := shop.Clone()
		edit.Path, edit.Routes = profile.PathRaw, []string{}
		got, err := d.Profiles().Update(ctx, ada, edit, 1)
		if err != nil || got.Version != 2 || got.Path != profile.PathRaw || !got.CreatedAt.Equal(shop.CreatedAt) {
			t.Fatalf("got %+v, %v", got, err)
		}
		if _, err := d.Profiles().Update(ctx, ada, shop, 1); !errors.Is(err, rules.ErrStale) {
			t.Errorf("stale: %v", err)
		}
		if same, err := d.Profiles().Update(ctx, ada, edit, 2); err != nil || same.Version != 2 ||
			mustVersions(t, d).Rules != 3 {
			t.Errorf("an edit without a difference: %+v, %v", same, err)
		}
		bad := edit.Clone()
		bad.Path = "odd"
		var invalid *field.ValidationError
		if _, err := d.Profiles().Update(ctx, ada, bad, 2); !errors.As(err, &invalid) {
			t.Errorf("invalid: %v", err)
		}
		if read, err := d.Profiles().Get(ctx, "shop"); err != nil || cmp.Diff(got, read) != "" {
			t.Errorf("read back %+v, %v", read, err)
		}
		for _, name := range []string{"nobody", "\x00", ""} {
			if _, err := d.Profiles().Get(ctx, name); !errors.Is(err, rules.ErrNotFound) {
				t.Errorf("get %q: %v", name, err)
			}
			if err := d.Profiles().Delete(ctx, ada, name, 0); !errors.Is(err, rules.ErrNotFound) {
				t.Errorf("delete %q: %v", name, err)
			}
		}
		src, err := d.LoadRules(ctx)
		if err != nil || src.Version != 3 || cmp.Diff([]profile.Profile{mustGetProfile(t, d, "bar"), got},
			src.Profiles) != "" {
			t.Errorf("loaded %+v, %v", src, err)
		}
		set, err := match.CompileSource(src, match.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Profiles().Delete(ctx, ada, "shop", 1); !errors.Is(err, rules.ErrStale) {
			t.Errorf("a stale deletion: %v", err)
		}
		if err := d.Profiles().Delete(ctx, ada, "shop", 2); err != nil {
			t.Error(err)
		}
		delta, _, ok, err := d.LoadChanges(ctx, Version{N: src.Version, Stamp: src.Stamp})
		if err != nil || !ok || !delta.ProfilesChanged {
			t.Fatalf("got %+v, %t, %v", delta, ok, err)
		}
		next, err := set.Apply(delta)
		if err != nil || next.Profile("shop") != nil || next.Profile("bar") != set.Profile("bar") {
			t.Errorf("the changes do not apply: %v", err)
		}
		entries, err := d.ListAudit(ctx, audit.Query{SubjectKind: "profile"})
		if err != nil || len(entries) != 4 || entries[0].Action != "delete" || entries[0].SubjectName != "shop" {
			t.Fatalf("audit %+v, %v", entries, err)
		}
		var update ruleDetails
		err = json.Unmarshal(entries[1].Details, &update)
		if err != nil || update.Version != 2 || len(update.Changes) != 2 || update.Changes[0].Field != "routes" ||
			update.Changes[1].New != profile.PathRaw {
			t.Errorf("audit of the update: %+v, %v", update, err)
		}
	})
}

func mustGetProfile(t *testing.T, d *DB, name string) profile.Profile {
	t.Helper()
	p, err := d.Profiles().Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestApplyPlan_Profiles(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		current := func() rules.File {
			src, err := d.LoadAllRules(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return rules.File{Rules: src.Rules, Pools: src.Pools, Profiles: src.Profiles}
		}
		wanted := rules.File{Profiles: []profile.Profile{sampleProfile("a"), sampleProfile("b")}}
		plan := rules.MakeFilePlan(current(), wanted, true)
		if err := d.ApplyPlan(ctx, ada, plan); err != nil {
			t.Fatal(err)
		}
		if again := rules.MakeFilePlan(current(), wanted, true); !again.Empty() {
			t.Errorf("applying it again would %s", again.String())
		}
		if left := rules.MakeFilePlan(current(), rules.File{}, true); !left.Empty() {
			t.Errorf("a file without profiles would %s", left.String())
		}
		edited := sampleProfile("a")
		edited.Path = profile.PathRaw
		update := rules.MakeFilePlan(current(), rules.File{Profiles: []profile.Profile{edited}}, true)
		if err := d.ApplyPlan(ctx, ada, update); err != nil {
			t.Fatal(err)
		}
		if err := d.ApplyPlan(ctx, ada, update); !errors.Is(err, rules.ErrStale) {
			t.Errorf("profiles that have changed since: %v", err)
		}
		if got := current().Profiles; len(got) != 1 || got[0].Path != profile.PathRaw || got[0].Version != 2 {
			t.Errorf("got %+v", got)
		}
		invalid := rules.Plan{Profiles: rules.ProfilePlan{Create: []profile.Profile{{Name: "c"}}}}
		var ve *field.ValidationError
		if err := d.ApplyPlan(ctx, ada, invalid); !errors.As(err, &ve) {
			t.Errorf("an invalid profile: %v", err)
		}
	})
}

func TestProfiles_AreBounded(t *testing.T) {
	d := open(t, backends[1].dsn(t))
	var plan rules.Plan
	for i := range profile.MaxProfiles {
		p := profile.New()
		p.Name = fmt.Sprint("p", i)
		plan.Profiles.Create = append(plan.Profiles.Create, p)
	}
	if err := d.ApplyPlan(t.Context(), ada, plan); err != nil {
		t.Fatal(err)
	}
	var ve *field.ValidationError
	if _, err := d.Profiles().Create(t.Context(), ada, sampleProfile("more")); !errors.As(err, &ve) {
		t.Errorf("got %v", err)
	}
	swap := rules.Plan{Profiles: rules.ProfilePlan{Create: []profile.Profile{sampleProfile("more")},
		Delete: []profile.Profile{mustGetProfile(t, d, "p7")}}}
	if err := d.ApplyPlan(t.Context(), ada, swap); err != nil {
		t.Errorf("one for another: %v", err)
	}
}

// A row that was damaged by hand is listed, and no set with it takes effect.
func TestProfiles_DamagedByHandDoNotCompile(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		mustProfile(t, d, "shop")
		if err := d.write.Exec(`UPDATE profiles SET settings = '{"proof": "none"}'`).Error; err != nil {
			t.Fatal(err)
		}
		src, err := d.LoadRules(t.Context())
		if err != nil || len(src.Profiles) != 1 || src.Profiles[0].Name != "shop" {
			t.Fatalf("got %+v, %v", src, err)
		}
		if _, err := match.CompileSource(src, match.Options{}); err == nil || !strings.Contains(err.Error(), `profile "shop"`) {
			t.Errorf("got %v", err)
		}
	})
}

// Two profiles never have the same domain, and a plan may exchange those of two.
func TestProfiles_ADomainHasOneProfile(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		one, two := mustProfile(t, d, "one"), mustProfile(t, d, "two")
		var taken *rules.TakenError
		same := sampleProfile("three")
		same.Domain = "one"
		if _, err := d.Profiles().Create(ctx, ada, same); !errors.As(err, &taken) || taken.Field != "domain" {
			t.Errorf("create: %v", err)
		}
		edit := two.Clone()
		edit.Domain = "one"
		if _, err := d.Profiles().Update(ctx, ada, edit, 0); !errors.As(err, &taken) {
			t.Errorf("update: %v", err)
		}
		stored := rules.File{Profiles: []profile.Profile{one, two}}
		if err := d.ApplyPlan(ctx, ada, rules.MakeFilePlan(stored, rules.File{Profiles: []profile.Profile{edit}},
			false)); !errors.As(err, &taken) {
			t.Errorf("plan: %v", err)
		}
		was := one.Clone()
		was.Domain = "two"
		swap := rules.MakeFilePlan(stored, rules.File{Profiles: []profile.Profile{was, edit}}, false)
		if err := d.ApplyPlan(ctx, ada, swap); err != nil {
			t.Errorf("exchange: %v", err)
		}
		if a, b := mustGetProfile(t, d, "one"), mustGetProfile(t, d, "two"); a.Domain != "two" || b.Domain != "one" {
			t.Errorf("got %s and %s", a.Domain, b.Domain)
		}
	})
}
