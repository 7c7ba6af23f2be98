package app

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"sluice/internal/access"
	"sluice/internal/rulecopy"
	"sluice/internal/telemetry"
	"sluice/rules"
)

// fallBack starts with the copy on disk where the database has given no rules or
// no tokens yet: because it is away, or because its rules do not compile. It
// reads the copy once; what is missing after that only the database can give.
func (r *reloader) fallBack() {
	if r.recalled || r.sets.Load() != nil && r.access.Load() != nil {
		return
	}
	r.recalled = true
	c, err := r.recall()
	if errors.Is(err, fs.ErrNotExist) {
		r.log.Info("there is no saved copy of the rules to start with")
		return
	}
	if err == nil {
		err = r.adopt(c)
	}
	if err != nil {
		r.source.Copy("refused")
		r.log.Error("the saved copy of the rules was rejected; waiting for the rules database", "error", err)
		return
	}
	r.source.Copy("restored")
	age := max(0, r.now().Sub(c.At)).Round(time.Second)
	r.log.Warn("started with the saved copy of the rules",
		"version", c.Version, "rules", r.sets.Load().Len(), "tokens", r.access.Load().Live(r.now()), "age", age.String(), "confirmed", c.At)
}

// adopt puts in force what is missing, all of it or nothing. The versions of the
// reloader stay as they are, so that the database's own rules and tokens follow
// as soon as it answers, whatever their versions.
func (r *reloader) adopt(c *rulecopy.Copy) error {
	set, err := rules.CompileSource(rules.Source{Rules: c.Rules, Pools: c.Pools, Version: c.Version}, r.options)
	if err != nil {
		return fmt.Errorf("its rules do not compile: %w", err)
	}
	ring := access.NewKeyring(c.Tokens)
	if r.access.Load() == nil {
		if err := r.admit(ring); err != nil {
			return err
		}
		r.access.Store(ring)
		r.tokens = c.Tokens
	}
	if r.sets.Load() == nil {
		r.recallOverrides()
		namePatterns(r.log, nil, set)
		r.sets.Store(set.WithOverrides(r.overrides))
		r.origin, r.stamp, r.confirmed = telemetry.FromCopy, c.Stamp, c.At
		r.metrics.Swapped(set)
		r.metrics.Confirmed(c.At)
	}
	return nil
}

// save hands what is in force to the copies, once the database has given the
// tokens; the rules may still be those of the copy while the database's do not
// compile.
func (r *reloader) save(confirmed bool) {
	set := r.sets.Load()
	if set == nil || r.heldTokens.N < 0 || !confirmed && !r.changedHere {
		return
	}
	r.keep(inForce{set: set, stamp: r.stamp, tokens: r.tokens, at: r.confirmed}, r.changedHere)
	r.changedHere = false
}

// publish shows by which rules the node decides, and whether it is ready.
func (r *reloader) publish() {
	r.source.Source(r.origin)
	r.source.Refused(r.refused.N >= 0)
	if set := r.sets.Load(); set != nil {
		r.readiness.rules.Store(&ruleState{version: set.Version(), origin: r.origin, confirmed: r.confirmed, refused: r.refused.N})
	}
	r.readiness.publish()
}
