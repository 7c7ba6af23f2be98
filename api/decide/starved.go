package decide

import "time"

// lost is the time that this process was not run, since it started.
func (c *Checker) lost() time.Duration {
	if c.opt.Lost == nil {
		return 0
	}
	return c.opt.Lost()
}

// starved reports whether this process was not run for longer than the store timeout during a check. before is what it
// had lost when the check began. The meter is asked only about checks that took so long.
func (c *Checker) starved(took, before time.Duration) bool {
	return c.patience > 0 && took > c.patience && c.lost()-before > c.patience
}
