package database

import (
	"errors"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/rules"
)

func mustUser(t *testing.T, d *DB, name string, role access.Role) access.User {
	t.Helper()
	u, err := d.CreateUser(t.Context(), ada, access.User{Name: name, Role: role, PasswordHash: "hash of " + name}, false)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestUsers_AreStoredChangedAndAudited(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		root := mustUser(t, d, "root@example", access.RoleAdmin)
		u := mustUser(t, d, "edda", access.RoleEditor)
		if got, err := d.GetUserByName(ctx, "edda"); err != nil || got != u || u.CreatedBy != "ada" || u.Generation != 1 {
			t.Errorf("stored %+v, %v; made %+v", got, err, u)
		}
		if _, err := d.CreateUser(ctx, ada, access.User{Name: "edda", Role: access.RoleViewer}, false); !errors.Is(err, rules.ErrNameTaken) {
			t.Errorf("same name: %v", err)
		}
		if same, err := d.UpdateUser(ctx, ada, u); err != nil || same.Generation != 1 {
			t.Errorf("nothing changed: generation %d, %v", same.Generation, err)
		}
		for i, edit := range []func(*access.User){
			func(u *access.User) { u.Role = access.RoleViewer },
			func(u *access.User) { u.PasswordHash = "another" },
			func(u *access.User) { u.Disabled = true },
		} {
			edit(&u)
			got, err := d.UpdateUser(ctx, ada, u)
			if err != nil || got.Generation != int64(i+2) {
				t.Errorf("change %d: generation %d, %v; sessions would not end", i, got.Generation, err)
			}
			if _, err := d.UpdateUser(ctx, ada, u); !errors.Is(err, rules.ErrStale) {
				t.Errorf("change %d over one that was not seen: %v", i, err)
			}
			u = got
		}
		at := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
		if err := d.NoteLogin(ctx, root.ID, at); err != nil {
			t.Fatal(err)
		}
		list, err := d.ListUsers(ctx)
		if err != nil || len(list) != 2 || list[0].Name != "edda" || !list[0].Disabled || list[1].LastLogin == nil || !list[1].LastLogin.Equal(at) {
			t.Errorf("list %v, %v", list, err)
		}
		entries, err := d.ListAudit(ctx, audit.Query{SubjectKind: "user", SubjectID: u.ID})
		if err != nil || len(entries) != 4 || entries[0].Action != "disable" || entries[3].Action != "create" {
			t.Errorf("audit: %v, %v", entries, err)
		}
		if _, err := d.GetUser(ctx, 999); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("no such account: %v", err)
		}
	})
}

func TestUsers_TheLastAdminStays(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		first := mustUser(t, d, "first", access.RoleAdmin)
		demoted, disabled := first, first
		demoted.Role, disabled.Disabled = access.RoleEditor, true
		for _, u := range []access.User{demoted, disabled} {
			if _, err := d.UpdateUser(t.Context(), ada, u); !errors.Is(err, access.ErrLastAdmin) {
				t.Errorf("got %v", err)
			}
		}
		second := mustUser(t, d, "second", access.RoleAdmin)
		if _, err := d.UpdateUser(t.Context(), ada, demoted); err != nil {
			t.Errorf("with another admin: %v", err)
		}
		second.Disabled = true
		if _, err := d.UpdateUser(t.Context(), ada, second); !errors.Is(err, access.ErrLastAdmin) {
			t.Errorf("the other: %v", err)
		}
	})
}

func TestCreateUser_FirstIsFirstOnce(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		errs := make(chan error, 4)
		for _, name := range []string{"a", "b", "c", "d"} {
			go func() {
				_, err := d.CreateUser(t.Context(), ada, access.User{Name: name, Role: access.RoleAdmin}, true)
				errs <- err
			}()
		}
		made := 0
		for range 4 {
			switch err := <-errs; {
			case err == nil:
				made++
			case !errors.Is(err, access.ErrNotFirst):
				t.Error(err)
			}
		}
		if n, err := d.CountUsers(t.Context()); made != 1 || n != 1 || err != nil {
			t.Errorf("%d were first, %d are stored, %v", made, n, err)
		}
	})
}

func TestCreateUser_NamesBadFields(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		for _, u := range []access.User{{Name: "", Role: access.RoleAdmin}, {Name: "Ada", Role: access.RoleAdmin}, {Name: "a b", Role: access.RoleAdmin}, {Name: "ada", Role: "root"}} {
			var invalid *rules.ValidationError
			if _, err := d.CreateUser(t.Context(), ada, u, false); !errors.As(err, &invalid) || len(invalid.Fields) != 1 {
				t.Errorf("%v: %v", u, err)
			}
		}
	})
}

func TestSessions_AreKeptUntilTheyExpire(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		now := d.now()
		for token, expires := range map[string]time.Time{"old": now.Add(-time.Hour), "new": now.Add(time.Hour)} {
			for _, data := range []string{"first", token} { // the second is written over the first
				if err := d.SaveSession(ctx, token, []byte(data), expires); err != nil {
					t.Fatal(err)
				}
			}
		}
		if data, found, err := d.FindSession(ctx, "new"); !found || string(data) != "new" || err != nil {
			t.Errorf("new: %s %v %v", data, found, err)
		}
		for _, token := range []string{"old", "none"} {
			if _, found, err := d.FindSession(ctx, token); found || err != nil {
				t.Errorf("%s: %v %v", token, found, err)
			}
		}
		if n, err := d.SweepSessions(ctx); n != 1 || err != nil {
			t.Errorf("swept %d, %v", n, err)
		}
		for range 2 {
			if err := d.DeleteSession(ctx, "new"); err != nil {
				t.Error(err)
			}
		}
		if _, found, _ := d.FindSession(ctx, "new"); found {
			t.Error("deleted and found")
		}
	})
}
