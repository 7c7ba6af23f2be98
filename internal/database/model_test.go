package database

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/internal/audit"
	"sluice/rules"
)

// model is the obvious implementation: every version of every rule in a map.
type model struct {
	lives   map[int64][]rules.Rule // content by version, oldest first
	gone    map[int64]bool
	version int64
}

func (m *model) holder(name string) int64 {
	for id, versions := range m.lives {
		if !m.gone[id] && versions[len(versions)-1].Name == name {
			return id
		}
	}
	return 0
}

// locate says why a rule cannot be changed, nil when it can.
func (m *model) locate(id, ifVersion int64) error {
	versions := m.lives[id]
	if len(versions) == 0 || m.gone[id] {
		return rules.ErrNotFound
	}
	if ifVersion != 0 && ifVersion != int64(len(versions)) {
		return rules.ErrStale
	}
	return nil
}

// put appends a version, or says that the name is another rule's.
func (m *model) put(id int64, r rules.Rule) error {
	if other := m.holder(r.Name); other != 0 && other != id {
		return rules.ErrNameTaken
	}
	m.lives[id] = append(m.lives[id], r)
	m.version++
	return nil
}

// kind reduces an error to what callers tell apart.
func kind(err error) string {
	for _, k := range []error{rules.ErrNotFound, rules.ErrStale, rules.ErrNameTaken, rules.ErrUnavailable} {
		if errors.Is(err, k) {
			return k.Error()
		}
	}
	if err != nil {
		return "other: " + err.Error()
	}
	return ""
}

// Both databases and the model go through the same random life; after every
// step they agree on the error, and at the end on everything.
func TestEdits_BothDatabasesAgreeWithTheModel(t *testing.T) {
	dbs := map[string]*DB{}
	for _, b := range backends {
		dbs[b.name] = open(t, b.dsn(t))
	}
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.Background()
		for _, d := range dbs {
			empty(rt, d)
		}
		m := &model{lives: map[int64][]rules.Rule{}, gone: map[int64]bool{}}
		drawRule := func() rules.Rule {
			r := sample(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name"))
			r.Limit = rapid.Int64Range(0, 3).Draw(rt, "limit")
			r.IsActive = rapid.Bool().Draw(rt, "active")
			if rapid.Bool().Draw(rt, "everywhere") {
				r.Route = nil
			}
			return r
		}
		steps := rapid.IntRange(1, 8).Draw(rt, "steps")
		created := map[string][]int64{} // ids in order of creation; SQL may skip numbers
		for range steps {
			nth := rapid.IntRange(1, 4).Draw(rt, "nth")
			ifVersion := rapid.Int64Range(0, 3).Draw(rt, "if_version")
			toVersion := rapid.Int64Range(1, 3).Draw(rt, "to_version")
			r := drawRule()
			op := rapid.SampledFrom([]string{"create", "create", "update", "delete", "rollback"}).Draw(rt, "op")
			want := m.apply(op, int64(nth), ifVersion, toVersion, r)
			for name, d := range dbs {
				id := int64(1 << 40)
				if nth <= len(created[name]) {
					id = created[name][nth-1]
				}
				var got rules.Rule
				var err error
				switch op {
				case "create":
					if got, err = d.CreateRule(ctx, ada, r); err == nil {
						created[name] = append(created[name], got.ID)
					}
				case "update":
					r.ID = id
					_, err = d.UpdateRule(ctx, ada, r, ifVersion)
				case "delete":
					err = d.DeleteRule(ctx, ada, id, ifVersion)
				case "rollback":
					_, err = d.RollbackRule(ctx, ada, id, toVersion, ifVersion)
				}
				if kind(err) != kind(want) {
					rt.Fatalf("%s: %s: got %v, want %v", name, op, err, want)
				}
			}
		}
		for name, d := range dbs {
			m.compare(rt, name, d, created[name])
		}
	})
}

// empty forgets everything but the numbers given out.
func empty(rt *rapid.T, d *DB) {
	for _, s := range []string{"DELETE FROM rules", "DELETE FROM rule_revisions", "DELETE FROM audit_log",
		"UPDATE versions SET version = 0"} {
		if err := d.write.Exec(s).Error; err != nil {
			rt.Fatal(err)
		}
	}
}

// apply is the step as the model sees it; rules are numbered from 1.
func (m *model) apply(op string, nth, ifVersion, toVersion int64, r rules.Rule) error {
	if op == "create" {
		return m.put(int64(len(m.lives)+1), r)
	}
	if err := m.locate(nth, ifVersion); err != nil {
		return err
	}
	switch op {
	case "update":
		if last := m.lives[nth][len(m.lives[nth])-1]; len(rules.Diff(&last, &r)) == 0 {
			return nil
		}
		return m.put(nth, r)
	case "delete":
		m.gone[nth] = true
		m.version++
		return nil
	}
	if toVersion > int64(len(m.lives[nth])) {
		return rules.ErrNotFound
	}
	return m.put(nth, m.lives[nth][toVersion-1])
}

// compare reads everything back.
func (m *model) compare(rt *rapid.T, name string, d *DB, ids []int64) {
	ctx := context.Background()
	page, err := d.ListRules(ctx, rules.Query{})
	if err != nil {
		rt.Fatal(err)
	}
	var want, got []string
	for i, id := range ids {
		versions := m.lives[int64(i+1)]
		if !m.gone[int64(i+1)] {
			want = append(want, describe(id, int64(len(versions)), versions[len(versions)-1]))
		}
		revs, err := d.RuleHistory(ctx, id, 0, 0)
		if err != nil {
			rt.Fatal(err)
		}
		slices.Reverse(revs)
		for v, r := range versions {
			if w, g := describe(id, int64(v+1), r), describe(id, revs[v].Version, revs[v].Rule); w != g {
				rt.Fatalf("%s: history: got %s, want %s", name, g, w)
			}
		}
	}
	for _, r := range page.Rules {
		got = append(got, describe(r.ID, r.Version, r))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		rt.Fatalf("%s (-want +got):\n%s", name, diff)
	}
	if v, err := d.Versions(ctx); err != nil || v.Rules.N != m.version {
		rt.Fatalf("%s: version %+v, want %d (%v)", name, v, m.version, err)
	}
	audit, err := d.ListAudit(ctx, audit.Query{Limit: 500})
	if err != nil || int64(len(audit)) != m.version {
		rt.Fatalf("%s: %d audit entries for %d changes (%v)", name, len(audit), m.version, err)
	}
}

func describe(id, version int64, r rules.Rule) string {
	route := "everywhere"
	if r.Route != nil {
		route = *r.Route
	}
	return fmt.Sprintf("%d v%d %s limit %d active %v %s", id, version, r.Name, r.Limit, r.IsActive, route)
}
