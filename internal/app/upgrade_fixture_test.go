package app

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
)

// TestUpgradeFixtures makes the files of TestUpgrade with the program that
// SLUICE_UPGRADE_FROM names; `make upgrade-fixtures` calls it. Without that
// variable there is nothing to make.
func TestUpgradeFixtures(t *testing.T) {
	bin := os.Getenv("SLUICE_UPGRADE_FROM")
	if bin == "" {
		return
	}
	if err := os.MkdirAll(upgradeDir, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	fillLegacy(t, bin, "embedded.json", "sqlite "+filepath.Join(dir, "sluice.db"), "SLUICE_DATA_DIR="+dir)
	writeZip(t, "embedded.tar.gz", tarOf(t, dir))

	dsn, srv := testenv.Postgres(t), testenv.Redis(t)
	fillLegacy(t, bin, "fleet.json", "", "DATABASE_URL="+dsn, "REDIS_URL="+srv.URL(), "SLUICE_STORE_TIMEOUT=5s")
	dump, err := exec.CommandContext(t.Context(), "pg_dump", "--no-owner", "--no-privileges", "--inserts", dsn).Output()
	if err != nil {
		t.Fatal(err)
	}
	// Lines of psql itself are no SQL.
	writeZip(t, "fleet.sql.gz", regexp.MustCompile(`(?m)^(\\.*|SET .*|SELECT pg_catalog\.set_config.*)\n`).ReplaceAll(dump,
		nil))
	writeZip(t, "fleet.redis.gz", dumpRedis(t, srv.URL()))
}

// longWindow outlives the test, whenever it runs.
const longWindow = `"window_ms":315360000000`

var legacyRules = []string{
	`{"name":"plain","scope":"user","route":"/plain","limit":10,` + longWindow + `,"algorithm":"sliding_window_log"}`,
	`{"name":"bucket","scope":"user","route":"/bucket","limit":10,"burst":20,` + longWindow +
		`,"algorithm":"token_bucket"}`,
	`{"name":"fixed","scope":"ip","route":"/fixed","limit":10,` + longWindow +
		`,"algorithm":"fixed_window","align":"first_hit"}`,
	`{"name":"mallory","scope":"user","limit":0,"window_ms":1000,"when":"user == \"mallory\""}`,
	`{"name":"everything","scope":"user","route":"/everything","limit":100,` + longWindow +
		`,"algorithm":"token_bucket","burst":130,"throttle":"elastic",
	  "elastic_percent":50,"pool":"shop","priority":"critical","tiers":{"free":{"limit":2},"staff":{"unlimited":true}},
	  "schedule":{"zone":"Europe/Berlin","windows":[{"days":["mon"],"from":"22:00","to":"06:00","percent":50}]},
	  "active_from":"2020-01-01T00:00:00Z","active_until":"2100-01-01T00:00:00Z","when":"weight > 0","retry_jitter_ms":100,
	  "candidate":{"limit":50},"hot_keys":"leased"}`,
	`{"name":"shadow","scope":"global","route":"/shadow","limit":1,"window_ms":1000,"mode":"shadow","fail_mode":"local"}`,
	`{"name":"soft","scope":"user+ip","route":"/soft","limit":10,"window_ms":60000,"throttle":"soft","soft_percent":10,"charge_on":"report"}`,
	`{"name":"off","scope":"apikey","limit":10,"window_ms":60000,"is_active":false}`,
	mails,
}

// fillLegacy lets the program store something of each kind, asks what it has,
// and ends it.
func fillLegacy(t *testing.T, bin, file, identity string, env ...string) {
	t.Helper()
	command := func(in string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), bin, args...)
		cmd.Env, cmd.Stdin = append(os.Environ(), env...), strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	var was legacy
	was.Identity = identity
	was.Token = regexp.MustCompile(`slk_\S+`).FindString(command("", "token", "create", "gate", "--scopes", "admin"))
	command("correct horse battery\n", "user", "create", "grace", "--role", "admin")
	c := spawn(t, bin, "", env...)
	n := &node{t: t, url: c.url, token: was.Token, client: c.client}
	if status, doc := n.send(http.MethodPost, "/ratelimit/pools",
		`{"name":"shop","limit":100,"window_ms":60000}`); status != http.StatusCreated {
		t.Fatalf("pool: %d %v", status, doc)
	}
	for _, r := range legacyRules {
		created := n.create(r)
		if created["name"] != "plain" {
			continue
		}
		for _, o := range []string{`{"key":"user:vip","unlimited":true,"reason":"friend"}`, `{"key":"user:big*","limit":50}`,
			`{"key":"user:bad","blocked":true}`} {
			if status, doc := n.send(http.MethodPost, fmt.Sprintf("/ratelimit/rules/%v/overrides", created["id"]),
				o); status != http.StatusCreated {
				t.Fatalf("override: %d %v", status, doc)
			}
		}
	}
	for _, check := range []string{
		`{"user":"42","route":"/plain","weight":%d}`, `{"user":"big1","route":"/plain","weight":%d}`,
		`{"user":"42","route":"/bucket","weight":%d}`,
		`{"ip":"203.0.113.7","route":"/fixed","weight":%d}`,
		`{"key":"direct","limit":100,` + longWindow + `,"algorithm":"sliding_window_log","weight":%d}`,
	} {
		n.check(fmt.Sprintf(check, 3))
		look := fmt.Sprintf(check, 0)
		remaining, ok := n.check(look)["remaining"].(float64)
		if !ok {
			t.Fatalf("%s has no figures", look)
		}
		was.Counted = append(was.Counted, struct {
			Check     string  `json:"check"`
			Remaining float64 `json:"remaining"`
		}{look, remaining})
	}
	was.Tickets = n.deferMails(3)
	p := newPerson(t, n)
	if status, page := p.post(n.url+"/console/sign-in",
		url.Values{"name": {"grace"}, "password": {"correct horse battery"}}); status != http.StatusOK || !strings.Contains(
		page, "Overview") {
		t.Fatalf("signing in: %d", status)
	}
	at, err := url.Parse(n.url + "/console")
	if err != nil {
		t.Fatal(err)
	}
	cookie := p.client.Jar.Cookies(at)[0]
	was.Cookie = cookie.Name + "=" + cookie.Value
	was.Rules, was.Pools, was.Except = n.stored()
	was.MadeAt = time.Now().UnixMilli()
	p.client.CloseIdleConnections()
	if err := c.end(); err != nil {
		t.Fatal(err)
	}
	doc, err := json.MarshalIndent(was, "", " ")
	if err := errors.Join(err, os.WriteFile(filepath.Join(upgradeDir, file), append(doc, '\n'), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func writeZip(t *testing.T, name string, b []byte) {
	t.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	_, err = z.Write(b)
	if err := errors.Join(err, z.Close(), os.WriteFile(filepath.Join(upgradeDir, name), out.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func tarOf(t *testing.T, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: int64(len(b))}); err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// dumpRedis writes what loadRedis reads. Lifetimes are left out: the keys shall
// be there whenever the test runs.
func dumpRedis(t *testing.T, at string) []byte {
	t.Helper()
	opt, err := redis.ParseURL(at)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opt)
	defer client.Close()
	var out bytes.Buffer
	for keys := client.Scan(t.Context(), 0, "*", 1000).Iterator(); keys.Next(t.Context()); {
		dump, err := client.Dump(t.Context(), keys.Val()).Result()
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range []string{keys.Val(), dump} {
			_, _ = io.WriteString(&out, base64.StdEncoding.EncodeToString([]byte(w))+" \n"[i:i+1])
		}
	}
	return out.Bytes()
}
