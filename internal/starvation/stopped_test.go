//go:build unix

package starvation

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// childEnv makes this test binary a process with a Meter. It prints what it lost whenever it reads a line.
const childEnv = "SLUICE_TEST_METER"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	meter := New()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go meter.Run(ctx)
	meter.Lost()
	for meter.due.Load() == 0 { // until it measures
		runtime.Gosched()
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Fprintln(os.Stdout, int64(meter.Refresh()))
	}
}

// A process that is stopped five times for 100 ms lost that time but for one period each.
func TestMeter_CountsATimeInWhichTheProcessIsStopped(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // this test binary
	cmd.Env = append(os.Environ(), childEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	lines := bufio.NewReader(out)
	lost := func() (d time.Duration) {
		t.Helper()
		if _, err := fmt.Fprintln(in); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fscanln(lines, &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	const stop, times = 100 * ms, 5
	before := lost()
	for range times {
		stopFor(t, cmd.Process.Pid, stop)
		lost() // it runs again
	}
	// The CPU time that the process used before a tick was due is taken off, at most a period.
	got := lost() - before
	t.Logf("lost %s in %d stops of %s", got, times, stop)
	if least := times * (stop - 2*period); got < least {
		t.Errorf("lost %s in %d stops of %s, want at least %s", got, times, stop, least)
	}
}

// stopFor stops a child for at least d.
func stopFor(t *testing.T, pid int, d time.Duration) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the process did not stop: %v %v", status, err)
	}
	<-time.After(d)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
