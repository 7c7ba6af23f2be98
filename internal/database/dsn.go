package database

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errURL contains no part of the URL, because any part could belong to the password.
var errURL = errors.New("DATABASE_URL is not a valid URL: in the user name and password, write @ as %40, / as %2F, " +
	"? as %3F, % as %25 and a space as %20")

// parsePostgres parses a Postgres URL. Its errors quote no part of it. A URL whose password is not
// percent-encoded is refused even if it can be parsed, because a part of the password would then
// count as a server name and appear in every connection error.
func parsePostgres(dsn string) (*pgx.ConnConfig, error) {
	_, rest, _ := strings.Cut(dsn, "://")
	authority, after := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, after = rest[:i], rest[i:]
	}
	user, hosts, found := strings.Cut(authority, "@")
	if found {
		if _, err := url.PathUnescape(user); err != nil || strings.Contains(hosts, "@") {
			return nil, errURL
		}
	}
	// user:pass/word@host and user:p@ss/word@host; an @ in a parameter is fine.
	path, query, _ := strings.Cut(after, "?")
	if before, _, at := strings.Cut(query, "@"); strings.Contains(path, "@") || at && !strings.Contains(before, "=") {
		return nil, errURL
	}
	cfg, err := pgx.ParseConfig(dsn)
	var parse *pgconn.ParseConfigError
	var syntax *url.Error
	switch {
	case err == nil:
		return cfg, nil
	case errors.As(err, &parse) && parse.Unwrap() != nil && !errors.As(err, &syntax) &&
		!strings.Contains(err.Error(), "parse as URL"):
		return nil, fmt.Errorf("DATABASE_URL: %w", parse.Unwrap())
	}
	return nil, errURL
}
