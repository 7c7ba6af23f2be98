package app

import "golang.org/x/sys/unix"

// closedEvents are the events of poll that say that the peer has closed its side.
const closedEvents = unix.POLLRDHUP
