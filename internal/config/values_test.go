package config

import (
	"strings"
	"testing"
)

func TestValues_ShowNoSecret(t *testing.T) {
	clearEnvironment(t)
	s, err := parse(t,
		"--database-url=postgres://sluice:hunter2@db:5432/rules?password=hunter2&sslmode=require",
		"--redis-url=rediss://:hunter2@one:6379/0,rediss://:hunter2@two:6379", "--trusted-proxies=10.0.0.0/8,192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Value{}
	for _, v := range Values(s) {
		if strings.Contains(v.Value, "hunter2") {
			t.Errorf("%s shows %q", v.Flag, v.Value)
		}
		got[v.Flag] = v
	}
	for flag, want := range map[string]string{
		"--database-url": "postgres://db:5432/rules", "--redis-url": "rediss://one:6379/0,rediss://two:6379",
		"--trusted-proxies": "10.0.0.0/8,192.0.2.1", "--listen": "127.0.0.1:8080", "--store-timeout": "25ms",
	} {
		if got[flag].Value != want {
			t.Errorf("%s is shown as %q, want %q", flag, got[flag].Value, want)
		}
	}
	if got["--redis-url"].IsDefault || !got["--listen"].IsDefault || !got["--metrics-public"].IsDefault ||
		!got["--session-idle"].IsDefault {
		t.Error("a default is not recognised")
	}
	if len(got) != len(Settings(Serve{})) {
		t.Errorf("%d values of %d settings", len(got), len(Settings(Serve{})))
	}
}

func TestAddresses_OfWhatIsNoneAreHidden(t *testing.T) {
	for _, text := range []string{"redis://:p@ss word@host", "postgres://u:%zz@h", "host:1,user:hunter2@h://x"} {
		if got := addresses(text); strings.Contains(got, "hunter2") || strings.Contains(got, "p@ss") {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}
