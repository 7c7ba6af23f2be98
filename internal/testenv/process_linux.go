package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// childAttr makes the kernel send orphan to the child when the thread that
// started it ends, which covers every way the test binary can die.
func childAttr(cred *syscall.Credential, orphan syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: cred, Pdeathsig: orphan}
}

// children returns the processes that pid started itself and that still run.
func children(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // not a process
		}
		fields, err := statFields(fmt.Sprintf("/proc/%d/stat", child))
		if err != nil {
			continue // the process has ended
		}
		if fields[1] == strconv.Itoa(pid) {
			found = append(found, child)
		}
	}
	return found, nil
}

// standsStill returns nil when every thread of pid is stopped by a signal, or
// the process has ended.
func standsStill(pid int) error {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, task := range tasks {
		fields, err := statFields(fmt.Sprintf("/proc/%d/task/%s/stat", pid, task.Name()))
		if err != nil {
			return err
		}
		if state := fields[0]; state != "T" && state != "Z" {
			return fmt.Errorf("thread %s of process %d is not stopped: its state is %s", task.Name(), pid, state)
		}
	}
	return nil
}

// statFields returns the fields of a stat file that follow the program's name,
// which is in brackets and may hold anything: state, parent, and so on.
func statFields(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 2 {
		return nil, fmt.Errorf("%s: unexpected content", path)
	}
	return fields, nil
}
