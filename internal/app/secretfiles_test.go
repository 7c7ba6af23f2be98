package app

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
)

// secretIn writes a file with a secret and returns its path.
func secretIn(t *testing.T, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "secret")
	replaceSecret(t, path, content)
	return path
}

// replaceSecret replaces a file by another one, as tools that rotate secrets do.
func replaceSecret(t *testing.T, path, content string) {
	t.Helper()
	err := errors.Join(os.WriteFile(path+".new", []byte(content), 0o600), os.Rename(path+".new", path))
	if err != nil {
		t.Fatal(err)
	}
}

// failingFile reports whether the metrics show the file of a setting as failing.
func (n *node) failingFile(setting string) bool {
	n.t.Helper()
	text := n.text("/metrics")
	if strings.Contains(text, `sluice_secret_file_failing{setting="`+setting+`"} 1`) {
		return true
	}
	if !strings.Contains(text, `sluice_secret_file_failing{setting="`+setting+`"} 0`) {
		n.t.Errorf("no series for %s", setting)
	}
	return false
}

// redisAdmin sends one command to Redis as its default user.
func redisAdmin(t *testing.T, server *testenv.RedisServer, args ...any) any {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer c.Close()
	answer, err := c.Do(t.Context(), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return answer
}

// normal reports whether Redis decided a check.
func (n *node) normal() bool {
	n.t.Helper()
	return n.check(plenty)["degraded"] == nil
}

func TestSecretFiles_ARotatedPasswordOfRedisIsUsedByNewConnections(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	redisAdmin(t, server, "ACL", "SETUSER", "sluice", "on", ">first", "~*", "&*", "+@all")
	cfg := settings(t)
	url := func(password string) string { return "redis://sluice:" + password + "@" + server.Addr + "/0" }
	cfg.RedisURL.File = secretIn(t, url("first")+"\n")
	n := start(t, cfg)
	n.create(mails)
	reserve := func() bool {
		status, doc := n.send("POST", "/ratelimit/reserve", plenty)
		return status == http.StatusOK && doc["reservation"] != nil
	}
	queues := func() bool {
		return n.check(fmt.Sprintf(sendMail, 1))["status"] == float64(http.StatusAccepted)
	}
	eventually(t, "Redis decides", n.normal)
	eventually(t, "reservations work", reserve)
	eventually(t, "the deferred queues answer", queues)

	redisAdmin(t, server, "ACL", "SETUSER", "sluice", "resetpass", ">second")
	if !n.normal() || n.failingFile("REDIS_URL_FILE") {
		t.Error("open connections do not outlive the password")
	}
	replaceSecret(t, cfg.RedisURL.File, url("second"))
	if killed, _ := redisAdmin(t, server, "CLIENT", "KILL", "USER", "sluice").(int64); killed == 0 {
		t.Error("no connection of the user was open")
	}
	eventually(t, "Redis decides again", n.normal)
	eventually(t, "reservations work again", reserve)
	eventually(t, "the deferred queues answer again", queues)

	// Another server needs a restart, and until then the last password counts.
	replaceSecret(t, cfg.RedisURL.File, "redis://sluice:hunter2@other.invalid:6379/0")
	eventually(t, "the metrics report the file", func() bool { return n.failingFile("REDIS_URL_FILE") })
	redisAdmin(t, server, "CLIENT", "KILL", "USER", "sluice")
	eventually(t, "Redis decides with the last password", n.normal)
	log := n.log.String()
	if !strings.Contains(log, "restart to use it") || !strings.Contains(log, cfg.RedisURL.File) {
		t.Errorf("the log does not say that a restart is required:\n%s", log)
	}
	replaceSecret(t, cfg.RedisURL.File, url("second"))
	eventually(t, "the metrics report no file", func() bool { return !n.failingFile("REDIS_URL_FILE") })
	for _, secret := range []string{"first", "second", "hunter2"} {
		if strings.Contains(n.log.String()+n.out.String()+n.text("/metrics"), ":"+secret) {
			t.Errorf("%s was shown", secret)
		}
	}
}

// withPassword creates a role and a database of it on a private server, which asks for its password.
func withPassword(t *testing.T, server *testenv.PostgresServer) (url func(password string) string) {
	t.Helper()
	admin := server.DSN("postgres")
	sql(t, admin, `CREATE ROLE rotating LOGIN PASSWORD 'first'`)
	sql(t, admin, `CREATE DATABASE rotating OWNER rotating`)
	var hba string
	conn, err := pgx.Connect(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if err := conn.QueryRow(t.Context(), "SHOW hba_file").Scan(&hba); err != nil {
		t.Fatal(err)
	}
	sql(t, admin, `COPY (VALUES ('host all rotating 127.0.0.1/32 scram-sha-256'), ('host all all 127.0.0.1/32 trust')) TO '`+
		hba+`'; SELECT pg_reload_conf()`)
	url = func(password string) string {
		return "postgres://rotating:" + password + "@" + server.Addr + "/rotating?sslmode=disable"
	}
	eventually(t, "the server asks for the password", func() bool {
		conn, err := pgx.Connect(t.Context(), url("wrong"))
		if err == nil {
			_ = conn.Close(t.Context())
		}
		return err != nil
	})
	return url
}

// listens reports whether a connection of the role listens for changes.
func listens(t *testing.T, server *testenv.PostgresServer) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	n := 0
	err = conn.QueryRow(t.Context(),
		`SELECT count(*) FROM pg_stat_activity WHERE usename = 'rotating' AND query LIKE 'LISTEN%'`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

func TestSecretFiles_ARotatedPasswordOfPostgresIsUsedByNewConnections(t *testing.T) {
	t.Parallel()
	server := testenv.PrivatePostgres(t)
	url := withPassword(t, server)
	cfg := settings(t)
	cfg.DatabaseURL.File = secretIn(t, url("first")+"\r\n")
	if _, err := MigrateUp(t.Context(), cfg.Storage); err != nil {
		t.Fatal(err)
	}
	n := start(t, cfg)
	eventually(t, "the node listens for changes", func() bool { return listens(t, server) })
	n.create(`{"name": "first", "scope": "user", "limit": 5, "window_ms": 1000}`)

	sql(t, server.DSN("postgres"), `ALTER ROLE rotating PASSWORD 'second'`)
	n.create(`{"name": "second", "scope": "user", "limit": 5, "window_ms": 1000}`) // on an open connection
	replaceSecret(t, cfg.DatabaseURL.File, url("second"))
	sql(t, server.DSN("postgres"), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rotating'`)
	eventually(t, "rules can be edited again", func() bool {
		status, _ := n.send("POST", "/ratelimit/rules", `{"name": "third", "scope": "user", "limit": 5, "window_ms": 1000}`)
		return status == http.StatusCreated
	})
	eventually(t, "the node listens for changes again", func() bool { return listens(t, server) })
	if _, err := Tokens(t.Context(), cfg.Storage); err != nil {
		t.Errorf("a command: %v", err)
	}
	if n.failingFile("DATABASE_URL_FILE") {
		t.Error("the metrics report the file")
	}
	replaceSecret(t, cfg.DatabaseURL.File, "")
	eventually(t, "the metrics report the empty file", func() bool { return n.failingFile("DATABASE_URL_FILE") })
	sql(t, server.DSN("postgres"), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rotating'`)
	eventually(t, "rules can be edited with the last password", func() bool {
		status, _ := n.send("DELETE", "/ratelimit/rules/1", "")
		return status == http.StatusNoContent
	})
	if strings.Contains(n.log.String(), ":second@") || strings.Contains(n.out.String(), "second") {
		t.Error("the password was shown")
	}
}

func TestSecretFiles_AStartNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	for name, c := range map[string]struct {
		database, redis, oidc string
		want                  []string
	}{
		"no file":         {database: missing, want: []string{"DATABASE_URL_FILE", missing, "does not exist; create it"}},
		"empty":           {redis: secretIn(t, "\n"), want: []string{"REDIS_URL_FILE", "is empty"}},
		"not Postgres":    {database: secretIn(t, "mysql://hunter2@h"), want: []string{"DATABASE_URL_FILE", "postgres://"}},
		"a path":          {database: secretIn(t, "hunter2.db"), want: []string{"DATABASE_URL_FILE", "postgres://"}},
		"a bad password":  {database: secretIn(t, "postgres://u:hun/ter2@h/d"), want: []string{"DATABASE_URL_FILE", "%2F"}},
		"not Redis":       {redis: secretIn(t, "http://:hunter2@h"), want: []string{"REDIS_URL_FILE", "redis://"}},
		"a secret's line": {oidc: secretIn(t, "hunter2\nhunter2"), want: []string{"CLIENT_SECRET_FILE", "line break"}},
	} {
		cfg := settings(t)
		cfg.DatabaseURL.File, cfg.RedisURL.File, cfg.OIDCClientSecret.File = c.database, c.redis, c.oidc
		if c.oidc != "" {
			cfg.OIDCIssuer, cfg.OIDCClientID, cfg.ConsoleURL = "http://127.0.0.1:1", "sluice", "http://127.0.0.1:1"
			cfg.OIDCAdminGroups, cfg.OIDCGroupsClaim, cfg.OIDCName = []string{"ops"}, "groups", "ID"
		}
		_, err := tryStart(t, cfg)
		for _, want := range append(c.want, "") {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	cfg := settings(t)
	cfg.DatabaseURL.File = missing
	if _, err := Tokens(t.Context(), cfg.Storage); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("a command: %v", err)
	}
}
