//go:build unix && !linux

package testenv

import "syscall"

// childAttr has no parent-death signal outside Linux. There, only Main and the cleanups of tests
// stop servers.
func childAttr(cred *syscall.Credential, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: cred}
}

// children cannot look into other processes here: a server freezes without its
// workers.
func children(int) ([]int, error) { return nil, nil }

// standsStill cannot look into another process here and trusts the signal.
func standsStill(int) error { return nil }
