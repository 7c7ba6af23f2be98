package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/database"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Bring the schema up to date."`
	Down   migrateDownCmd   `cmd:"" help:"Undo every step after a version, and delete the data of those steps."`
	Status migrateStatusCmd `cmd:"" help:"List the applied and pending steps."`
}

// schemaFlags are the flags of all three commands.
type schemaFlags struct {
	config.Storage `embed:""`
	JSON           bool `name:"json" help:"Print JSON."`
}

type migrateUpCmd struct {
	schemaFlags `embed:""`
}

// Run migrates up.
func (c *migrateUpCmd) Run(p *process) error { return c.show(p, app.MigrateUp) }

type migrateDownCmd struct {
	schemaFlags `embed:""`
	To          int64 `name:"to" required:"" placeholder:"VERSION" help:"Last step to keep. 0 undoes every step and deletes all rules, tokens and audit entries."`
	Yes         bool  `name:"yes" help:"Confirm."`
}

// Run migrates down if --yes is set.
func (c *migrateDownCmd) Run(p *process) error {
	if c.To < 0 {
		return fmt.Errorf("--to must not be negative")
	}
	steps, err := app.Migrations(p.ctx, c.Storage)
	if err != nil {
		return err
	}
	if len(steps) > 0 && c.To > steps[len(steps)-1].Version {
		return fmt.Errorf("--to %d is after the last step, %d; sluice migrate status lists the steps", c.To,
			steps[len(steps)-1].Version)
	}
	if !c.Yes {
		if c.To > 0 {
			return errors.New("this disables rules that the older version does not support and sets aside data that it does " +
				"not know; " +
				"back up first, then add --yes")
		}
		return errors.New("this deletes everything in the rules database; back up first, then add --yes")
	}
	return c.show(p, func(ctx context.Context, s config.Storage) ([]database.Migration, error) {
		return app.MigrateDown(ctx, s, c.To)
	})
}

type migrateStatusCmd struct {
	schemaFlags `embed:""`
}

// Run lists the steps.
func (c *migrateStatusCmd) Run(p *process) error { return c.show(p, app.Migrations) }

func (f *schemaFlags) show(p *process,
	steps func(context.Context, config.Storage) ([]database.Migration, error)) error {
	list, err := steps(p.ctx, f.Storage)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(p, list)
	}
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VERSION\tSTEP\tAPPLIED")
	for _, m := range list {
		applied := "pending"
		if m.AppliedAt != nil {
			applied = m.AppliedAt.Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\n", m.Version, m.Name, applied)
	}
	return w.Flush()
}
