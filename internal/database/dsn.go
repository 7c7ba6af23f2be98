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

// CheckURL returns an error unless value is a valid DATABASE_URL that differs from inForce in its
// user and password only. If inForce is "", any valid URL is accepted. The error contains no part of
// either.
func CheckURL(inForce, value string) error {
	if !IsPostgres(value) {
		return errors.New("must begin with postgres:// or postgresql://")
	}
	cfg, err := parsePostgres(value)
	if err != nil {
		return fmt.Errorf("is not usable: %w", err)
	}
	if inForce == "" {
		return nil
	}
	old, err := parsePostgres(inForce)
	if err != nil {
		return fmt.Errorf("is not usable: %w", err)
	}
	// The server takes the name of the user if there is none of a database.
	if withoutCredentials(inForce) != withoutCredentials(value) || cfg.Database == "" && cfg.User != old.User {
		return errors.New("has another server, database or parameter, not only another user or password; " +
			"restart to use it")
	}
	return nil
}

// withoutCredentials returns a URL that parsePostgres accepts without its user and password, which
// may also be parameters.
func withoutCredentials(dsn string) string {
	_, rest, _ := strings.Cut(dsn, "://") // postgres and postgresql are the same
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if _, hosts, found := strings.Cut(authority, "@"); found {
		authority = hosts
	}
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return dsn // pgx has read the query, so this does not happen
	}
	parameters.Del("user")
	parameters.Del("password")
	return authority + "/" + path + "?" + parameters.Encode()
}
