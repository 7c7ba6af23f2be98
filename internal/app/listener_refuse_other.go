//go:build !linux

package app

import (
	"errors"
	"net"
)

// refuseNew works on Linux only.
func refuseNew(*net.TCPListener) error { return errors.ErrUnsupported }
