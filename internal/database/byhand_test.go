package database

import (
	"fmt"
	"testing"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/rules"
)

// byDatabase are the newest audit entries by the database, in words.
func byDatabase(t *testing.T, d *DB) (words []string) {
	t.Helper()
	entries, err := d.ListAudit(t.Context(), audit.Query{Limit: maxPageSize})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Actor.Kind == "database" {
			words = append(words, fmt.Sprintf("%s %s %d %s", e.Action, e.SubjectKind, e.SubjectID, e.SubjectName))
		}
	}
	return words
}

func TestChangeByHand_IsNoticedOnPostgres(t *testing.T) {
	d := open(t, backends[0].dsn(t))
	for _, name := range []string{"a", "b", "c"} {
		mustCreate(t, d, sample(name))
	}
	if _, err := d.Pools().Create(t.Context(), ada, rules.Pool{Name: "p", Limit: 10, WindowMS: 1000}); err != nil {
		t.Fatal(err)
	}
	mustProfile(t, d, "edge")
	_, hash := access.NewSecret()
	if _, err := d.CreateToken(t.Context(), ada, access.Token{Name: "gateway", Hash: hash,
		Scopes: []access.Scope{access.ScopeCheck}}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.CreateUser(t.Context(), ada, access.User{Name: "edda", Role: access.RoleAdmin}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := d.UpdateRule(t.Context(), ada, func() rules.Rule { r := sample("b"); r.ID, r.Limit = 2, 6; return r }(),
		0); err != nil {
		t.Fatal(err)
	}
	mustOverride(t, d, rules.Override{RuleID: 1, Key: "user:x", Blocked: true})
	if got := byDatabase(t, d); len(got) > 0 {
		t.Fatalf("changes of the application count as made by hand: %v", got)
	}
	told := make(chan struct{}, 100)
	if err := d.Listen(t.Context(), func() { told <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	<-told // it listens

	const insertOverride = "INSERT INTO rule_overrides (rule_id, key, match_key, is_prefix, unlimited, blocked, reason, " +
		"version, created_at, updated_at) " +
		"VALUES (1, 'user:y', '{user:y}', false, false, true, '', 1, now(), now())"
	tests := []struct {
		name, sql string
		area      func(all) Version
		entries   []string // newest first; none: nothing changed
	}{
		{"a rule", "UPDATE rules SET limit_count = 9 WHERE id = 1", rulesOfAll, []string{"update rule 1 a"}},
		{"many rules at once", "UPDATE rules SET limit_count = 10", rulesOfAll, []string{"update rule 0 3 rows"}},
		{"two statements of one transaction",
			"BEGIN; UPDATE rules SET limit_count = 11 WHERE id = 1; DELETE FROM rules WHERE id = 3; COMMIT", rulesOfAll,
			[]string{"delete rule 3 c", "update rule 1 a"}},
		{"an update without a difference", "UPDATE rules SET limit_count = limit_count", rulesOfAll, nil},
		{"nothing", "DELETE FROM rules WHERE id = 99", rulesOfAll, nil},
		{"a transaction that is rolled back", "BEGIN; UPDATE rules SET limit_count = 12; ROLLBACK", rulesOfAll, nil},
		{"a pool", "UPDATE pools SET limit_count = 11", rulesOfAll, []string{"update pool 1 p"}},
		{"a profile", `UPDATE profiles SET settings = '{}'`, rulesOfAll, []string{"update profile 1 edge"}},
		{"no profiles", "TRUNCATE profiles", rulesOfAll, []string{"delete profile 0 all rows"}},
		{"a token", "UPDATE tokens SET revoked_at = now()", func(v all) Version { return v.Tokens },
			[]string{"update token 1 gateway"}},
		{"an account", "UPDATE users SET role = 'viewer'", usersOfAll, []string{"update user 1 edda"}},
		{"a sign-in", "UPDATE users SET last_login = now()", usersOfAll, nil},
		{"a new override", insertOverride, overridesOfAll, []string{"override_create rule 1 a"}},
		{"an override", "UPDATE rule_overrides SET blocked = false, unlimited = true WHERE key = 'user:x'", overridesOfAll,
			[]string{"override_update rule 1 a"}},
		{"an override that has ended",
			"UPDATE rule_overrides SET expires_at = now() - interval '1 hour' WHERE key = 'user:y'", overridesOfAll,
			[]string{"override_update rule 1 a"}},
		{"its deletion", "DELETE FROM rule_overrides WHERE key = 'user:y'", overridesOfAll, nil},
		{"no overrides", "TRUNCATE rule_overrides", overridesOfAll, []string{"override_delete rule 0 all rows"}},
		{"no rules", "TRUNCATE rules", rulesOfAll, []string{"delete rule 0 all rows"}},
		{"who raises the version first makes no entry, as nodes do",
			"BEGIN; UPDATE versions SET version = version + 1 WHERE name = 'tokens'; DELETE FROM tokens; COMMIT",
			func(v all) Version { return v.Tokens }, []string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, entries := present(t, d), len(byDatabase(t, d))
			if err := d.write.Exec(tt.sql).Error; err != nil {
				t.Fatal(err)
			}
			was, is := tt.area(before), tt.area(present(t, d))
			if tt.entries == nil {
				if is != was {
					t.Errorf("version %v after %v, though nothing changed", is, was)
				}
			} else if is.N != was.N+1 || is.Stamp == was.Stamp {
				t.Errorf("version %v after %v, want the next number and another stamp", is, was)
			}
			got := byDatabase(t, d)
			if fmt.Sprint(got[:len(got)-entries]) != fmt.Sprint(append([]string{}, tt.entries...)) {
				t.Errorf("audit entries %q, want %q", got[:len(got)-entries], tt.entries)
			}
			if len(tt.entries) > 0 {
				<-told
			}
		})
	}
}

func rulesOfAll(v all) Version     { return v.Rules }
func overridesOfAll(v all) Version { return v.Overrides }
func usersOfAll(v all) Version     { return v.Users }

// all are the versions that nodes compare, and that of the accounts.
type all struct {
	Versions
	Users Version
}

func present(t *testing.T, d *DB) all {
	t.Helper()
	v, err := d.Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var users struct {
		Version int64
		Stamp   string
	}
	if err := d.write.Raw("SELECT version, stamp FROM versions WHERE name = ?", areaUsers).Scan(&users).Error; err != nil {
		t.Fatal(err)
	}
	return all{v, Version{N: users.Version, Stamp: users.Stamp}}
}

func TestChangeByHand_ReachesNodesThatLoadWhatChanged(t *testing.T) {
	d := open(t, backends[0].dsn(t))
	r := mustCreate(t, d, sample("a"))
	for _, user := range []string{"x", "y", "z"} {
		mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "user:" + user, Blocked: true})
	}
	for _, tt := range []struct{ sql, want string }{
		{"UPDATE rule_overrides SET blocked = false, unlimited = true WHERE key = 'user:x'", "{user:x}"},
		{"UPDATE rule_overrides SET key = 'user:w', match_key = '{user:w}' WHERE key = 'user:y'", "-{user:y} {user:w}"},
		{"DELETE FROM rule_overrides WHERE key = 'user:z'", "-{user:z}"},
	} {
		since := mustVersions(t, d).Overrides
		if err := d.write.Exec(tt.sql).Error; err != nil {
			t.Fatal(err)
		}
		if rows, full, _ := loaded(t, d, since); full || words(rows) != tt.want {
			t.Errorf("%s: a node gets %q, everything %v; want %q", tt.sql, words(rows), full, tt.want)
		}
	}
}
