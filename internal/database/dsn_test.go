package database

import (
	"strings"
	"testing"
)

func TestOpen_ErrorsQuoteNoPartOfThePassword(t *testing.T) {
	for _, dsn := range []string{
		"postgres://u:zebra%tiger@127.0.0.1:1/db",
		"postgres://u:zebra@tiger@127.0.0.1:1/db",
		"postgres://u:zebra/tiger@127.0.0.1:1/db",
		"postgres://u:123?tiger@127.0.0.1:1/db",
		"postgres://u:zebra tiger@127.0.0.1:1/db",
		"postgres://u:123/tiger=@127.0.0.1:1/db",
		"postgres://u:/tiger=@127.0.0.1:1/db",
		"postgres://u:123@zebra/tiger@127.0.0.1:1/db",
		"postgres://u:123@zebra?tiger@127.0.0.1:1/db",
		"postgres://zebra%tiger@127.0.0.1:1/db",
		"postgres://u:zebra@127.0.0.1:tiger/db",
		"postgres://u:zebra@127.0.0.1:1/db?sslmode=odd",
	} {
		db, err := Open(t.Context(), Options{DSN: dsn})
		if err == nil {
			t.Errorf("%s is accepted", dsn)
			_ = db.Close()
			continue
		}
		for _, part := range []string{"zebra", "tiger@", "123", "127.0.0.1"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("the error of %s says %q: %v", dsn, part, err)
			}
		}
		if !strings.Contains(err.Error(), "DATABASE_URL") {
			t.Errorf("the error of %s does not name the setting: %v", dsn, err)
		}
	}
}

func TestOpen_TakesEncodedPasswordsAndParameters(t *testing.T) {
	for dsn, password := range map[string]string{
		"postgres://u:a%40b%2Fc%25@127.0.0.1:1/db":          "a@b/c%",
		"postgres://u:a#b:c@127.0.0.1:1,127.0.0.2:1/db":     "a#b:c",
		"postgres://127.0.0.1:1/db?user=me@corp&password=x": "x",
		"postgresql:///db?host=/run&user=me":                "",
	} {
		cfg, err := parsePostgres(dsn)
		if err != nil {
			t.Errorf("%s: %v", dsn, err)
		} else if cfg.Password != password {
			t.Errorf("%s: password %q", dsn, cfg.Password)
		}
	}
}
