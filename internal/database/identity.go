package database

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Identity names the database without contacting it: the servers, the database name and the schema
// path on Postgres, the absolute path of an SQLite file. It excludes credentials and connection
// options, so it contains no secret and does not change with them.
func (d *DB) Identity() (string, error) {
	if d.dialect == dialectSQLite {
		path, err := filepath.Abs(d.dsn)
		if err != nil {
			return "", fmt.Errorf("identify the rules database: %w", err)
		}
		return "sqlite " + path, nil
	}
	cfg, err := parsePostgres(d.dsn)
	if err != nil {
		return "", fmt.Errorf("identify the rules database: %w", err)
	}
	// Fallbacks repeat a server once with TLS and once without.
	servers := []string{fmt.Sprintf("%s:%d", cfg.Host, cfg.Port)}
	for _, f := range cfg.Fallbacks {
		servers = append(servers, fmt.Sprintf("%s:%d", f.Host, f.Port))
	}
	slices.Sort(servers)
	id := fmt.Sprintf("postgres %s/%s", strings.Join(slices.Compact(servers), ","), cfg.Database)
	for _, name := range []string{"search_path", "options"} {
		if v := cfg.RuntimeParams[name]; v != "" {
			id += fmt.Sprintf(" %s=%s", name, v)
		}
	}
	return id, nil
}
