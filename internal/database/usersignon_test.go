package database

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/rules"
	"sluice/rules/field"
)

const issuer = "https://id.example.com/realms/ops"

func someone(subject, name string, role access.Role) access.Identity {
	return access.Identity{Issuer: issuer, Subject: subject, Name: name, Role: role}
}

func mustSignOn(t *testing.T, d *DB, id access.Identity) access.User {
	t.Helper()
	u, err := d.SignOn(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestSignOn_MakesOneAccountForOneIdentity(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		u := mustSignOn(t, d, someone("s1", "Ada", access.RoleEditor))
		if u.Name != "ada" || u.Role != access.RoleEditor || u.PasswordHash != "" || !u.External() || u.Subject != "s1" ||
			u.CreatedBy != "single sign-on" {
			t.Errorf("made %+v", u)
		}
		if again := mustSignOn(t, d, someone("s1", "another name", access.RoleEditor)); again != u {
			t.Errorf("found %+v, made %+v", again, u)
		}
		if got, err := d.GetUser(t.Context(), u.ID); err != nil || got != u {
			t.Errorf("stored %+v, %v", got, err)
		}
		elsewhere := someone("s1", "ada", access.RoleEditor)
		elsewhere.Issuer = "https://other.example.com"
		if other := mustSignOn(t, d, elsewhere); other.ID == u.ID || other.Name != "ada-2" {
			t.Errorf("another provider's s1 is %+v", other)
		}
		entries, err := d.ListAudit(t.Context(), audit.Query{SubjectKind: "user", SubjectID: u.ID})
		if err != nil || len(entries) != 1 || entries[0].Actor != (rules.Actor{Kind: "sso", Name: issuer}) ||
			!strings.Contains(string(entries[0].Details), `"s1"`) {
			t.Errorf("audit %v, %v", entries, err)
		}
	})
}

func TestSignOn_NeverTakesOverAnAccountOfTheSameName(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		local := mustUser(t, d, "ada", access.RoleAdmin)
		u := mustSignOn(t, d, someone("s1", "ada", access.RoleViewer))
		if u.ID == local.ID || u.Name == local.Name || u.Role != access.RoleViewer {
			t.Errorf("signed in as %+v", u)
		}
		if got, err := d.GetUser(t.Context(), local.ID); err != nil || got != local {
			t.Errorf("the account of that name became %+v, %v", got, err)
		}
		if u := mustSignOn(t, d, someone(strings.Repeat("s", 255), strings.Repeat("x", 100),
			access.RoleViewer)); len(u.Name) != access.MaxName {
			t.Errorf("a long name became %q", u.Name)
		}
		if u := mustSignOn(t, d, someone("s3", strings.Repeat("x", 63), access.RoleViewer)); u.Name != strings.Repeat("x",
			61)+"-2" {
			t.Errorf("the second of a long name is %q", u.Name)
		}
	})
}

func TestSignOn_TheRoleIsThatOfTheProvider(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		first := mustSignOn(t, d, someone("s1", "ada", access.RoleAdmin))
		u := mustSignOn(t, d, someone("s1", "ada", access.RoleViewer))
		if u.Role != access.RoleViewer || u.Generation != first.Generation+1 {
			t.Errorf("another role: %+v; sessions would not end", u)
		}
		if _, err := d.SignOn(ctx, someone("s1", "ada", "")); !errors.Is(err, access.ErrNoRole) {
			t.Errorf("no role: %v", err)
		}
		got, err := d.GetUser(ctx, u.ID)
		if err != nil || got.Generation != u.Generation+1 || got.Role != access.RoleViewer {
			t.Errorf("no role left %+v, %v; sessions would not end", got, err)
		}
		if _, err := d.SignOn(ctx, someone("s2", "eve", "")); !errors.Is(err, access.ErrNoRole) {
			t.Errorf("a stranger without a role: %v", err)
		}
		for _, bad := range []access.Identity{someone("s3", "bad", "king"), someone("s1", "ada", "king"),
			someone("", "x", access.RoleViewer), {Subject: "s", Role: access.RoleViewer}} {
			var invalid *field.ValidationError
			if _, err := d.SignOn(ctx, bad); !errors.As(err, &invalid) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		if n, err := d.CountUsers(ctx); n != 1 || err != nil {
			t.Errorf("%d accounts, %v", n, err)
		}
		entries, err := d.ListAudit(ctx, audit.Query{SubjectKind: "user", SubjectID: u.ID})
		if err != nil || len(entries) != 3 || entries[0].Action != "sign_out" || entries[1].Action != "update" ||
			entries[1].Actor.Kind != "sso" {
			t.Errorf("audit %v, %v", entries, err)
		}
	})
}

func TestSignOn_WhoIsKeptOutStaysOut(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		mustUser(t, d, "root", access.RoleAdmin)
		u := mustSignOn(t, d, someone("s1", "ada", access.RoleViewer))
		u.Disabled = true
		if _, err := d.UpdateUser(t.Context(), ada, u); err != nil {
			t.Fatal(err)
		}
		for _, role := range append(access.Roles(), "") {
			if _, err := d.SignOn(t.Context(), someone("s1", "ada", role)); !errors.Is(err, access.ErrDisabled) {
				t.Errorf("as %q: %v", role, err)
			}
		}
	})
}

func TestUpdateUser_LeavesRoleAndPasswordToSingleSignOn(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		u := mustSignOn(t, d, someone("s1", "ada", access.RoleViewer))
		for name, edit := range map[string]func(*access.User){
			"role":     func(u *access.User) { u.Role = access.RoleAdmin },
			"password": func(u *access.User) { u.PasswordHash = "hash" },
		} {
			changed := u
			edit(&changed)
			if _, err := d.UpdateUser(t.Context(), ada, changed); !errors.Is(err, access.ErrExternal) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got, err := d.GetUser(t.Context(), u.ID); err != nil || got != u {
			t.Errorf("it became %+v, %v", got, err)
		}
		if err := d.write.Exec("UPDATE users SET password_hash = 'hash' WHERE id = ?", u.ID).Error; err == nil {
			t.Error("the schema takes a password for it")
		}
		if err := d.write.Exec("INSERT INTO users (name, role, password_hash, created_by, created_at, updated_at, issuer, " +
			"subject) SELECT 'twin', role, '', '', created_at, updated_at, issuer, subject FROM users").Error; err == nil {
			t.Error("the schema takes a second account of one identity")
		}
	})
}

func TestSignOn_TwoAtOnceAreOneAccount(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ids := make(chan string, 8)
		for range 8 {
			go func() {
				u, err := d.SignOn(t.Context(), someone("s1", "ada", access.RoleViewer))
				ids <- fmt.Sprint(u.ID, u.Name, err)
			}()
		}
		first := <-ids
		for range 7 {
			if got := <-ids; got != first {
				t.Errorf("got %s and %s", first, got)
			}
		}
	})
}
