package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/testenv"
)

func TestCommands_CheckTheServersCertificate(t *testing.T) {
	authority := testenv.NewAuthority(t)
	dir := t.TempDir()
	cert, key := authority.Issue(t, dir, "server.test", time.Now().Add(time.Hour))
	r := launch(t, nil, append(serveArgs(dir+"/data"), "--tls-cert-file="+cert, "--tls-key-file="+key)...)
	for _, command := range [][]string{
		{"healthcheck"}, {"check", "--key=k", "--limit=9", "--window=1h"}, {"rules", "export"},
	} {
		args := slices.Concat(command, []string{"--server=" + r.url})
		if code, out, errs := sluice(t, "", append(slices.Clone(args), "--ca="+authority.File)...); code != exitDone {
			t.Errorf("%v exits %d: %s%s", command, code, out, errs)
		}
		if code, _, errs := sluice(t, "", args...); code == exitDone || !strings.Contains(errs, "certificate") {
			t.Errorf("%v trusts an unknown authority: %d %s", command, code, errs)
		}
	}
	for _, file := range []string{dir + "/missing", key} {
		if code, _, errs := sluice(t, "", "healthcheck", "--server="+r.url, "--ca="+file); code != exitError ||
			!strings.Contains(errs, "SLUICE_CA_FILE") {
			t.Errorf("--ca %s: exit code %d, %s", file, code, errs)
		}
	}
	r.terminate()
}
