//go:build !linux

package plain

import (
	"context"
	"errors"
	"net"
	"time"
)

// Loop exists on Linux only.
type Loop struct{}

// LoopDeps are the dependencies of a Loop.
type LoopDeps struct {
	HandOver func(c net.Conn, unread []byte)
	Freed    func()
}

// NewLoop fails: on this system each connection is read by its own goroutine.
func NewLoop(*Server, LoopDeps) (*Loop, error) {
	return nil, errors.New("plain: there is no loop on this system")
}

// Add is never called.
func (*Loop) Add(int) error { return errors.ErrUnsupported }

// Open is never called.
func (*Loop) Open() int { return 0 }

// Run is never called.
func (*Loop) Run(context.Context) {}

// Drain is never called.
func (*Loop) Drain(_, _ time.Duration) {}
