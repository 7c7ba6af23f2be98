package api

import (
	"context"
	"encoding/csv"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"sluice/rules"
	"sluice/rules/rulefile"
)

const mediaCSV = "text/csv"

// exportPage is the number of overrides that an export reads at once.
const exportPage = 2000

// exportOverrides sends the overrides of a rule, without expired ones, as a file that can
// be imported. The response is streamed and ends early after an error.
func (s *Server) exportOverrides(c echo.Context) error {
	id, err := ruleID(c)
	if err != nil {
		return err
	}
	if q, err := parseQuery(c); err != nil {
		return err
	} else if err := q.err(); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if _, err := s.deps.Rules.GetRule(ctx, id); err != nil {
		return err
	}
	q := rules.OverrideQuery{RuleID: id, PageSize: exportPage}
	p, err := s.deps.Overrides.ListOverrides(ctx, q)
	if err != nil {
		return err
	}
	h := c.Response().Header()
	h["Content-Type"] = []string{mediaCSV + "; charset=utf-8; header=present"}
	h.Set("Content-Disposition", `attachment; filename="overrides.csv"`)
	c.Response().WriteHeader(http.StatusOK)
	if c.Request().Method == http.MethodHead {
		return nil
	}
	w := csv.NewWriter(c.Response())
	_ = w.Write(rulefile.OverrideHeader()) // Flush returns the error
	for {
		for i := range p.Overrides {
			_ = w.Write(rulefile.OverrideRecord(&p.Overrides[i]))
		}
		w.Flush()
		if w.Error() != nil || !p.More {
			return nil // fails only if the client closed the connection
		}
		q.AfterID = p.Overrides[len(p.Overrides)-1].ID
		if p, err = s.deps.Overrides.ListOverrides(ctx, q); err != nil {
			if !errors.Is(err, context.Canceled) { // then the client has left
				s.log.Error("the export of overrides ended early", "rule", id, "error", err)
			}
			panic(http.ErrAbortHandler)
		}
	}
}

// importOverrides imports the overrides of a file, all or nothing. With prune it deletes
// stored overrides that are missing from the file.
func (s *Server) importOverrides(c echo.Context) error {
	id, err := ruleID(c)
	if err != nil {
		return err
	}
	q, err := parseQuery(c, "dry_run", "prune")
	if err != nil {
		return err
	}
	dry, prune := q.boolean("dry_run"), q.boolean("prune")
	if err := q.err(); err != nil {
		return err
	}
	if err := contentType(c, mediaCSV); err != nil {
		return err
	}
	body, done, err := s.readFile(c, rulefile.MaxOverrideFile)
	if err != nil {
		return err
	}
	defer done()
	items, err := rulefile.ParseOverrides(body)
	if err != nil {
		return err
	}
	if err := rules.CheckReason(actor(c).Reason); err != nil {
		return err
	}
	in := rules.OverrideImport{RuleID: id, Items: items, DryRun: dry != nil && *dry, Prune: prune != nil && *prune}
	plan, err := s.deps.OverrideWriter.ImportOverrides(c.Request().Context(), actor(c), in, s.setOptions())
	if err != nil {
		return err
	}
	if !in.DryRun {
		s.changed(c)
	}
	return writeJSON(c, http.StatusOK, plan)
}
