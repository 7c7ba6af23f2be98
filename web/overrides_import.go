package web

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"sluice/rules"
	"sluice/rules/rulefile"
	"sluice/web/view"
)

// importForm is the form for many overrides at once.
func (s *Server) importForm(v *visit) error {
	r, err := s.ruleOf(v)
	if err != nil {
		return err
	}
	return v.overrideImport(http.StatusOK, view.OverrideImport{Rule: r})
}

func (v *visit) overrideImport(status int, m view.OverrideImport) error {
	return v.page(status, view.OverrideImportPage(v.frame("Import overrides of "+m.Rule.Name, pathRules), m))
}

// importOverrides says what a file of overrides would do, or does what it said.
func (s *Server) importOverrides(v *visit) error {
	r, err := s.ruleOf(v)
	if err != nil {
		return err
	}
	f, err := s.importFile(v, "csv")
	var done rules.OverrideImported
	in := rules.OverrideImport{RuleID: r.ID, DryRun: true}
	m := view.OverrideImport{Rule: r}
	if f == nil {
		return err
	}
	defer f.done()
	if err == nil {
		in.Prune = f.form.Get("prune") == "on"
		m.Of = fileOf(f.text, in.Prune)
		if f.form.Get("do") == "apply" {
			in.DryRun, in.Expect = false, f.form.Get("plan")
			if in.Expect == "" || f.form.Get("of") != m.Of {
				err = rules.ErrStale
			}
		}
	}
	if err == nil {
		done, err = s.runOverrides(v, f, in)
	}
	if errors.Is(err, rules.ErrStale) {
		m.Problem = "The overrides or the file have changed since the plan was shown, so nothing was done. This is the plan now."
		in.DryRun, in.Expect = true, ""
		done, err = s.runOverrides(v, f, in)
	}
	f.form.Set("csv", f.shown())
	m.Form, m.Upload = view.NewForm(f.form, nil), f.upload
	var invalid *rules.ValidationError
	switch {
	case errors.As(err, &invalid):
		m.Errors = invalid.Fields
		return v.overrideImport(http.StatusUnprocessableEntity, m)
	case errors.Is(err, rules.ErrUnavailable):
		m.Problem = problemOf(err).detail + notSaved
		return v.overrideImport(http.StatusServiceUnavailable, m)
	case err != nil:
		return err
	case m.Problem != "":
		m.Plan = &done
		return v.overrideImport(http.StatusConflict, m)
	case in.DryRun:
		m.Plan = &done
		return v.overrideImport(http.StatusOK, m)
	}
	s.uploads.drop(v.user.ID)
	s.changed(v, s.deps.Changed)
	v.flash("Imported: %d new, %d changed, %d deleted, %d unchanged.", done.Created, done.Updated, done.Deleted, done.Unchanged)
	return v.redirect(rulePath(r.ID) + "/overrides")
}

// fileOf stands for a file and whether it prunes.
func fileOf(text string, prune bool) string {
	sum := sha256.Sum256([]byte(strconv.FormatBool(prune) + text))
	return hex.EncodeToString(sum[:])
}

// runOverrides reads a file and carries it out, or tells everything that is wrong
// with it at once: what cannot be read and what is not allowed.
func (s *Server) runOverrides(v *visit, f *importFile, in rules.OverrideImport) (rules.OverrideImported, error) {
	var unread *rules.ValidationError
	var err error
	if in.Items, err = rulefile.ParseOverrides([]byte(f.text)); err != nil && (!errors.As(err, &unread) || in.Items == nil) {
		return rules.OverrideImported{}, err
	}
	in.DryRun = in.DryRun || unread != nil
	done, err := s.deps.Live.OverrideWriter.ImportOverrides(v.ctx, v.actor(), in, s.setOptions())
	if unread == nil {
		return done, err
	}
	var refused *rules.ValidationError
	if errors.As(err, &refused) {
		unread.Fields = append(unread.Fields, refused.Fields...)
		slices.SortStableFunc(unread.Fields, func(a, b rules.FieldError) int { return faultLine(a) - faultLine(b) })
		unread.Fields = unread.Fields[:min(len(unread.Fields), rules.MaxOverrideErrors)]
	}
	return done, unread
}

// faultLine is the line that a fault such as line[17].limit is in.
func faultLine(f rules.FieldError) int {
	_, rest, _ := strings.Cut(f.Field, "[")
	number, _, _ := strings.Cut(rest, "]")
	n, _ := strconv.Atoi(number)
	return n
}
