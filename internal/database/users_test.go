package database

import (
	"errors"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/rules"
	"sluice/rules/field"
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
		if _, err := d.CreateUser(ctx, ada, access.User{Name: "edda", Role: access.RoleViewer}, false); !errors.Is(err,
			rules.ErrNameTaken) {
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
		if err != nil || len(list) != 2 || list[0].Name != "edda" || !list[0].Disabled || list[1].LastLogin == nil ||
			!list[1].LastLogin.Equal(at) {
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

func TestUsers_TheLastAdminWhoCanSignInStays(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		first := mustUser(t, d, "first", access.RoleAdmin)
		if _, err := d.CreateUser(ctx, ada, access.User{Name: "invited", Role: access.RoleAdmin}, false); err != nil {
			t.Fatal(err)
		}
		if _, err := d.SignOn(ctx, access.Identity{Issuer: issuer, Subject: "s1", Name: "sam",
			Role: access.RoleAdmin}); err != nil {
			t.Fatal(err)
		}
		first.Disabled = true
		for _, other := range []string{"", "https://elsewhere.example"} {
			d.signOnIssuer = other
			if _, err := d.UpdateUser(ctx, ada, first); !errors.Is(err, access.ErrLastAdmin) {
				t.Errorf("with people of a provider that is not %q, and one without a password: %v", other, err)
			}
		}
		d.signOnIssuer = issuer
		if _, err := d.UpdateUser(ctx, ada, first); err != nil {
			t.Errorf("with an admin who can sign in: %v", err)
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
		for _, u := range []access.User{{Name: "", Role: access.RoleAdmin}, {Name: "Ada", Role: access.RoleAdmin},
			{Name: "a b", Role: access.RoleAdmin}, {Name: "ada", Role: "root"}} {
			var invalid *field.ValidationError
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
			if err := d.CreateSession(ctx, access.Session{Token: token, Data: []byte(token), ExpiresAt: expires}); err != nil {
				t.Fatal(err)
			}
		}
		if s, found, err := d.FindSession(ctx, "new"); !found || string(s.Data) != "new" || err != nil {
			t.Errorf("new: %s %v %v", s.Data, found, err)
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

func TestSessions_OneThatHasEndedIsNeverWrittenAgain(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx, later := t.Context(), d.now().Add(time.Hour).Truncate(time.Millisecond)
		create := func(token string, expires time.Time) {
			t.Helper()
			if err := d.CreateSession(ctx, access.Session{Token: token, Data: []byte("first"), ExpiresAt: expires}); err != nil {
				t.Fatal(err)
			}
		}
		create("a", later)
		for _, tt := range []struct {
			in   access.Session
			want string
		}{
			{access.Session{Token: "a", ExpiresAt: later.Add(time.Minute)}, "first"}, // the expiry alone
			{access.Session{Token: "a", Data: []byte("second"), ExpiresAt: later.Add(2 * time.Minute)}, "second"},
		} {
			found, err := d.UpdateSession(ctx, tt.in)
			got, there, _ := d.FindSession(ctx, "a")
			if err != nil || !found || !there || string(got.Data) != tt.want || !got.ExpiresAt.Equal(tt.in.ExpiresAt) {
				t.Errorf("%s: %v %v %v", got.Data, found, got.ExpiresAt, err)
			}
		}
		if found, err := d.ReplaceSession(ctx, "a", access.Session{Token: "b", Data: []byte("b"),
			ExpiresAt: later}); !found || err != nil {
			t.Fatalf("replaced: %v, %v", found, err)
		}
		if err := d.DeleteSession(ctx, "b"); err != nil {
			t.Fatal(err)
		}
		create("over", d.now().Add(-time.Hour))
		for _, ended := range []string{"a", "b", "over"} { // replaced, deleted, expired
			if found, err := d.UpdateSession(ctx, access.Session{Token: ended, Data: []byte("again"),
				ExpiresAt: later}); found || err != nil {
				t.Errorf("update %s: %v, %v", ended, found, err)
			}
			if found, err := d.ReplaceSession(ctx, ended, access.Session{Token: "c", ExpiresAt: later}); found || err != nil {
				t.Errorf("replace %s: %v, %v", ended, found, err)
			}
		}
		if list, err := d.ListSessions(ctx); len(list) != 0 || err != nil {
			t.Errorf("sessions came back: %v, %v", list, err)
		}
	})
}
