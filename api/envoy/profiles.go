package envoy

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"sluice/rules/facts"
	"sluice/rules/match"
	"sluice/rules/profile"
)

// profiles holds the compiled profiles by name. The zero value is empty.
type profiles struct {
	log      *slog.Logger
	compiled atomic.Pointer[map[string]*usable]
	mu       sync.Mutex // locked to replace compiled
}

// profile is a profile that is ready for use.
type usable struct {
	stored  *profile.Profile
	reader  *facts.Reader // nil if the profile cannot be used
	shows   headerSet
	headers map[string]string // canonical names of the headers that it reads, by their names in lower case
	address string            // the header with the client's address, canonical; "" for none
}

var errUnusable = errors.New("the profile cannot be used")

// of returns the compiled form of a profile of the set in force.
func (c *profiles) of(set *match.Set, stored *profile.Profile) *usable {
	if all := c.compiled.Load(); all != nil {
		if p := (*all)[stored.Name]; p != nil && p.stored == stored {
			return p
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next := map[string]*usable{}
	if all := c.compiled.Load(); all != nil {
		for name, p := range *all {
			if set.Profile(name) == p.stored {
				next[name] = p
			}
		}
	}
	p := next[stored.Name]
	if p == nil {
		p = c.compile(stored)
		next[stored.Name] = p
	}
	c.compiled.Store(&next)
	return p
}

// compile compiles a profile. One that cannot be used answers no call.
func (c *profiles) compile(stored *profile.Profile) *usable {
	p := &usable{stored: stored, shows: headersOf(stored)}
	reader, err := facts.New(stored)
	if err != nil {
		c.log.Error("a profile cannot be used", "profile", stored.Name, "version", stored.Version, "error", err)
		return p
	}
	p.reader = reader
	p.readHeaders(stored)
	return p
}
