//go:build !linux

package app

// closedEvents is empty: only Linux says in poll that the peer has closed its side. A connection that is closed both
// ways is noticed everywhere.
const closedEvents = 0
