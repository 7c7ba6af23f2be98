package testenv_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sluice/internal/testenv"
)

// orphanEnv turns this test binary into the child of the test below.
const orphanEnv = "SLUICE_TESTENV_ORPHAN"

func TestRedis_DiesWithAKilledTestBinary(t *testing.T) {
	if os.Getenv(orphanEnv) != "" {
		s := testenv.Redis(t)
		fmt.Println("listening", s.Addr)
		<-t.Context().Done() // until the parent kills this process
		return
	}

	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), orphanEnv+"=1", "TMPDIR="+t.TempDir())
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var addr string
	for lines := bufio.NewScanner(out); addr == "" && lines.Scan(); {
		addr, _ = strings.CutPrefix(lines.Text(), "listening ")
		if addr == lines.Text() {
			addr = ""
		}
	}
	if addr == "" {
		t.Fatal("the child started no server")
	}
	wantReply(t, addr, "PING", "+PONG")
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // killed, as wanted

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		if _, err := ask(t, addr, "PING", time.Second); err != nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("the server outlived its test binary")
		}
	}
}
