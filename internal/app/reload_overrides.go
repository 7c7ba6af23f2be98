package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"sluice/internal/database"
	"sluice/internal/tick"
	"sluice/rules/override"
)

// overrideDatabase is the part of the rules database that loads overrides.
type overrideDatabase interface {
	LoadOverrides(ctx context.Context, since database.Version, begin func(full bool),
		each func(override.Row)) (database.Version, error)
}

// followOverrides loads the overrides that changed, or all of them, and puts them in
// force with the current rules. If that fails, the previous overrides stay. It reports
// whether overrides are in force, even if there are none: before that no rules may be
// in force, or blocked keys would pass.
func (r *reloader) followOverrides(ctx context.Context, version database.Version) bool {
	if r.overrideDatabase == nil || version == r.loadedOverrides {
		return true
	}
	if err := r.traced(ctx, "reload overrides", r.loadOverrides); err != nil {
		r.failed("overrides", err)
		return r.overrides != nil
	}
	r.trouble.Clear(loadFailing, "overrides")
	return true
}

func (r *reloader) loadOverrides(ctx context.Context) error {
	from := r.overrides
	if from == nil {
		from = override.New()
	}
	var edit *override.Edit
	var all bool
	begin := func(full bool) {
		if all = full; full {
			edit = from.Replace()
		} else {
			edit = from.Edit()
		}
	}
	version, err := r.overrideDatabase.LoadOverrides(ctx, r.loadedOverrides, begin, func(s override.Row) { edit.Add(s) })
	if err != nil {
		return err
	}
	r.overrides, r.loadedOverrides = edit.Done(version.N, r.now().UnixMilli()), version
	if set := r.sets.Load(); set != nil {
		r.sets.Store(set.WithOverrides(r.overrides))
	}
	r.metrics.overrides.Set(float64(r.overrides.Len()))
	r.overrideCopies.save(r.overrides)
	if all {
		r.log.Info("overrides in force", "version", version.N, "overrides", r.overrides.Len())
	}
	return nil
}

// loadOverrideCopy puts the overrides of an earlier run in force if none were loaded
// yet. If there is no copy, there were no overrides. A damaged copy is logged, and the
// rules are in force without overrides.
func (r *reloader) loadOverrideCopy() {
	if r.overrides != nil || r.overrideCopies == nil {
		return
	}
	o, err := r.overrideCopies.load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		o = override.New()
	case err != nil:
		r.metrics.copied("refused")
		r.log.Error("the saved copy of the overrides was rejected; every key gets its rule's own limit until the rules "+
			"database is available", "error", err)
		o = override.New()
	default:
		r.metrics.copied("restored")
		r.log.Warn("started with the saved copy of the overrides", "overrides", o.Len(), "version", o.Seq())
	}
	r.overrides = o
	r.metrics.overrides.Set(float64(o.Len()))
}

// cleaner deletes overrides that expired long ago, and history that only nodes with
// very old versions would need.
type cleaner interface {
	CleanOverrides(ctx context.Context) (more bool, err error)
	CleanHistory(ctx context.Context) error
}

// cleanEvery is the interval of the cleanup.
const cleanEvery = time.Minute

// cleanOverrides runs the cleanup at every interval until ctx ends. Outages of the
// database are logged elsewhere.
func cleanOverrides(ctx context.Context, from cleaner, every time.Duration, log *slog.Logger) {
	for range tick.Every(ctx, every) {
		if err := from.CleanHistory(ctx); err != nil && ctx.Err() == nil {
			log.Debug("deleting old version history failed", "error", err)
		}
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = from.CleanOverrides(ctx); err != nil && ctx.Err() == nil {
				log.Debug("deleting expired overrides failed", "error", err)
				break
			}
		}
	}
}
