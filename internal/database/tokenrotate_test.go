package database

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/rules"
	"sluice/rules/field"
)

func TestRotateToken_BothAreInForceUntilTheOldOneEnds(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		oldSecret, tok := newToken("edge", access.ScopeCheck, access.ScopeRulesRead)
		tok.ExpiresAt = new(d.now().Add(90 * 24 * time.Hour))
		first, err := d.CreateToken(ctx, ada, tok)
		if err != nil {
			t.Fatal(err)
		}
		secret, hash := access.NewSecret()
		old, is, err := d.RotateToken(ctx, ada, first.ID, hash, 24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		life := first.ExpiresAt.Sub(first.CreatedAt)
		if is.Name != "edge" || is.ID == first.ID || access.FormatScopes(is.Scopes) != "check,rules:read" ||
			!is.ExpiresAt.Equal(is.CreatedAt.Add(life)) || is.ReplacedAt != nil || is.CreatedBy != "ada" {
			t.Errorf("the new one: %+v", is)
		}
		if !old.ExpiresAt.Equal(is.CreatedAt.Add(24*time.Hour)) || !old.ReplacedAt.Equal(is.CreatedAt) {
			t.Errorf("the old one ends %v, replaced %v", old.ExpiresAt, old.ReplacedAt)
		}
		stored, _, err := d.LoadTokens(ctx)
		if err != nil {
			t.Fatal(err)
		}
		ring := access.NewKeyring(stored)
		for at, want := range map[time.Duration]error{time.Hour: nil, 25 * time.Hour: access.ErrExpired} {
			if _, err := ring.Find(oldSecret, is.CreatedAt.Add(at)); !errors.Is(err, want) {
				t.Errorf("the old secret after %s: %v", at, err)
			}
			if found, err := ring.Find(secret, is.CreatedAt.Add(at)); err != nil || found.ID != is.ID {
				t.Errorf("the new secret after %s: %v", at, err)
			}
		}
		if got, want := mustVersions(t, d), (counts{Tokens: 2}); got != want {
			t.Errorf("versions: got %+v, want %+v", got, want)
		}
		entries, err := d.ListAudit(ctx, audit.Query{SubjectKind: "token"})
		if err != nil || len(entries) != 2 || entries[0].Action != "rotate" || entries[0].SubjectID != first.ID {
			t.Fatalf("audit: %+v, %v", entries, err)
		}
		for _, part := range []string{`"new_token":2`, `"old_expires_at":"`, `"scopes":["check","rules:read"]`} {
			if got := strings.ReplaceAll(string(entries[0].Details), " ", ""); !strings.Contains(got, part) {
				t.Errorf("the details %s lack %s", got, part)
			}
		}
		if _, _, err := d.RotateToken(ctx, ada, first.ID, [32]byte{7}, time.Hour); !errors.Is(err, access.ErrNotRotatable) {
			t.Errorf("the old one again: %v", err)
		}
		if _, third, err := d.RotateToken(ctx, ada, is.ID, [32]byte{8}, time.Hour); err != nil || third.Name != "edge" {
			t.Errorf("the new one: %v", err)
		}
	})
}

func TestRotateToken_RefusesWhatCannotBeRotated(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		_, tok := newToken("soon", access.ScopeCheck)
		tok.ExpiresAt = new(d.now().Add(10 * time.Hour))
		soon, err := d.CreateToken(ctx, ada, tok)
		if err != nil {
			t.Fatal(err)
		}
		_, gone := newToken("gone", access.ScopeCheck)
		gone, err = d.CreateToken(ctx, ada, gone)
		if err == nil {
			err = d.RevokeToken(ctx, ada, gone.ID)
		}
		_, over := newToken("over", access.ScopeCheck)
		over.ExpiresAt = new(d.now().Add(-time.Hour))
		over, err2 := d.CreateToken(ctx, ada, over)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		before := mustVersions(t, d)
		var invalid *field.ValidationError
		for _, overlap := range []time.Duration{0, -time.Hour, MaxOverlap + 1} {
			if _, _, err := d.RotateToken(ctx, ada, soon.ID, [32]byte{9}, overlap); !errors.As(err, &invalid) {
				t.Errorf("overlap %s: %v", overlap, err)
			}
		}
		for id, want := range map[int64]error{gone.ID: rules.ErrNotFound, 999: rules.ErrNotFound,
			over.ID: access.ErrNotRotatable} {
			if _, _, err := d.RotateToken(ctx, ada, id, [32]byte{9}, time.Hour); !errors.Is(err, want) {
				t.Errorf("token %d: %v, want %v", id, err, want)
			}
		}
		if got := mustVersions(t, d); got != before {
			t.Errorf("what was refused moved the version: %+v", got)
		}
		old, _, err := d.RotateToken(ctx, ada, soon.ID, [32]byte{9}, 24*time.Hour)
		if err != nil || !old.ExpiresAt.Equal(*soon.ExpiresAt) {
			t.Errorf("an overlap beyond its own end: ends %v, %v", old.ExpiresAt, err)
		}
	})
}

func TestTokenUses_TheLatestStaysAndMovesNoVersion(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		var ids []int64
		var made time.Time
		for _, name := range []string{"a", "b", "c"} {
			_, tok := newToken(name, access.ScopeCheck)
			tok, err := d.CreateToken(ctx, ada, tok)
			if err != nil {
				t.Fatal(err)
			}
			ids, made = append(ids, tok.ID), tok.CreatedAt
		}
		before := mustVersions(t, d)
		at := made.Add(time.Hour)
		for _, uses := range [][]access.Use{
			{{Token: ids[1], At: at, Endpoint: "check"}, {Token: ids[0], At: at, Endpoint: "check"},
				{Token: ids[2], At: made.Add(-time.Hour), Endpoint: "check"}, {Token: 999, At: at, Endpoint: "check"}},
			{{Token: ids[0], At: at.Add(time.Minute), Endpoint: "rules"}, {Token: ids[1], At: at.Add(-time.Minute),
				Endpoint: "rules"}},
			nil,
		} {
			if err := d.WriteTokenUses(ctx, uses); err != nil {
				t.Fatal(err)
			}
		}
		list, err := d.ListTokens(ctx)
		if err != nil {
			t.Fatal(err)
		}
		want := []*access.Use{{Token: ids[0], At: at.Add(time.Minute), Endpoint: "rules"},
			{Token: ids[1], At: at, Endpoint: "check"}, nil}
		for i := range list {
			if got := list[i].LastUse; (got == nil) != (want[i] == nil) || got != nil && *got != *want[i] {
				t.Errorf("token %d: got %+v, want %+v", ids[i], got, want[i])
			}
		}
		loaded, _, err := d.LoadTokens(ctx)
		if err != nil || slices.ContainsFunc(loaded, func(t access.Token) bool { return t.LastUse != nil }) {
			t.Errorf("a keyring has uses: %v", err)
		}
		if got := mustVersions(t, d); got != before {
			t.Errorf("uses moved the version: %+v", got)
		}
	})
}
