package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/database"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Bring the schema up to date."`
	Status migrateStatusCmd `cmd:"" help:"List the applied and pending steps."`
}

// schemaFlags are the flags of both commands.
type schemaFlags struct {
	config.Storage `embed:""`
	JSON           bool `name:"json" help:"Print JSON."`
}

type migrateUpCmd struct {
	schemaFlags `embed:""`
}

// Run migrates up.
func (c *migrateUpCmd) Run(p *process) error { return c.show(p, app.MigrateUp) }

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
