package rules

import "sync/atomic"

// Current holds the set in force. One pointer is swapped, so that every
// decision uses one version from beginning to end. The zero value holds none.
type Current struct{ p atomic.Pointer[Set] }

// Load returns the set in force, nil before the first Store.
func (c *Current) Load() *Set { return c.p.Load() }

// Store puts a set in force.
func (c *Current) Store(s *Set) { c.p.Store(s) }

// Set is all active rules, compiled and immutable.
type Set struct{}
