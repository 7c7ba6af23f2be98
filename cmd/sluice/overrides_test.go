package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOverrides_SetListDeleteImportExport(t *testing.T) {
	dir := t.TempDir()
	r := launch(t, nil, serveArgs(dataDir(t))...)
	const rule = "rules:\n  - name: per-user\n    scope: user\n    limit: 1\n    window_ms: 86400000\n"
	if code, _, errs := sluice(t, rule, "rules", "apply", "--server="+r.url, "-f", "-"); code != exitDone {
		t.Fatal(errs)
	}
	file := filepath.Join(dir, "overrides.csv")
	if err := os.WriteFile(file, []byte("key,blocked,limit\nuser:bad,true,\nuser:vip-*,,7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	exported := filepath.Join(dir, "exported.csv")
	type step struct {
		stdin string
		args  []string
		code  int
		want  string
	}
	steps := []step{
		{args: []string{"overrides", "set", "per-user", "user:42", "--limit=3", "--reason=big", "--expires=24h"},
			want: "user:42: limit 3 (expires: 2"},
		{args: []string{"overrides", "set", "1", "42", "--unlimited"}, want: "user:42: unlimited (expires: never)"},
		{args: []string{"overrides", "list", "per-user"}, want: "user:42  unlimited  never"},
		{args: []string{"overrides", "list", "per-user", "--json"}, want: `"version":2`},
		{args: []string{"overrides", "import", "per-user", "-f", file, "--dry-run"},
			want: "2 created, 0 updated, 0 unchanged, 0 deleted; dry run, nothing changed"},
		{args: []string{"overrides", "import", "per-user", "-f", file, "--prune"},
			want: "2 created, 0 updated, 0 unchanged, 1 deleted; done"},
		{args: []string{"check", "--server=" + r.url, "--user=bad"}, code: exitNo, want: "denied (429)"},
		{args: []string{"overrides", "export", "per-user"}, want: "user:bad,,,false,true,,,\nuser:vip-*,7,,false,false,,,\n"},
		{args: []string{"overrides", "export", "per-user", "-f", exported}},
		{args: []string{"overrides", "import", "per-user", "-f", exported}, want: "2 unchanged"},
		{args: []string{"overrides", "delete", "per-user", "bad"}, want: "user:bad: override deleted"},
		{args: []string{"overrides", "delete", "per-user", "bad"}, code: exitError, want: "no override for key bad"},
		{args: []string{"check", "--server=" + r.url, "--user=bad"}, want: "allowed"},
		{args: []string{"overrides", "set", "per-user", "bad"}, code: exitError, want: "exactly one of"},
		{args: []string{"overrides", "list", "no-such-rule"}, code: exitError, want: `rule "no-such-rule" does not exist`},
		{stdin: "key,limit\na,x\n", args: []string{"overrides", "import", "per-user", "-f", "-"}, code: exitError,
			want: "line[2].limit"},
	}
	const perAddress = "rules:\n  - name: per-address\n    scope: ip\n    limit: 1\n    window_ms: 86400000\n"
	if code, _, errs := sluice(t, perAddress, "rules", "apply", "--server="+r.url, "-f", "-"); code != exitDone {
		t.Fatal(errs)
	}
	steps = append(steps, []step{
		{args: []string{"overrides", "set", "per-address", "ip:10.0.0.0/8", "--blocked", "--reason=listed"},
			want: "ip:10.0.0.0/8: blocked (expires: never)"},
		{args: []string{"overrides", "set", "per-address", "10.0.0.1/8", "--blocked"}, code: exitError,
			want: "write 10.0.0.0/8"},
		{stdin: "key,unlimited\n10.1.0.0/16,true\n2001:db8::/32,true\n",
			args: []string{"overrides", "import", "per-address", "-f", "-"}, want: "2 created"},
		{args: []string{"check", "--server=" + r.url, "--ip=10.2.0.1"}, code: exitNo, want: "denied (429)"},
		{args: []string{"check", "--server=" + r.url, "--ip=10.1.0.1"}, want: "allowed"},
		{args: []string{"check", "--explain", "--server=" + r.url, "--ip=10.2.0.1"}, code: exitNo,
			want: "Override 4 of the network 10.0.0.0/8 blocks the key."},
		{args: []string{"overrides", "list", "per-address", "--search=10.2.0.1"}, want: "ip:10.0.0.0/8  blocked"},
		{args: []string{"overrides", "delete", "per-address", "10.0.0.0/8"}, want: "ip:10.0.0.0/8: override deleted"},
		{args: []string{"check", "--server=" + r.url, "--ip=10.2.0.1"}, want: "allowed"},
	}...)
	for _, s := range steps {
		args := s.args
		if args[0] == "overrides" {
			args = append(append([]string{}, args...), "--server="+r.url)
		}
		code, out, errs := sluice(t, s.stdin, args...)
		if code != s.code || !strings.Contains(out+errs, s.want) {
			t.Errorf("%q exits %d, want %d with %q\n%s%s", s.args, code, s.code, s.want, out, errs)
		}
	}
	r.terminate()
}
