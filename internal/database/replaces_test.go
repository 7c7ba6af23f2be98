package database

import (
	"errors"
	"slices"
	"testing"

	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/field"
)

// replacing is a rule that replaces others.
func replacing(name string, names ...string) rules.Rule {
	r := sample(name)
	r.Replaces = names
	return r
}

func described(name string) rules.Rule {
	r := sample(name)
	r.Scope, r.Route, r.Method, r.WeightField, r.Host = "", nil, nil, nil, nil
	r.Descriptor = &rules.RuleDescriptor{Domain: "shop", Entries: []entries.Element{{Key: name}}}
	return r
}

// wantField requires a validation error about one field.
func wantField(t *testing.T, err error, name string) {
	t.Helper()
	var invalid *field.ValidationError
	if !errors.As(err, &invalid) || len(invalid.Fields) != 1 || invalid.Fields[0].Field != name {
		t.Errorf("got %v, want an error of %s", err, name)
	}
}

func wantNamed(t *testing.T, err error, by ...string) {
	t.Helper()
	var named *rules.NamedError
	if !errors.As(err, &named) || !slices.Equal(named.By, by) {
		t.Errorf("got %v, want one that names %s", err, by)
	}
}

func TestReplaces_NamesOnlyRulesOfItsKind(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		general := mustCreate(t, d, sample("general"))
		envoy := mustCreate(t, d, described("envoy"))
		_, err := d.CreateRule(ctx, ada, replacing("a", "general", "gone"))
		wantField(t, err, "replaces[1]")
		_, err = d.CreateRule(ctx, ada, replacing("a", "envoy"))
		wantField(t, err, "replaces[0]")
		other := described("other")
		other.Replaces = []string{"general"}
		_, err = d.CreateRule(ctx, ada, other)
		wantField(t, err, "replaces[0]")
		other.Replaces = []string{"envoy", "unknown"} // as in envoyproxy/ratelimit
		mustCreate(t, d, other)
		mustCreate(t, d, replacing("vip", "general"))
		general.Scope, general.Route, general.Method = "", nil, nil
		general.Host, general.WeightField, general.Descriptor = nil, nil, described("x").Descriptor
		_, err = d.UpdateRule(ctx, ada, general, 0)
		wantField(t, err, "descriptor")
		if err := d.DeleteRule(ctx, ada, envoy.ID, 0); err != nil {
			t.Errorf("a rule for descriptors that another one names: %v", err)
		}
	})
}

func TestReplaces_FollowsARename(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		general := mustCreate(t, d, sample("general"))
		vip := mustCreate(t, d, replacing("vip", "general"))
		before, err := d.LoadRules(ctx)
		if err != nil {
			t.Fatal(err)
		}
		renamed := general.Clone()
		renamed.Name = "everyone"
		if _, err := d.UpdateRule(ctx, ada, renamed, 0); err != nil {
			t.Fatal(err)
		}
		got, err := d.GetRule(ctx, vip.ID)
		if err != nil || !slices.Equal(got.Replaces, []string{"everyone"}) || got.Version != vip.Version+1 {
			t.Errorf("after the rename: %v %v, %v", got.Replaces, got.Version, err)
		}
		if after, err := d.LoadRules(ctx); err != nil || after.Version != before.Version+1 {
			t.Errorf("the rename took versions %d to %d, %v: want one", before.Version, after.Version, err)
		}
		if _, err := d.RollbackRule(ctx, ada, general.ID, 1, 0); err != nil {
			t.Fatal(err)
		}
		if got, err = d.GetRule(ctx, vip.ID); err != nil || !slices.Equal(got.Replaces, []string{"general"}) {
			t.Errorf("after the rollback of the rename: %v, %v", got.Replaces, err)
		}
		_, err = d.RollbackRule(ctx, ada, vip.ID, 2, 0) // in which it names everyone
		wantField(t, err, "replaces[0]")
	})
}

