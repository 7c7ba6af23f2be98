package main

import (
	"strings"
	"testing"
)

func TestCheck_AsEnvoyWithADescriptor(t *testing.T) {
	r := launch(t, nil, serveArgs(dataDir(t))...)
	defer r.terminate()
	const file = `
profiles:
  - name: edge
    domain: facts
    entries: {who: user}
rules:
  - name: by-user
    scope: user
    algorithm: fixed_window
    limit: 3
    window_ms: 86400000
  - name: pay-per-user
    descriptor: {domain: shop, entries: [{key: path, pattern: "/pay*"}, {key: user}]}
    algorithm: fixed_window
    limit: 3
    window_ms: 86400000
`
	if code, out, errs := sluice(t, file, "rules", "apply", "--server="+r.url, "-f", "-"); code != exitDone {
		t.Fatalf("exits %d\n%s%s", code, out, errs)
	}
	for _, s := range []struct {
		args string
		code int
		want string
	}{
		{"--domain=shop --entry=path=/pay --entry=user=b --explain --addend=2", exitDone,
			"Limit 3, remaining 3, after the call 1."},
		{"--domain=shop --entry=path=/pay --entry=user=b --addend=2", exitDone, "allowed"},
		{"--domain=shop --entry=path=/pay --entry=user=b --addend=2", exitNo, "denied (429)"},
		{"--domain=shop --entry=path=/pay --entry=user=b --addend=2 --json", exitNo, `"limitRemaining":1,`},
		{"--domain=shop --entry=path=/pay --entry=user=b --addend=2 --explain", exitNo, "* pay-per-user"},
		{"--domain=shop --entry=path=/pay --entry=user=b", exitDone, "pay-per-user: 0 remaining"},
		{"--domain=shop --entry=user=b --explain", exitDone, "no_fit"},
		{"--domain=shop --entry=path=/pay --entry=user=c --json", exitDone, `"overallCode"`},
		{"--domain=facts --entry=who=b --explain", exitDone, "Profile edge reads the descriptors as one request."},
		{"--domain=facts --entry=who=b --explain --addend=4", exitNo, "* by-user"},
		{"--domain=facts --entry=who=b --explain --json", exitDone, `"profile":"edge"`},
		{"--domain=shop", exitError, "--domain and --entry belong together"},
		{"--domain=shop --entry=user:b", exitError, "--entry must be KEY=VALUE"},
		{"--domain=shop --entry=user=b --user=c", exitError, "remove the flags of other checks"},
	} {
		args := append([]string{"check", "--server=" + r.url}, strings.Fields(s.args)...)
		if code, out, errs := sluice(t, "", args...); code != s.code || !strings.Contains(out+errs, s.want) {
			t.Errorf("%s exits %d, want %d\n%s%s", s.args, code, s.code, out, errs)
		}
	}
}
