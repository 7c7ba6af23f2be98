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

func TestCheckURL_AllowsOtherCredentialsOnly(t *testing.T) {
	const inForce = "postgres://ada:first@127.0.0.1:1/db?sslmode=disable&application_name=x"
	for value, want := range map[string]string{
		"postgres://edda:second@127.0.0.1:1/db?sslmode=disable&application_name=x":                 "",
		"postgresql://127.0.0.1:1/db?application_name=x&user=edda&password=second&sslmode=disable": "",
		"postgres://edda:zebra@127.0.0.1:2/db?sslmode=disable&application_name=x":                  "restart",
		"postgres://edda:zebra@127.0.0.1:1,127.0.0.1:2/db?sslmode=disable&application_name=x":      "restart",
		"postgres://edda:zebra@127.0.0.1:1/other?sslmode=disable&application_name=x":               "restart",
		"postgres://edda:zebra@127.0.0.1:1/db?sslmode=require&application_name=x":                  "restart",
		"postgres://edda:zebra@127.0.0.1:1/db?sslmode=disable&application_name=x&search_path=y":    "restart",
		"postgres://edda:zebra/x@127.0.0.1:1/db":                                                   "%2F",
		"zebra.db":                                                                                 "postgres://",
		"":                                                                                         "postgres://",
		"redis://edda:zebra@127.0.0.1:1/db":                                                        "postgres://",
	} {
		err := CheckURL(inForce, value)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", value, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "zebra") {
			t.Errorf("%s: the error shows the password: %v", value, err)
		}
	}
	if err := CheckURL("", inForce); err != nil {
		t.Errorf("the first value: %v", err)
	}
	// Without a database, the server takes that of the user's name.
	if err := CheckURL("postgres://ada:x@127.0.0.1:1", "postgres://edda:x@127.0.0.1:1"); err == nil {
		t.Error("another database is accepted")
	}
	if err := CheckURL("postgres://ada:x@127.0.0.1:1", "postgres://ada:y@127.0.0.1:1"); err != nil {
		t.Errorf("another password: %v", err)
	}
}
