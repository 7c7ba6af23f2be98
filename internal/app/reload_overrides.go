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

// overrideCatalog is what the reloader needs of the rule database for overrides.
type overrideCatalog interface {
	LoadOverrides(ctx context.Context, since database.Version, begin func(full bool), each func(override.Row)) (database.Version, error)
}

// followOverrides loads what changed since the last time, or everything, and puts
// it in force with the present rules. Where that fails what was in force stays.
// It reports whether there is anything in force, were it nothing at all: until
// then no rules may be, or those who are blocked would pass.
func (r *reloader) followOverrides(ctx context.Context, version database.Version) bool {
	if r.overridesFrom == nil || version == r.heldOverrides {
		return true
	}
	if err := r.loadOverrides(ctx); err != nil {
		r.failed("overrides", err)
		return r.overrides != nil
	}
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
	version, err := r.overridesFrom.LoadOverrides(ctx, r.heldOverrides, begin, func(s override.Row) { edit.Add(s) })
	if err != nil {
		return err
	}
	r.overrides, r.heldOverrides = edit.Done(version.N, r.now().UnixMilli()), version
	if set := r.sets.Load(); set != nil {
		r.sets.Store(set.WithOverrides(r.overrides))
	}
	r.source.Overrides(r.overrides.Len())
	r.copiedOverrides.keep(r.overrides)
	if all {
		r.log.Info("overrides in force", "version", version.N, "overrides", r.overrides.Len())
	}
	return nil
}

// recallOverrides takes the overrides of an earlier run where the database has
// given none yet. Without a copy there were none; one that is damaged is loud,
// and the rules go on without it.
func (r *reloader) recallOverrides() {
	if r.overrides != nil || r.copiedOverrides == nil {
		return
	}
	o, err := r.copiedOverrides.load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		o = override.New()
	case err != nil:
		r.source.Copy("refused")
		r.log.Error("the saved copy of the overrides was rejected; every key gets its rule's own limit until the rules database is available", "error", err)
		o = override.New()
	default:
		r.source.Copy("restored")
		r.log.Warn("started with the saved copy of the overrides", "overrides", o.Len(), "version", o.Seq())
	}
	r.overrides = o
	r.source.Overrides(o.Len())
}

// cleaner deletes overrides that ended long ago, and what only nodes that are far
// behind would need.
type cleaner interface {
	CleanOverrides(ctx context.Context) (more bool, err error)
	CleanHistory(ctx context.Context) error
}

// cleanEvery is how often that happens.
const cleanEvery = time.Minute

// cleanOverrides cleans every interval until ctx ends. A database that is away
// is told about elsewhere.
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
