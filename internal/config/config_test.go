package config

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/configuration.md")

func parse(t *testing.T, args ...string) (Serve, error) {
	t.Helper()
	var s Serve
	p, err := kong.New(&s, kong.Name("sluice"), SecretFlags(), kong.Exit(func(int) { t.Fatal("kong exited") }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = p.Parse(args); err != nil {
		return s, err
	}
	err = s.Validate()
	return s, err
}

func clearEnvironment(t *testing.T) {
	t.Helper()
	for _, s := range Settings(Serve{}, Client{}) {
		t.Setenv(s.Env, "") // puts it back after the test
		if err := os.Unsetenv(s.Env); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDefaults_AreValidAndLoopback(t *testing.T) {
	clearEnvironment(t)
	s, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Loopback() || s.Postgres() || !s.NeedsDataDir() {
		t.Errorf("defaults: loopback %v, Postgres %v, data directory %v; want true, false, true", s.Loopback(), s.Postgres(),
			s.NeedsDataDir())
	}
	if s.StoreTimeout != 25*time.Millisecond || s.IPv6Prefix != 64 || s.IPv4Prefix != 32 {
		t.Errorf("defaults %+v do not match the design", s)
	}
}

func TestEnvironment_TwinsEveryFlag(t *testing.T) {
	clearEnvironment(t)
	t.Setenv("SLUICE_LISTEN", "0.0.0.0:9000")
	t.Setenv("DATABASE_URL", "postgres://db/sluice")
	t.Setenv("REDIS_URL", "redis://cache:6379")
	t.Setenv("SLUICE_TRUSTED_PROXIES", "10.0.0.0/8, 192.0.2.1,::ffff:192.0.2.2,::ffff:198.51.100.0/120")
	t.Setenv("SLUICE_STORE_TIMEOUT", "40ms")
	s, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	nets, err := s.TrustedNetworks()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range nets {
		got = append(got, n.String())
	}
	if diff := cmp.Diff([]string{"10.0.0.0/8", "192.0.2.1/32", "192.0.2.2/32", "198.51.100.0/24"}, got); diff != "" {
		t.Error(diff)
	}
	if s.Loopback() || !s.Postgres() || s.NeedsDataDir() || s.StoreTimeout != 40*time.Millisecond {
		t.Errorf("environment not honoured: %+v", s)
	}
}

func TestNAT64Prefixes_AreTheWellKnownOneUnlessSet(t *testing.T) {
	for value, want := range map[string]string{
		"unset": "64:ff9b::/96", "": "64:ff9b::/96", "none": "none",
		"2001:db8::/32,64:ff9b::/96": "64:ff9b::/96,2001:db8::/32",
	} {
		clearEnvironment(t)
		if value != "unset" {
			t.Setenv("SLUICE_NAT64_PREFIXES", value)
		}
		s, err := parse(t)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Options().NAT64Words(); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
}

func TestBadValues_NameTheSetting(t *testing.T) {
	clearEnvironment(t)
	tests := []struct{ arg, flag, env string }{
		{"--listen=8080", "--listen", "SLUICE_LISTEN"},
		{"--listen=127.0.0.1:99999", "--listen", "SLUICE_LISTEN"},
		{"--listen=127.0.0.1:-1", "--listen", "SLUICE_LISTEN"},
		{"--tls-cert-file=tls.pem", "--tls-key-file", "SLUICE_TLS_KEY_FILE"},
		{"--tls-key-file=tls.key", "--tls-cert-file", "SLUICE_TLS_CERT_FILE"},
		{"--tls-client-ca-file=ca.pem", "--tls-cert-file", "SLUICE_TLS_CERT_FILE"},
		{"--tls-client-scopes=gw=check;ops", "--tls-client-scopes", "SLUICE_TLS_CLIENT_SCOPES"},
		{"--tls-client-scopes=gw=check", "--tls-client-ca-file", "SLUICE_TLS_CLIENT_SCOPES"},
		{"--store-timeout=0s", "--store-timeout", "SLUICE_STORE_TIMEOUT"},
		{"--max-keys=1", "--max-keys", "SLUICE_MAX_KEYS"},
		{"--trusted-proxies=everyone", "--trusted-proxies", "SLUICE_TRUSTED_PROXIES"},
		{"--ipv4-prefix=33", "--ipv4-prefix", "SLUICE_IPV4_PREFIX"},
		{"--ipv6-prefix=0", "--ipv6-prefix", "SLUICE_IPV6_PREFIX"},
		{"--nat64-prefixes=64:ff9b::/64,64:ff9b::/95", "--nat64-prefixes", "SLUICE_NAT64_PREFIXES"},
		{"--fail-defaults=POST=shut", "--fail-defaults", "SLUICE_FAIL_DEFAULTS"},
		{"--drain-delay=1h", "--drain-delay", "SLUICE_DRAIN_DELAY"},
		{"--key-prefix={x}", "--key-prefix", "SLUICE_KEY_PREFIX"},
		{"--database-url=mysql://u:hunter2@h/d", "--database-url", "DATABASE_URL"},
		{"--log-level=loud", "--log-level", "SLUICE_LOG_LEVEL"},
		{"--log-format=xml", "--log-format", "SLUICE_LOG_FORMAT"},
		{"--reset-header=iso", "--reset-header", "SLUICE_RESET_HEADER"},
		{"--loop=maybe", "--loop", "SLUICE_LOOP"},
		{"--deny-cache=perhaps", "--deny-cache", "SLUICE_DENY_CACHE"},
		{"--data-dir=", "--data-dir", "SLUICE_DATA_DIR"},
		{"--grpc-listen=8081", "--grpc-listen", "SLUICE_GRPC_LISTEN"},
		{"--grpc-listen=localhost:x", "--grpc-listen", "SLUICE_GRPC_LISTEN"},
	}
	for _, tt := range tests {
		t.Run(tt.arg, func(t *testing.T) {
			_, err := parse(t, tt.arg)
			if err == nil {
				t.Fatal("accepted")
			}
			if msg := err.Error(); !strings.Contains(msg, tt.flag) || !strings.Contains(msg, tt.env) {
				t.Errorf("message %q does not name %s and %s", msg, tt.flag, tt.env)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Error("message repeats a password")
			}
		})
	}
}

// A secret is set by itself or by a file.
func TestSecretFiles_ReplaceTheirSettings(t *testing.T) {
	var names []string
	for i, of := range Secrets(&Serve{}) {
		names = append(names, of.Env)
		clearEnvironment(t)
		t.Setenv(of.Env+"_FILE", "/run/secrets/x")
		s, _ := parse(t)
		if got := *Secrets(&s)[i].Secret; got != (Secret{File: "/run/secrets/x"}) {
			t.Errorf("with a file, %s is %+v", of.Env, got)
		}
		s, _ = parse(t, of.Flag+"-file=/run/secrets/y")
		if got := *Secrets(&s)[i].Secret; got != (Secret{File: "/run/secrets/y"}) {
			t.Errorf("with a flag, %s is %+v", of.Env, got)
		}
		t.Setenv(of.Env, "postgres://u:hunter2@h/d")
		s, err := parse(t)
		if err == nil || !strings.Contains(err.Error(), "("+of.Env+")") ||
			!strings.Contains(err.Error(), "("+of.Env+"_FILE)") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s and its file: %v", of.Env, err)
		}
		for _, v := range Values(s) {
			if strings.Contains(v.Value, "hunter2") {
				t.Errorf("%s shows %q", v.Flag, v.Value)
			}
		}
	}
	if diff := cmp.Diff([]string{"DATABASE_URL", "REDIS_URL", "SLUICE_REGION_TOKEN", "SLUICE_KAFKA_PASSWORD",
		"SLUICE_OIDC_CLIENT_SECRET"}, names); diff != "" {
		t.Error(diff)
	}
	clearEnvironment(t)
	s, err := parse(t, "--database-url-file=/run/secrets/db", "--redis-url-file=/run/secrets/redis")
	if err != nil {
		t.Fatal(err)
	}
	if !s.Postgres() || !s.Redis() || s.NeedsDataDir() || s.Database() != "" {
		t.Errorf("Postgres %v, Redis %v, data directory %v, database %q", s.Postgres(), s.Redis(), s.NeedsDataDir(),
			s.Database())
	}
}

func TestBadValues_AreAllReportedAtOnce(t *testing.T) {
	clearEnvironment(t)
	_, err := parse(t, "--ipv4-prefix=40", "--max-keys=2")
	if err == nil || !strings.Contains(err.Error(), "--ipv4-prefix") || !strings.Contains(err.Error(), "--max-keys") {
		t.Errorf("got %v, want both settings named", err)
	}
}

func TestLoopback_IsOnlyWhatCannotBeReached(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "[::ffff:127.0.0.1]:1": true,
		"0.0.0.0:1": false, ":8080": false, "[::]:1": false, "192.0.2.1:1": false, "localhost.example:1": false,
		"nonsense": false,
	} {
		l := Listener{Listen: addr}
		if got := l.Loopback(); got != want {
			t.Errorf("Loopback(%q) = %v, want %v", addr, got, want)
		}
		if got := (&GRPC{GRPCListen: addr}).GRPCLoopback(); got != want {
			t.Errorf("GRPCLoopback(%q) = %v, want %v", addr, got, want)
		}
	}
	if !(&GRPC{}).GRPCLoopback() {
		t.Error("without gRPC, it cannot be reached")
	}
}

// The reference documentation holds the tables that the structs give. Run with
// -update to rewrite them.
func TestDocs_ListEverySetting(t *testing.T) {
	const file = "../../docs/configuration.md"
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(doc)
	for name, of := range map[string]any{"serve": Serve{}, "client": Client{}} {
		begin, end := "<!-- settings:"+name+" -->\n", "<!-- /settings:"+name+" -->"
		head, rest, ok := strings.Cut(text, begin)
		old, tail, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s lacks the markers %q and %q", file, begin, end)
		}
		want := Markdown(Settings(of))
		if old != want && !*update {
			t.Errorf("%s drifted from the settings of %s; run go test ./internal/config -update\n%s", file, name,
				cmp.Diff(want, old))
		}
		text = head + begin + want + end + tail
	}
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
