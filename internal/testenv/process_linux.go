package testenv

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// childAttr makes the kernel send orphan to the child when the thread that
// started it ends, which covers every way the test binary can die.
func childAttr(cred *syscall.Credential, orphan syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: cred, Pdeathsig: orphan}
}

// standsStill returns nil when every thread of pid is stopped by a signal.
func standsStill(pid int) error {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	for _, task := range tasks {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/stat", pid, task.Name()))
		if err != nil {
			return err
		}
		// The state letter follows the program's name, which is in brackets.
		if i := bytes.LastIndexByte(b, ')'); i < 0 || i+2 >= len(b) || b[i+2] != 'T' {
			return fmt.Errorf("thread %s of process %d is not stopped", task.Name(), pid)
		}
	}
	return nil
}
