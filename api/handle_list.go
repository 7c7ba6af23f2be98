package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
	"sluice/rules"
	"sluice/rules/envoyfile"
	"sluice/rules/field"
	"sluice/rules/profile"
	"sluice/rules/rulefile"
)

// rulePage is the response to GET /ratelimit/rules.
type rulePage struct {
	Rules         []rules.Rule `json:"rules"`
	NextPageToken string       `json:"next_page_token"`
}

func (s *Server) listRules(c echo.Context) error {
	q, err := parseQuery(c, slices.Concat([]string{"q"}, rules.Filters(),
		[]string{"active", "page_size", "page_token"})...)
	if err != nil {
		return err
	}
	want := rules.Query{
		Text: q.values.Get("q"), Equal: q.filters(), Active: q.boolean("active"),
		PageSize: q.pageSize(), AfterID: q.pageToken(),
	}
	if err := q.err(); err != nil {
		return err
	}
	p, err := s.deps.Rules.ListRules(c.Request().Context(), want)
	if err != nil {
		return err
	}
	page := rulePage{Rules: p.Rules}
	if page.Rules == nil {
		page.Rules = []rules.Rule{}
	}
	if n := len(p.Rules); p.More && n > 0 {
		page.NextPageToken = pageToken(p.Rules[n-1].ID)
	}
	return writeJSON(c, http.StatusOK, page)
}

// allRules reads all stored rules that filters select, page by page.
func (s *Server) allRules(ctx context.Context, filters map[string]string) ([]rules.Rule, error) {
	var all []rules.Rule
	q := rules.Query{Equal: filters, PageSize: maxPage}
	for {
		p, err := s.deps.Rules.ListRules(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, p.Rules...)
		if !p.More || len(p.Rules) == 0 {
			return all, nil
		}
		q.AfterID = p.Rules[len(p.Rules)-1].ID
	}
}

// exportRules sends a rules file that can be imported: all rules, pools and profiles, or
// the rules that filters select and the pools that they use.
func (s *Server) exportRules(c echo.Context) error {
	q, err := parseQuery(c, append([]string{"format"}, rules.Filters()...)...)
	if err != nil {
		return err
	}
	format, filters := q.oneOf("format", "yaml", "json"), q.filters()
	if err := q.err(); err != nil {
		return err
	}
	all, err := s.allRules(c.Request().Context(), filters)
	if err != nil {
		return err
	}
	pools, err := s.deps.Pools.List(c.Request().Context())
	if err != nil {
		return err
	}
	var profiles []profile.Profile
	if len(filters) == 0 {
		if profiles, err = s.deps.Profiles.List(c.Request().Context()); err != nil {
			return err
		}
	} else {
		used := make(map[string]bool, len(pools))
		for i := range all {
			if p := all[i].Pool; p != nil {
				used[*p] = true
			}
		}
		pools = slices.DeleteFunc(pools, func(p rules.Pool) bool { return !used[p.Name] })
	}
	h := c.Response().Header()
	if format == "json" {
		h.Set("Content-Disposition", `attachment; filename="rules.json"`)
		if all == nil {
			all = []rules.Rule{}
		}
		return writeJSON(c, http.StatusOK, struct {
			Pools    []rules.Pool      `json:"pools,omitempty"`
			Profiles []profile.Profile `json:"profiles,omitempty"`
			Rules    []rules.Rule      `json:"rules"`
		}{pools, profiles, all})
	}
	file, err := rulefile.Format(rules.File{Pools: pools, Profiles: profiles, Rules: all})
	if err != nil {
		return fmt.Errorf("format rules: %w", err)
	}
	h.Set("Content-Disposition", `attachment; filename="rules.yaml"`)
	return write(c, http.StatusOK, []string{"application/yaml"}, file)
}

// importPlan is the response to an import: the changes, or with dry_run the changes
// that it would make.
type importPlan struct {
	DryRun bool `json:"dry_run"`
	rules.Plan
	// Report is nil for a rules file.
	Report []envoyfile.Note `json:"report,omitempty"`
}

