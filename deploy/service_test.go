package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"sluice/internal/config"
)

// readUnit returns the values of the section Service by name, in order.
func readUnit(t *testing.T) map[string][]string {
	t.Helper()
	b, err := os.ReadFile("sluice.service")
	if err != nil {
		t.Fatal(err)
	}
	values, section := map[string][]string{}, ""
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		name, value, isValue := strings.Cut(line, "=")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			section = line
		case !isValue:
			t.Errorf("%q is no setting", line)
		case section == "[Service]":
			values[name] = append(values[name], value)
		}
	}
	return values
}

// The unit's command line and environment are settings that a node accepts, and its time to stop
// is longer than the drain.
func TestService_StartsANodeAndLetsItDrain(t *testing.T) {
	unit := readUnit(t)
	for _, s := range config.Settings(config.Serve{}, config.Client{}) {
		t.Setenv(s.Env, "") // puts it back after the test
		if err := os.Unsetenv(s.Env); err != nil {
			t.Fatal(err)
		}
	}
	known := knownVariables()
	for _, pair := range unit["Environment"] {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
		if !slices.Contains(known, name) {
			t.Errorf("%s is no setting", name)
		}
	}
	command := strings.Fields(strings.Join(unit["ExecStart"], " "))
	if len(command) < 2 || filepath.Base(command[0]) != "sluice" || command[1] != "serve" {
		t.Fatalf("the unit runs %q", command)
	}
	var serve config.Serve
	parser, err := kong.New(&serve, config.SecretFlags())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(command[2:]); err != nil {
		t.Fatal(err)
	}
	if err := serve.Validate(); err != nil {
		t.Fatal(err)
	}
	if got, want := serve.DataDir, "/var/lib/"+unit["StateDirectory"][0]; got != want {
		t.Errorf("the data directory is %s, and the unit may write to %s", got, want)
	}
	if serve.DrainDelay == 0 {
		t.Error("the node does not tell balancers before it stops accepting requests")
	}
	stop, err := time.ParseDuration(unit["TimeoutStopSec"][0])
	if err != nil || stop <= serve.DrainDelay+config.DrainTimeout {
		t.Errorf("TimeoutStopSec is %s (%v), and a drain takes up to %s", stop, err, serve.DrainDelay+config.DrainTimeout)
	}
}

func TestService_HasFewRights(t *testing.T) {
	unit := readUnit(t)
	for name, want := range map[string]string{
		"Type": "exec", "KillSignal": "SIGTERM", "DynamicUser": "yes", "StateDirectory": "sluice", "NoNewPrivileges": "yes",
		"ProtectSystem": "strict", "CapabilityBoundingSet": "", "UMask": "0077", "LimitNOFILE": "65536",
	} {
		if got := unit[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// Where systemd is installed, it finds nothing to complain about.
func TestService_SystemdAcceptsIt(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd is not installed, so it was not asked")
		return
	}
	b, err := os.ReadFile("sluice.service")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sluice.service")
	b = bytes.Replace(b, []byte("/usr/local/bin/sluice"), []byte(program), 1)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
