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
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"sluice/internal/config"
	"sluice/internal/rulecopy"
	"sluice/internal/testenv"
)

// upgradeDir holds what an earlier version left behind; `make upgrade-fixtures`
// makes it anew.
const upgradeDir = "testdata/upgrade"

// legacy is what the earlier version said of its own state.
type legacy struct {
	MadeAt int64 `json:"made_at"` // ms; the test goes on from there
	// Identity is what the copy of the rules says of their database.
	Identity string `json:"identity"`
	Token    string `json:"token"`
	Cookie   string `json:"cookie"` // of the console, as name=value
	Rules    []any  `json:"rules"`
	Pools    []any  `json:"pools"`
	Except   []any  `json:"overrides"`
	Counted  []struct {
		Check     string  `json:"check"`
		Remaining float64 `json:"remaining"`
	} `json:"counted"`
	Tickets map[string]string `json:"tickets"` // payload by ticket
}

// The new program goes on where the one before stopped.
func TestUpgrade_KeepsWhatTheVersionBeforeStored(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		cfg := withConsole(t)
		unpack(t, filepath.Join(upgradeDir, "embedded.tar.gz"), cfg.DataDir)
		continues(t, cfg, "embedded.json")
	})
	t.Run("fleet", func(t *testing.T) {
		cfg := withConsole(t)
		cfg.DatabaseURL, cfg.RedisURL = testenv.Postgres(t), testenv.Redis(t).URL()
		loadSQL(t, cfg.DatabaseURL, unzip(t, filepath.Join(upgradeDir, "fleet.sql.gz")))
		loadRedis(t, cfg.RedisURL, unzip(t, filepath.Join(upgradeDir, "fleet.redis.gz")))
		continues(t, cfg, "fleet.json")
	})
	t.Run("copy of the rules", func(t *testing.T) {
		dir := t.TempDir()
		unpack(t, filepath.Join(upgradeDir, "embedded.tar.gz"), dir)
		was := readLegacy(t, "embedded.json")
		c, err := rulecopy.Load(filepath.Join(dir, "rules.copy"), was.Identity)
		if err != nil {
			t.Fatal(err)
		}
		active := slices.DeleteFunc(was.Rules, func(r any) bool { return r.(map[string]any)["is_active"] != true })
		if len(c.Rules) != len(active) || len(c.Tokens) != 1 {
			t.Errorf("the copy holds %d rules and %d tokens, want %d and 1", len(c.Rules), len(c.Tokens), len(active))
		}
	})
}

func readLegacy(t *testing.T, file string) (was legacy) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(upgradeDir, file))
	if err := errors.Join(err, json.Unmarshal(raw, &was)); err != nil {
		t.Fatal(err)
	}
	return was
}

// continues starts the program on what was stored and compares.
func continues(t *testing.T, cfg config.Serve, file string) {
	t.Helper()
	was := readLegacy(t, file)
	behind := time.Since(time.UnixMilli(was.MadeAt)) - time.Minute
	now := func() time.Time { return time.Now().Add(-behind) }
	n, err := tryStartAt(t, cfg, now, func() int64 { return now().UnixMilli() })
	if err != nil {
		t.Fatalf("start: %v\n%s", err, n.log)
	}
	if status, _ := n.send(http.MethodGet, "/ratelimit/rules", ""); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d", status)
	}
	n.token = was.Token
	for what, list := range map[string][]any{"rules": was.Rules, "pools": was.Pools, "overrides": was.Except} {
		if len(list) == 0 {
			t.Errorf("the fixture has no %s", what)
		}
	}
	stored, pools, except := n.stored()
	if diff := cmp.Diff(was.Rules, within(was.Rules, stored)); diff != "" {
		t.Errorf("rules before (-), now (+):\n%s", diff)
	}
	if diff := cmp.Diff(was.Pools, within(was.Pools, pools)); diff != "" {
		t.Errorf("pools before (-), now (+):\n%s", diff)
	}
	if diff := cmp.Diff(was.Except, within(was.Except, except)); diff != "" {
		t.Errorf("overrides before (-), now (+):\n%s", diff)
	}
	for _, c := range was.Counted {
		doc := n.check(c.Check)
		want := any(c.Remaining)
		if strings.Contains(c.Check, `"key":`) {
			want = doc["limit"] // a direct bucket has its window in its name now, and begins anew
		}
		if doc["remaining"] != want {
			t.Errorf("%s: %v remain, want %v", c.Check, doc["remaining"], want)
		}
	}
	n.create(payRule) // what the version before did not know
	for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		code, doc := n.send(http.MethodPost, "/ratelimit/rls",
			`{"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/pay"},{"key":"user","value":"42"}]}]}`)
		if code != want {
			t.Errorf("a descriptor: %d %v, want %d", code, doc, want)
		}
	}
	p := newPerson(t, n)
	name, value, _ := strings.Cut(was.Cookie, "=")
	at, err := url.Parse(n.url)
	if err != nil {
		t.Fatal(err)
	}
	p.client.Jar.SetCookies(at, []*http.Cookie{{Name: name, Value: value, Path: "/"}})
	_, page := p.get(n.url + "/console/audit")
	for _, want := range []string{"grace", "gate", "everything", "mails", "shop"} {
		if !strings.Contains(page, want) {
			t.Errorf("the audit log, in the session of before, does not name %s", want)
		}
	}
	collect(t, []*node{n}, was.Tickets)
}

