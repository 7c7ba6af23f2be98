package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/internal/testenv"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/profile"
	"sluice/rules/rulefile"
)

// recipeFiles returns the recipes by file name.
func recipeFiles(t *testing.T) map[string]rules.File {
	t.Helper()
	files, err := filepath.Glob("../../deploy/recipes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recipes: %v", err)
	}
	recipes := map[string]rules.File{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if recipes[name], err = rulefile.Parse(text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return recipes
}

func TestRecipes_EveryFileIsValid(t *testing.T) {
	// Without it rules for writes that leave fail_mode out are warned of.
	t.Setenv("SLUICE_FAIL_DEFAULTS", "POST,PUT,PATCH,DELETE=closed")
	for file := range recipeFiles(t) {
		if code, out, errs := sluice(t, "", "rules", "validate", "-f", file); code != exitDone ||
			!strings.Contains(out, "is valid") || errs != "" {
			t.Errorf("%s: %d, %q, %q", file, code, out, errs)
		}
	}
}

// owned is a rule, a pool and a profile that no recipe has.
const owned = `pools:
  - {name: own-pool, limit: 10, window_ms: 1000}
rules:
  - {name: own-rule, owner: somebody, scope: user, limit: 7, window_ms: 1000}
profiles:
  - {name: own-profile, proof: {networks: [127.0.0.1]}}
`

// Whoever tries one recipe after the other keeps them all, and what was there before.
func TestRecipes_AppliedOneAfterTheOtherAllStay(t *testing.T) {
	for database, env := range map[string]func() []string{
		"SQLite":   func() []string { return nil },
		"Postgres": func() []string { return []string{"DATABASE_URL=" + testenv.Postgres(t)} },
	} {
		t.Run(database, func(t *testing.T) {
			r := launch(t, env(), serveArgs(dataDir(t))...)
			defer r.terminate()
			if code, _, errs := sluice(t, owned, "rules", "apply", "--server="+r.url, "-f", "-"); code != exitDone {
				t.Fatalf("apply: %d, %s", code, errs)
			}
			recipes := recipeFiles(t)
			all, err := rulefile.Parse([]byte(owned))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range slices.Sorted(maps.Keys(recipes)) {
				if code, _, errs := sluice(t, "", "rules", "apply", "--server="+r.url, "-f", name); code != exitDone {
					t.Fatalf("apply %s: %d, %s", name, code, errs)
				}
				file := recipes[name]
				all.Rules = append(all.Rules, file.Rules...)
				all.Pools = append(all.Pools, file.Pools...)
				all.Profiles = append(all.Profiles, file.Profiles...)
			}
			_, text, _ := sluice(t, "", "rules", "export", "--server="+r.url)
			got, err := rulefile.Parse([]byte(text))
			if err != nil {
				t.Fatalf("export: %v\n%s", err, text)
			}
			same(t, "rule", all.Rules, got.Rules, func(r *rules.Rule) string { return r.Name }, rules.Diff)
			same(t, "pool", all.Pools, got.Pools, func(p *rules.Pool) string { return p.Name }, rules.DiffPool)
			same(t, "profile", all.Profiles, got.Profiles, func(p *profile.Profile) string { return p.Name },
				profile.Diff)
		})
	}
}

// same compares what the files have with what the server has, by name.
func same[T any](t *testing.T, kind string, want, got []T, name func(*T) string, diff func(a, b *T) []field.Change) {
	t.Helper()
	server, seen := map[string]*T{}, map[string]bool{}
	for i := range got {
		server[name(&got[i])] = &got[i]
	}
	for i := range want {
		n := name(&want[i])
		if seen[n] {
			t.Errorf("two recipes have the %s %s", kind, n)
		}
		seen[n] = true
		if server[n] == nil {
			t.Errorf("the %s %s is gone", kind, n)
		} else if changes := diff(&want[i], server[n]); len(changes) > 0 {
			t.Errorf("the %s %s is not as in its file: %+v", kind, n, changes)
		}
	}
	if len(got) != len(seen) {
		t.Errorf("%d %ss on the server, %d in the files", len(got), kind, len(seen))
	}
}
