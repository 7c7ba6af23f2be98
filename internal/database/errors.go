package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	gosqlite "github.com/glebarez/go-sqlite"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/profile"
)

// ErrNoActor reports a change without an actor: a mistake of the calling code, never of a user.
var ErrNoActor = errors.New("a change needs an actor with a kind and a name")

// classify converts driver errors to the kinds of package rules. ctx is the caller's own context:
// if the caller gave up, that is the error.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if isDomain(err) {
		return err
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%w: %w", context.Canceled, err)
	}
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return rules.ErrNotFound
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return classifyPostgres(pg, err)
	}
	var lite *gosqlite.Error
	if errors.As(err, &lite) {
		return classifySQLite(lite, err)
	}
	if isConnection(err) {
		return unavailable(err)
	}
	return err
}

func unavailable(err error) error {
	return fmt.Errorf("%w: %w", rules.ErrUnavailable, err)
}

func isDomain(err error) bool {
	var invalid *field.ValidationError
	var taken *rules.TakenError
	var named *rules.NamedError
	return errors.Is(err, rules.ErrNotFound) || errors.Is(err, rules.ErrNameTaken) || errors.Is(err, rules.ErrStale) ||
		errors.Is(err, rules.ErrPoolUsed) || errors.Is(err, rules.ErrOverrideExists) ||
		errors.Is(err, rules.ErrUnavailable) || errors.Is(err, ErrNoActor) ||
		errors.Is(err, access.ErrNotFirst) || errors.Is(err, access.ErrLastAdmin) || errors.Is(err, access.ErrExternal) ||
		errors.Is(err, access.ErrNoRole) || errors.Is(err, access.ErrDisabled) || errors.As(err, &invalid) ||
		errors.As(err, &taken) || errors.As(err, &named) || errors.Is(err, profile.ErrAsked)
}

// isConnection reports failures to reach the server, or to get its answer in time.
func isConnection(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, sql.ErrTxDone) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		strings.Contains(err.Error(), "conn closed") // pgx has no value for it
}

// classifyPostgres decides by SQLSTATE, or by its class if that is specific enough.
func classifyPostgres(pg *pgconn.PgError, err error) error {
	switch pg.Code {
	case "23505": // unique_violation
		if pg.ConstraintName == "rules_name_key" || pg.ConstraintName == "pools_name_key" ||
			pg.ConstraintName == "profiles_name_key" || pg.ConstraintName == "webhooks_name_key" ||
			pg.ConstraintName == "tokens_live_name" || pg.ConstraintName == "saved_views_name_key" ||
			pg.ConstraintName == "users_name_key" {
			return rules.ErrNameTaken
		}
		if pg.ConstraintName == "rule_overrides_key" {
			return rules.ErrOverrideExists
		}
		return err
	case "23514": // check_violation
		return refused(pg.ConstraintName)
	case "25006", // read_only_sql_transaction: a standby
		"40001", "40P01", // serialization_failure, deadlock_detected
		"55P03", "57014", // lock_not_available, query_canceled
		"42P01", "42703", "3D000", "28P01", "28000": // no such table, column, database; no entry: not (yet) set up
		return unavailable(err)
	}
	switch pg.Code[:min(2, len(pg.Code))] {
	case "08", "53", "57", "58": // connection, resources, operator intervention, system
		return unavailable(err)
	case "22": // data that no column can hold, such as a NUL in text
		return refused(pg.Message)
	}
	return err
}

// SQLite result codes, see its documentation page "Result and Error Codes".
const (
	sqliteError            = 1
	sqliteBusy             = 5
	sqliteLocked           = 6
	sqliteReadOnly         = 8
	sqliteInterrupt        = 9
	sqliteIOErr            = 10
	sqliteCorrupt          = 11
	sqliteFull             = 13
	sqliteCantOpen         = 14
	sqliteNotADB           = 26
	sqliteConstraintCheck  = 275
	sqliteConstraintUnique = 2067
	sqliteConstraintType   = 3091
)

func classifySQLite(lite *gosqlite.Error, err error) error {
	switch code := lite.Code(); code {
	case sqliteConstraintUnique:
		if strings.Contains(lite.Error(), "rules.name") || strings.Contains(lite.Error(), "pools.name") ||
			strings.Contains(lite.Error(), "profiles.name") || strings.Contains(lite.Error(), "webhooks.name") ||
			strings.Contains(lite.Error(), "tokens.name") || strings.Contains(lite.Error(), "saved_views.name") ||
			strings.Contains(lite.Error(), "users.name") {
			return rules.ErrNameTaken
		}
		if strings.Contains(lite.Error(), "rule_overrides.match_key") {
			return rules.ErrOverrideExists
		}
		return err
	case sqliteConstraintCheck, sqliteConstraintType:
		return refused(lite.Error())
	default:
		if kind := diskError(code); kind != nil {
			return diskUnavailable(kind, err)
		}
		switch code & 0xff {
		case sqliteBusy, sqliteLocked: // another process writes
			return fmt.Errorf("%w: %w", rules.ErrBusy, unavailable(err))
		case sqliteReadOnly, sqliteInterrupt, sqliteCorrupt, sqliteCantOpen, sqliteNotADB:
			return unavailable(err)
		case sqliteError:
			if strings.Contains(lite.Error(), "no such table") || strings.Contains(lite.Error(), "no such column") {
				return unavailable(err)
			}
		}
	}
	return err
}

// refused reports input that the schema rejects. The validator runs earlier and has better
// messages; this keeps the rest from being a 500.
func refused(why string) error {
	return &field.ValidationError{Fields: []field.Problem{{Field: "rule", Message: "was refused by the database: " +
		why}}}
}