func TestReplaces_KeepsANamedRuleFromDeletion(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		general, free := mustCreate(t, d, sample("general")), mustCreate(t, d, sample("free"))
		vip, gold := mustCreate(t, d, replacing("vip", "general")), mustCreate(t, d, replacing("gold", "free", "general"))
		wantNamed(t, d.DeleteRule(ctx, ada, general.ID, 0), "gold", "vip")
		seen := []rules.SeenVersion{{ID: general.ID, Version: 1}, {ID: gold.ID, Version: 1}, {ID: free.ID, Version: 1}}
		done, err := d.DeleteRules(ctx, ada, seen)
		if err != nil || done.Changed != 2 || len(done.Skipped) != 1 || done.Skipped[0].Name != "general" {
			t.Fatalf("got %+v, %v", done, err)
		}
		wantNamed(t, done.Skipped[0].Err, "vip")
		wantNamed(t, d.ApplyPlan(ctx, ada, rules.Plan{Delete: []rules.Rule{general}}), "vip")
		if err := d.ApplyPlan(ctx, ada, rules.Plan{Delete: []rules.Rule{general, vip}}); err != nil {
			t.Errorf("both together: %v", err)
		}
	})
}

func TestReplaces_APlanMayWriteRulesInAnyOrder(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		old := mustCreate(t, d, sample("old"))
		vip := mustCreate(t, d, replacing("vip", "old"))
		next := vip.Clone()
		next.Replaces = []string{"new"}
		plan := rules.Plan{Delete: []rules.Rule{old}, Update: []rules.Edit{{Old: vip, New: next}},
			Create: []rules.Rule{replacing("a", "z"), sample("new"), sample("z")}}
		if err := d.ApplyPlan(ctx, ada, plan); err != nil {
			t.Fatal(err)
		}
		if got, err := d.GetRule(ctx, vip.ID); err != nil || !slices.Equal(got.Replaces, []string{"new"}) {
			t.Errorf("got %v, %v", got.Replaces, err)
		}
	})
}

// Others may be 100,000, which takes longer to read than a change may take.
func TestReplaces_AChangeReadsOnlyTheRulesThatItConcerns(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		for _, name := range []string{"a_b", "axb", "free"} {
			mustCreate(t, d, sample(name))
		}
		for name, of := range map[string]string{"one": "a_b", "two": "axb", "three": "free"} {
			mustCreate(t, d, replacing(name, of))
		}
		for i, tt := range []struct {
			named namedRules
			want  []string
		}{
			{namedRules{written: map[string]bool{"three": true}}, []string{"three"}},
			{namedRules{gone: []string{"axb"}}, []string{"two"}},
			{namedRules{renamed: map[string]string{"free": "freed"}, written: map[string]bool{"three": true, "two": true}},
				[]string{"three", "two"}},
			{namedRules{gone: []string{"a_b"}}, []string{"one", "two"}}, // too many, which is no harm
			{namedRules{kinds: true}, []string{"one", "three", "two"}},
			{namedRules{gone: make([]string, fewNames+1)}, []string{"one", "three", "two"}},
		} {
			c := change{tx: d.write.WithContext(t.Context()), named: tt.named}
			list, err := c.concernedRules()
			var got []string
			for i := range list {
				got = append(got, list[i].Name)
			}
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%d: got %v, %v, want %v", i, got, err, tt.want)
			}
		}
	})
}

func TestDeleteRules_SkipsWhatASkippedRuleNames(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		general, free := mustCreate(t, d, sample("general")), mustCreate(t, d, sample("free"))
		vip := mustCreate(t, d, replacing("vip", "general"))
		mustCreate(t, d, replacing("top", "vip"))
		gold := mustCreate(t, d, replacing("gold", "free"))
		done, err := d.DeleteRules(ctx, ada, []rules.SeenVersion{{ID: general.ID, Version: 1}, {ID: vip.ID, Version: 1},
			{ID: free.ID, Version: 1}, {ID: gold.ID, Version: 9}}) // gold has changed since
		if err != nil || done.Changed != 0 || len(done.Skipped) != 4 {
			t.Errorf("got %+v, %v, want all four skipped", done, err)
		}
	})
}
