package app

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"sluice/internal/access"
	"sluice/internal/rulecopy"
	"sluice/internal/trouble"
	"sluice/rules"
	"sluice/rules/match"
)

// startWithCopy starts with the local copy if no rules or no tokens were loaded yet:
// because the database is unavailable, or because its rules do not compile. It reads
// the copy once; whatever is missing then must come from the database.
func (r *reloader) startWithCopy() {
	if r.copyTried || r.sets.Load() != nil && r.access.Load() != nil {
		return
	}
	r.copyTried = true
	c, err := r.loadCopy()
	if errors.Is(err, fs.ErrNotExist) {
		r.log.Info("there is no saved copy of the rules to start with")
		return
	}
	if err == nil {
		err = r.putCopyInForce(c)
	}
	if err != nil {
		r.metrics.copied("refused")
		r.log.Error("the saved copy of the rules was rejected; waiting for the rules database", "error", err)
		return
	}
	r.metrics.copied("restored")
	age := max(0, r.now().Sub(c.At)).Round(time.Second)
	r.log.Warn("started with the saved copy of the rules",
		"version", c.Version, "rules", r.sets.Load().Len(), "tokens", r.access.Load().Live(r.now()), "age", age.String(),
		"confirmed", c.At)
}

// putCopyInForce puts in force what is missing, all of it or nothing. The loaded
// versions do not change, so that the rules and tokens of the database are loaded as
// soon as it is available, whatever their versions.
func (r *reloader) putCopyInForce(c *rulecopy.Copy) error {
	set, err := match.CompileSource(rules.Source{Rules: c.Rules, Pools: c.Pools, Profiles: c.Profiles,
		Version: c.Version}, r.options)
	if err != nil {
		return fmt.Errorf("its rules do not compile: %w", err)
	}
	ring := access.NewKeyring(c.Tokens)
	if r.access.Load() == nil {
		if err := r.checkTokens(ring); err != nil {
			return err
		}
		r.access.Store(r.local.follow(ring))
		r.tokens = c.Tokens
	}
	if r.sets.Load() == nil {
		r.loadOverrideCopy()
		logOversizedPatterns(r.log, nil, set)
		r.sets.Store(set.WithOverrides(r.overrides))
		r.origin, r.stamp, r.confirmed = fromCopy, c.Stamp, c.At
		r.metrics.swapped(set)
		r.metrics.confirmed.Store(c.At.UnixMilli())
		r.series.Swapped(set)
	}
	return nil
}

// save passes the rules and tokens in force to saveCopy, once tokens were loaded from the database. The rules may still
// come from the copy while the stored rules do not compile.
func (r *reloader) save(confirmed bool) {
	set := r.sets.Load()
	if set == nil || r.loadedTokens.N < 0 || !confirmed && !r.copyOutdated {
		return
	}
	r.saveCopy(inForce{set: set, stamp: r.stamp, tokens: r.tokens, at: r.confirmed}, r.copyOutdated)
	r.copyOutdated = false
}

// publish says which rules are in force: in metrics, for /readyz, and whether newer ones do not compile.
func (r *reloader) publish() {
	r.metrics.from(r.origin)
	set := r.sets.Load()
	if r.refused.N < 0 {
		r.trouble.Clear(rulesRefused, "")
	} else if set != nil {
		r.trouble.Set(trouble.Trouble{Condition: rulesRefused, Since: r.now(),
			Numbers: map[string]int64{"version": r.refused.N, "in_force": set.Version()}})
	}
	if set != nil {
		r.readiness.rules.Store(&ruleState{version: set.Version(), origin: r.origin, confirmed: r.confirmed,
			refused: r.refused.N})
	}
}