// decodeFile reads a rules file. Text that is neither JSON nor YAML is malformed.
func decodeFile(c echo.Context, body []byte) (rules.File, error) {
	if strings.HasPrefix(strings.ToLower(c.Request().Header.Get("Content-Type")), mediaJSON) {
		if err := startsObject(body); err != nil {
			return rules.File{}, err
		}
	}
	wanted, err := rulefile.Parse(body)
	var large *rulefile.TooLargeError
	if errors.As(err, &large) {
		return rules.File{}, reply.TooLarge.Problem(large.Error() + ".")
	}
	var invalid *field.ValidationError
	if errors.As(err, &invalid) && len(invalid.Fields) == 1 {
		if f := invalid.Fields[0]; f.Field == "file" || strings.HasPrefix(f.Field, "line ") {
			return rules.File{}, &malformedError{message: f.Field + ": " + f.Message}
		}
	}
	return wanted, err
}

// importRules imports the rules, pools and profiles of a file, all or nothing. With prune it deletes stored rules that
// are missing from the file, and stored pools and profiles if the file contains a list of them.
func (s *Server) importRules(c echo.Context) error {
	q, err := parseQuery(c, "dry_run", "prune", "format", "algorithm", "keep", "merge_domains", "calendar_months")
	if err != nil {
		return err
	}
	dry, prune := q.boolean("dry_run"), q.boolean("prune")
	envoy := importsEnvoy(q)
	if err := q.err(); err != nil {
		return err
	}
	if err := contentType(c, mediaJSON, "application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"); err != nil {
		return err
	}
	body, done, err := s.readFile(c, rulefile.MaxFile)
	if err != nil {
		return err
	}
	defer done()
	answer := importPlan{DryRun: dry != nil && *dry}
	var plan planner
	if envoy != nil {
		plan, err = envoy.read(body, s.deps.FailDefaults)
	} else {
		plan, err = s.readRules(c, body, prune != nil && *prune)
	}
	if err != nil {
		return err
	}
	if err := rules.CheckReason(actor(c).Reason); err != nil {
		return err
	}
	body = nil //nolint:wastedassign,ineffassign // frees a large file before its rules are stored
	for try := 1; ; try++ {
		current, err := s.storedFile(c)
		if err != nil {
			return err
		}
		if err := plan(current, &answer); err != nil {
			return err
		}
		if answer.DryRun || answer.Empty() {
			return writePlan(c, &answer)
		}
		err = s.deps.Writer.ApplyPlan(c.Request().Context(), actor(c), answer.Plan)
		if errors.Is(err, rules.ErrStale) && try < patchAttempts {
			continue
		}
		if err != nil {
			return err
		}
		s.changed(c)
		return writePlan(c, &answer)
	}
}

// planner plans an import over the stored rules.
type planner func(current rules.File, answer *importPlan) error

// readRules reads a rules file and returns what plans its import.
func (s *Server) readRules(c echo.Context, body []byte, prune bool) (planner, error) {
	wanted, err := decodeFile(c, body)
	if err != nil {
		return nil, err
	}
	s.deps.FailDefaults.FillAll(wanted.Rules)
	return func(current rules.File, answer *importPlan) error {
		if err := wanted.CheckPools(current.Pools); err != nil {
			return err
		}
		if err := wanted.CheckPatterns(current.Rules, prune); err != nil {
			return err
		}
		if err := wanted.CheckReplaces(current, prune); err != nil {
			return err
		}
		if err := wanted.CheckUnique(current, prune); err != nil {
			return err
		}
		answer.Plan = rules.MakeFilePlan(current, wanted, prune)
		s.deps.FailDefaults.NoteIn(&answer.Plan)
		return nil
	}, nil
}

// storedFile returns everything that a rules file may have.
func (s *Server) storedFile(c echo.Context) (f rules.File, err error) {
	if f.Rules, err = s.allRules(c.Request().Context(), nil); err != nil {
		return f, err
	}
	if f.Pools, err = s.deps.Pools.List(c.Request().Context()); err != nil {
		return f, err
	}
	f.Profiles, err = s.deps.Profiles.List(c.Request().Context())
	return f, err
}
