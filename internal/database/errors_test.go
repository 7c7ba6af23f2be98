package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"

	"sluice/rules"
	"sluice/rules/field"
)

func TestClassify_GivesEveryFailureItsKind(t *testing.T) {
	pg := func(code, constraint string) error {
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code, ConstraintName: constraint})
	}
	unknown := errors.New("something else")
	tests := []struct {
		name string
		err  error
		want error
	}{
		{"nothing", nil, nil},
		{"no row", gorm.ErrRecordNotFound, rules.ErrNotFound},
		{"domain error", fmt.Errorf("x: %w", rules.ErrStale), rules.ErrStale},
		{"rule name", pg("23505", "rules_name_key"), rules.ErrNameTaken},
		{"token name", pg("23505", "tokens_live_name"), rules.ErrNameTaken},
		{"connection lost", pg("08006", ""), rules.ErrUnavailable},
		{"shut down", pg("57P01", ""), rules.ErrUnavailable},
		{"starting up", pg("57P03", ""), rules.ErrUnavailable},
		{"too many connections", pg("53300", ""), rules.ErrUnavailable},
		{"disk full", pg("53100", ""), rules.ErrUnavailable},
		{"standby", pg("25006", ""), rules.ErrUnavailable},
		{"deadlock", pg("40P01", ""), rules.ErrUnavailable},
		{"no table", pg("42P01", ""), rules.ErrUnavailable},
		{"no database", pg("3D000", ""), rules.ErrUnavailable},
		{"cannot connect", &pgconn.ConnectError{Config: &pgconn.Config{}}, rules.ErrUnavailable},
		{"refused", &net.OpError{Op: "dial", Err: errors.New("refused")}, rules.ErrUnavailable},
		{"deadline", context.DeadlineExceeded, rules.ErrUnavailable},
		{"bad connection", driver.ErrBadConn, rules.ErrUnavailable},
		{"transaction gone", sql.ErrTxDone, rules.ErrUnavailable},
		{"cut", io.ErrUnexpectedEOF, rules.ErrUnavailable},
		{"anything else", unknown, unknown},
	}
	for _, tt := range tests {
		got := classify(context.Background(), tt.err)
		if !errors.Is(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
		if errors.Is(tt.want, rules.ErrUnavailable) && !errors.Is(got, tt.err) {
			t.Errorf("%s: the cause is lost in %v", tt.name, got)
		}
	}
	for _, code := range []string{"23514", "22021", "22003"} {
		var invalid *field.ValidationError
		if got := classify(context.Background(), pg(code, "rules_name_shape")); !errors.As(got, &invalid) {
			t.Errorf("%s: got %v, want a validation error", code, got)
		}
	}
	if got := classify(context.Background(), pg("23505", "tokens_hash_key")); errors.Is(got, rules.ErrNameTaken) {
		t.Errorf("a hash that is there already is not a name: %v", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got := classify(ctx, driver.ErrBadConn); !errors.Is(got, context.Canceled) || errors.Is(got, rules.ErrUnavailable) {
		t.Errorf("the caller gave up: got %v", got)
	}
}