// stored lists rules, pools and the overrides of all rules.
func (n *node) stored() (rules, pools, overrides []any) {
	n.t.Helper()
	list := func(path, member string) []any {
		status, doc := n.send(http.MethodGet, path, "")
		items, ok := doc[member].([]any)
		if status != http.StatusOK || !ok {
			n.t.Fatalf("%s answered %d %v", path, status, doc)
		}
		return items
	}
	rules, pools = list("/ratelimit/rules?page_size=100", "rules"), list("/ratelimit/pools", "pools")
	for _, r := range rules {
		overrides = append(overrides, list(fmt.Sprintf("/ratelimit/rules/%v/overrides", r.(map[string]any)["id"]),
			"overrides")...)
	}
	return rules, pools, overrides
}

// within leaves of the documents in is only the members that those in was have:
// a newer version may say more.
func within(was, is []any) []any {
	if len(was) != len(is) {
		return is
	}
	out := make([]any, len(is))
	for i := range is {
		before, ok1 := was[i].(map[string]any)
		after, ok2 := is[i].(map[string]any)
		if !ok1 || !ok2 {
			return is
		}
		kept := map[string]any{}
		for k := range before {
			if v, ok := after[k]; ok {
				kept[k] = v
			}
		}
		out[i] = kept
	}
	return out
}

func unzip(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(unzip(t, archive))); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		path := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

func loadSQL(t *testing.T, dsn string, sql []byte) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.PgConn().Exec(t.Context(), string(sql)).ReadAll()
	if err := errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// loadRedis restores keys from lines of two words: the key and its dump.
func loadRedis(t *testing.T, at string, lines []byte) {
	t.Helper()
	opt, err := redis.ParseURL(at)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opt)
	defer client.Close()
	for line := range strings.Lines(string(lines)) {
		var word [2][]byte
		for i, w := range strings.Fields(line) {
			if word[i], err = base64.StdEncoding.DecodeString(w); err != nil {
				t.Fatal(err)
			}
		}
		if err := client.Restore(t.Context(), string(word[0]), 0, string(word[1])).Err(); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(string(word[0]), ":order") {
			prolong(t, client, string(word[0]))
		}
	}
}

// prolong lets deferred requests wait for ten years more than their rule says. Redis
// goes by its own clock, which the test cannot set back to when the data was made.
func prolong(t *testing.T, client *redis.Client, stream string) {
	t.Helper()
	entries, err := client.XRange(t.Context(), stream, "-", "+").Result()
	if err != nil || len(entries) == 0 {
		t.Fatalf("%s: %d entries, %v", stream, len(entries), err)
	}
	if err := client.Del(t.Context(), stream).Err(); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		e.Values["a"] = strconv.FormatInt((10 * 365 * 24 * time.Hour).Milliseconds(), 10)
		if err := client.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, ID: e.ID, Values: e.Values}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.XGroupCreate(t.Context(), stream, "g", "0").Err(); err != nil {
		t.Fatal(err)
	}
}
