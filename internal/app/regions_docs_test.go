package app

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/testenv"
)

// Every command of the page about regions does what the page says, in order, in one shell.
func TestRegions_ThePageSetsUpTwoOnOneMachine(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/regions-setup.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var script strings.Builder
	script.WriteString("set -eu\n")
	for _, block := range shellBlock.FindAllStringSubmatch(string(page), -1) {
		script.WriteString(block[1])
	}
	pairs := []string{"postgres://sluice:secret@127.0.0.1:5432/sluice", `'` + testenv.Postgres(t) + `'`}
	for _, port := range []string{"6381", "6382", "8081", "8082"} {
		address := testenv.FreeAddr(t)
		pairs = append(pairs, "127.0.0.1:"+port, address, "--port "+port,
			"--port "+address[strings.LastIndex(address, ":")+1:])
	}
	path := filepath.Dir(testenv.Sluice(t)) + ":" + os.Getenv("PATH") // building it takes its own time
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", strings.NewReplacer(pairs...).Replace(script.String()))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+path, "SLUICE_DECISION_LOG=off")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := &buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // servers in its group go on
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the page ended with %v\n%s", err, out)
	}
	answers := out.String()
	for _, want := range []string{
		`"remaining":6`, `"remaining":6`, `"cut_off":false`, // spent in one region, heard of in the other
		`"remaining":1`, `"degraded":"region"`, // cut off
		`"remaining":6`, `"degraded":null`, // healed
		`"limit":300`, `"remaining":4`, `"remaining":4`, // divided, and at home
	} {
		_, rest, ok := strings.Cut(answers, want)
		if !ok {
			t.Fatalf("the page lacks the answer %s in\n%s\nof\n%s", want, answers, out)
		}
		answers = rest
	}
}
