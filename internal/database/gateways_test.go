package database

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/profile"
)

// connect connects a gateway whose profile and token have this name.
func connect(t *testing.T, d *DB, name string) error {
	t.Helper()
	p := profile.New()
	p.Name = name
	_, tok := newToken(name, access.ScopeCheck)
	return d.Connect(t.Context(), ada, p, &tok, map[string]string{"gateway": "nginx"})
}

// both are the names of the profiles and of the valid tokens.
func both(t *testing.T, d *DB) (names [2]string) {
	t.Helper()
	stored, err := d.Profiles().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range stored {
		names[0] += stored[i].Name + " "
	}
	tokens, err := d.ListTokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range tokens {
		if tokens[i].RevokedAt == nil {
			names[1] += tokens[i].Name + " "
		}
	}
	return names
}

func entriesOf(t *testing.T, d *DB) []audit.Entry {
	t.Helper()
	entries, err := d.ListAudit(t.Context(), audit.Query{})
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func TestConnect_MakesBothAndDisconnectRemovesBoth(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		if err := connect(t, d, "edge"); err != nil {
			t.Fatal(err)
		}
		if got := both(t, d); got != [2]string{"edge ", "edge "} {
			t.Errorf("made: %q", got)
		}
		c, err := d.Connection(t.Context(), "edge")
		want := profile.Connection{TokenID: 1, Inputs: map[string]string{"gateway": "nginx"}}
		if diff := cmp.Diff(want, c); diff != "" || err != nil {
			t.Errorf("connection: %v\n%s", err, diff)
		}
		if got := mustVersions(t, d); got != (counts{Rules: 1, Tokens: 1}) {
			t.Errorf("versions: %+v", got)
		}
		entries := entriesOf(t, d)
		if len(entries) != 1 || entries[0].Action != "connect" || entries[0].SubjectKind != "profile" ||
			!slices.ContainsFunc(entries[0].Changes(), func(c field.Change) bool {
				return c.Field == "token" && c.Old == nil && c.New == "edge"
			}) ||
			!strings.Contains(strings.ReplaceAll(string(entries[0].Details), " ", ""), `"scopes":["check"]`) {
			t.Errorf("audit: %+v", entries)
		}
		if err := d.Disconnect(t.Context(), ada, "edge"); err != nil {
			t.Fatal(err)
		}
		if got := both(t, d); got != [2]string{} {
			t.Errorf("left: %q", got)
		}
		if got := mustVersions(t, d); got != (counts{Rules: 2, Tokens: 2}) {
			t.Errorf("versions: %+v", got)
		}
		if entries := entriesOf(t, d); len(entries) != 2 || entries[0].Action != "disconnect" {
			t.Errorf("audit: %+v", entries)
		}
		for name, err := range map[string]error{"again": d.Disconnect(t.Context(), ada, "edge"),
			"a name that cannot be": d.Disconnect(t.Context(), ada, "a\x00")} {
			if !errors.Is(err, rules.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// Whatever fails, neither the profile nor the token stays, nor is only one of them removed.
func TestConnect_NeitherStaysWhenTheOtherFails(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		if err := connect(t, d, "edge"); err != nil {
			t.Fatal(err)
		}
		_, tok := newToken("taken", access.ScopeCheck)
		if _, err := d.CreateToken(t.Context(), ada, tok); err != nil {
			t.Fatal(err)
		}
		mustProfile(t, d, "there")
		made, entries := both(t, d), len(entriesOf(t, d))
		unchanged := func(what string, err error) {
			t.Helper()
			if err == nil {
				t.Errorf("%s: no error", what)
			}
			if got := both(t, d); got != made || len(entriesOf(t, d)) != entries {
				t.Errorf("%s: left %q of %q, %d audit entries of %d", what, got, made, len(entriesOf(t, d)), entries)
			}
		}
		err := connect(t, d, "taken")
		if unchanged("the token's name is taken", err); !errors.As(err, new(*rules.TakenError)) {
			t.Errorf("the token's name is taken: %v", err)
		}
		err = connect(t, d, "there")
		if unchanged("the profile's name is taken", err); !errors.Is(err, rules.ErrNameTaken) {
			t.Errorf("the profile's name is taken: %v", err)
		}
		unchanged("the profile is invalid", connect(t, d, "No Name"))
		refuse := func(event, table string) func() {
			t.Helper()
			statements := []string{
				`CREATE OR REPLACE FUNCTION refuse() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$ ` +
					`LANGUAGE plpgsql`,
				`CREATE TRIGGER refuse BEFORE ` + event + ` ON ` + table + ` FOR EACH ROW EXECUTE FUNCTION refuse()`}
			drop := "DROP TRIGGER refuse ON " + table
			if d.dialect == dialectSQLite {
				statements = []string{`CREATE TRIGGER refuse BEFORE ` + event + ` ON ` + table +
					` BEGIN SELECT RAISE(ABORT, 'refused'); END`}
				drop = "DROP TRIGGER refuse"
			}
			exec := func(s string) {
				t.Helper()
				if err := d.write.Exec(s).Error; err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range statements {
				exec(s)
			}
			return func() { t.Helper(); exec(drop) }
		}
		for _, table := range []string{"profiles", "tokens", "gateways", "audit_log"} {
			undo := refuse("INSERT", table)
			unchanged("connecting, "+table+" refuses", connect(t, d, "other"))
			undo()
		}
		for table, event := range map[string]string{"profiles": "DELETE", "tokens": "UPDATE", "audit_log": "INSERT"} {
			undo := refuse(event, table)
			unchanged("disconnecting, "+table+" refuses", d.Disconnect(t.Context(), ada, "edge"))
			undo()
		}
	})
}

func TestDisconnect_IsRefusedOnceAGatewayHasAsked(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		at := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
		for _, name := range []string{"edge", "other"} {
			if err := connect(t, d, name); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 2 { // only the first note counts
			if err := d.NoteAsked(t.Context(), []string{"edge", "nobody"}, at.Add(time.Duration(i)*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		if c, err := d.Connection(t.Context(), "edge"); err != nil || c.AskedAt == nil || !c.AskedAt.Equal(at) {
			t.Errorf("%+v, %v", c, err)
		}
		if err := d.Disconnect(t.Context(), ada, "edge"); !errors.Is(err, profile.ErrAsked) {
			t.Errorf("one that has asked: %v", err)
		}
		if got := both(t, d); got != [2]string{"edge other ", "edge other "} {
			t.Errorf("left: %q", got)
		}
		if got := mustVersions(t, d); got != (counts{Rules: 2, Tokens: 2}) {
			t.Errorf("a note changed versions: %+v", got)
		}
		// A profile that is deleted by itself takes its row with it, and a later one of the name has none.
		if err := d.Profiles().Delete(t.Context(), ada, "edge", 1); err != nil {
			t.Fatal(err)
		}
		mustProfile(t, d, "edge")
		if _, err := d.Connection(t.Context(), "edge"); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("a later profile of the name: %v", err)
		}
		tokens, err := d.ListTokens(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := d.RevokeToken(t.Context(), ada, tokens[1].ID); err != nil {
			t.Fatal(err)
		}
		if err := d.Disconnect(t.Context(), ada, "other"); err != nil {
			t.Errorf("one whose token was revoked before: %v", err)
		}
	})
}

func TestConnect_WithoutATokenNeedsNone(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		p := profile.New()
		p.Name, p.Proof.Networks, p.Proof.Token = "edge", []string{"10.0.0.1"}, false
		if err := d.Connect(t.Context(), ada, p, nil, map[string]string{}); err != nil {
			t.Fatal(err)
		}
		if got := both(t, d); got != [2]string{"edge ", ""} || mustVersions(t, d).Tokens != 0 {
			t.Errorf("made: %q", got)
		}
		if err := d.Disconnect(t.Context(), ada, "edge"); err != nil {
			t.Error(err)
		}
	})
}

func TestDisconnect_RevokesWhatTheTokenWasRotatedTo(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		if err := connect(t, d, "edge"); err != nil {
			t.Fatal(err)
		}
		_, tok := newToken("other", access.ScopeCheck)
		if _, err := d.CreateToken(t.Context(), ada, tok); err != nil {
			t.Fatal(err)
		}
		rotate := func(id int64) int64 {
			t.Helper()
			_, hash := access.NewSecret()
			_, is, err := d.RotateToken(t.Context(), ada, id, hash, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			return is.ID
		}
		last := rotate(rotate(1))
		if err := d.Disconnect(t.Context(), ada, "edge"); err != nil {
			t.Fatal(err)
		}
		if got := both(t, d); got != [2]string{"", "other "} {
			t.Errorf("left: %q, the last token was %d", got, last)
		}
	})
}

// The name of a token is free for a gateway once the token was rotated and the new one revoked, as it is for a token.
func TestConnect_TakesTheNameOfATokenThatWasRotated(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		_, tok := newToken("edge", access.ScopeCheck)
		first, err := d.CreateToken(t.Context(), ada, tok)
		if err != nil {
			t.Fatal(err)
		}
		_, hash := access.NewSecret()
		_, is, err := d.RotateToken(t.Context(), ada, first.ID, hash, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if err := connect(t, d, "edge"); !errors.As(err, new(*rules.TakenError)) {
			t.Errorf("while the new token is in force: %v", err)
		}
		if err := d.RevokeToken(t.Context(), ada, is.ID); err != nil {
			t.Fatal(err)
		}
		if err := connect(t, d, "edge"); err != nil {
			t.Errorf("after the new token was revoked: %v", err)
		}
	})
}

// A token of the same name that was made after the end of the gateway's tokens belongs to something else.
func TestDisconnect_LeavesALaterTokenOfTheName(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		if err := connect(t, d, "edge"); err != nil {
			t.Fatal(err)
		}
		_, hash := access.NewSecret()
		_, is, err := d.RotateToken(t.Context(), ada, 1, hash, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.RevokeToken(t.Context(), ada, is.ID); err != nil {
			t.Fatal(err)
		}
		_, tok := newToken("edge", access.ScopeCheck)
		later, err := d.CreateToken(t.Context(), ada, tok)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Disconnect(t.Context(), ada, "edge"); err != nil {
			t.Fatal(err)
		}
		list, err := d.ListTokens(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			if valid := list[i].RevokedAt == nil; valid != (list[i].ID == later.ID) {
				t.Errorf("token %d is valid: %t", list[i].ID, valid)
			}
		}
	})
}
