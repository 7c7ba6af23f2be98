package database

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/rules"
	"sluice/rules/field"
)

func newToken(name string, scopes ...access.Scope) (string, access.Token) {
	secret, hash := access.NewSecret()
	return secret, access.Token{Name: name, Hash: hash, Scopes: scopes}
}

func TestTokens_LiveAndAreRevoked(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		secret, tok := newToken("ci", access.ScopeCheck, access.ScopeRulesRead)
		tok.ExpiresAt = ptr(time.Date(2027, 1, 2, 3, 4, 5, 678_900_000, time.FixedZone("", -3600)))
		created, err := d.CreateToken(ctx, ada, tok)
		if err != nil {
			t.Fatal(err)
		}
		want := access.Token{
			ID: 1, Name: "ci", Hash: tok.Hash, Scopes: tok.Scopes, CreatedBy: "ada", CreatedAt: created.CreatedAt,
			ExpiresAt: ptr(time.Date(2027, 1, 2, 4, 4, 5, 678_000_000, time.UTC)),
		}
		stored, _, err := d.LoadTokens(ctx)
		if diff := cmp.Diff([]access.Token{want}, stored); diff != "" || err != nil || !cmp.Equal(want, created) {
			t.Errorf("stored: %v (-want +got):\n%s", err, diff)
		}
		if found, err := access.NewKeyring(stored).Find(secret, created.CreatedAt); err != nil || found.ID != 1 {
			t.Errorf("find by secret: %v, %v", found, err)
		}

		_, same := newToken("ci", access.ScopeAdmin)
		if _, err := d.CreateToken(ctx, ada, same); !errors.Is(err, rules.ErrNameTaken) {
			t.Errorf("same name: %v", err)
		}
		if err := d.RevokeToken(ctx, ada, 1); err != nil {
			t.Fatal(err)
		}
		for _, id := range []int64{1, 999} {
			if err := d.RevokeToken(ctx, ada, id); !errors.Is(err, rules.ErrNotFound) {
				t.Errorf("revoke %d again: %v", id, err)
			}
		}
		if again, err := d.CreateToken(ctx, ada, same); err != nil || again.ID <= 1 {
			t.Errorf("the name of a revoked token: %v, %v", again, err)
		}
		stored, err = d.ListTokens(ctx)
		if err != nil || len(stored) != 2 || stored[0].RevokedAt == nil || stored[1].RevokedAt != nil {
			t.Fatalf("list: %v, %v", stored, err)
		}
		if _, err := access.NewKeyring(stored).Find(secret, created.CreatedAt); !errors.Is(err, access.ErrRevoked) {
			t.Errorf("find the revoked one: %v", err)
		}
		if got, want := mustVersions(t, d), (counts{Tokens: 3}); got != want {
			t.Errorf("versions: got %+v, want %+v", got, want)
		}
		entries, err := d.ListAudit(ctx, audit.Query{SubjectKind: "token", SubjectID: 1})
		if err != nil || len(entries) != 2 || entries[0].Action != "revoke" || entries[1].Action != "create" {
			t.Fatalf("audit: %+v, %v", entries, err)
		}
		if got := string(entries[1].Details); !strings.Contains(got, "rules:read") ||
			!strings.Contains(got, "2027-01-02T04:04:05.678Z") {
			t.Errorf("details: %s", got)
		}
	})
}

func TestCreateToken_NamesEveryBadField(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		_, good := newToken("ci", access.ScopeCheck)
		tests := []struct {
			name  string
			spoil func(*access.Token)
			want  string
		}{
			{"no name", func(t *access.Token) { t.Name = "  " }, "name"},
			{"long name", func(t *access.Token) { t.Name = strings.Repeat("x", 129) }, "name"},
			{"NUL in name", func(t *access.Token) { t.Name = "a\x00b" }, "name"},
			{"line break in name", func(t *access.Token) { t.Name = "a\nb" }, "name"},
			{"broken UTF-8", func(t *access.Token) { t.Name = "\xff" }, "name"},
			{"no scope", func(t *access.Token) { t.Scopes = nil }, "scopes"},
			{"unknown scope", func(t *access.Token) { t.Scopes = []access.Scope{"root"} }, "scopes"},
			{"no hash", func(t *access.Token) { t.Hash = [32]byte{} }, "hash"},
			{"all", func(t *access.Token) { *t = access.Token{} }, "name scopes hash"},
		}
		for _, tt := range tests {
			bad := good
			tt.spoil(&bad)
			_, err := d.CreateToken(t.Context(), ada, bad)
			var invalid *field.ValidationError
			if !errors.As(err, &invalid) {
				t.Errorf("%s: got %v", tt.name, err)
				continue
			}
			var fields []string
			for _, f := range invalid.Fields {
				fields = append(fields, f.Field)
			}
			if got := strings.Join(fields, " "); got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
			}
		}
		if _, err := d.CreateToken(t.Context(), rules.Actor{}, good); !errors.Is(err, ErrNoActor) {
			t.Errorf("without actor: %v", err)
		}
		if got := mustVersions(t, d); got != (counts{}) {
			t.Errorf("refused tokens moved the version: %+v", got)
		}
	})
}

func TestLoadTokens_UnknownScopePermitsNothing(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		_, tok := newToken("later", access.ScopeAdmin)
		if _, err := d.CreateToken(t.Context(), ada, tok); err != nil {
			t.Fatal(err)
		}
		if err := d.write.Exec(`UPDATE tokens SET scopes = 'admin,from-the-future'`).Error; err != nil {
			t.Fatal(err)
		}
		got, _, err := d.LoadTokens(t.Context())
		if err != nil || len(got) != 1 || got[0].Permits(access.ScopeCheck) {
			t.Errorf("got %v, %v", got, err)
		}
	})
}
