package app

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// orphanless ends the child when the test binary dies.
func orphanless() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// resident is the memory that the process holds, in MiB.
func (c *child) resident() int {
	c.t.Helper()
	return residentOf(c.t, c.proc.Pid)
}

// peak is the most memory that the process held in RAM since its start, in MiB.
func (c *child) peak() int {
	c.t.Helper()
	return memoryOf(c.t, c.proc.Pid, "VmHWM:")
}

func residentOf(t *testing.T, pid int) int {
	t.Helper()
	return memoryOf(t, pid, "VmRSS:")
}

// memoryOf reads a size from the status of a process, in MiB.
func memoryOf(t *testing.T, pid int, line string) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(b, []byte(line))
	kib, err := strconv.Atoi(strings.Fields(string(rest))[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}
