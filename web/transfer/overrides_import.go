package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/rulefile"
	"sluice/web/kit"
	"sluice/web/view"
)

// importForm is the form to import overrides.
func (p *Pages) importForm(v *kit.Visit) error {
	r, err := p.ruleOf(v)
	if err != nil {
		return err
	}
	return overrideImport(v, http.StatusOK, OverrideImport{Rule: r})
}

func overrideImport(v *kit.Visit, status int, m OverrideImport) error {
	return v.Page(status, overrideImportPage(v.Frame("Import overrides of "+m.Rule.Name, kit.PathRules), m))
}

// importOverrides shows the plan of a file of overrides, or applies it.
func (p *Pages) importOverrides(v *kit.Visit) error {
	r, err := p.ruleOf(v)
	if err != nil {
		return err
	}
	f, err := p.importFile(v)
	var done rules.OverrideImported
	in := rules.OverrideImport{RuleID: r.ID, DryRun: true}
	m := OverrideImport{Rule: r}
	if f == nil {
		return err
	}
	defer f.done()
	if err == nil {
		in.Prune = f.Form.Get("prune") == "on"
		m.Of = fileOf(f.Text, in.Prune)
		if f.Form.Get("do") == "apply" {
			in.DryRun, in.Expect = false, f.Form.Get("plan")
			if in.Expect == "" || f.Form.Get("of") != m.Of {
				err = rules.ErrStale
			}
		}
	}
	if err == nil {
		done, err = p.runOverrides(v, f, in)
	}
	if errors.Is(err, rules.ErrStale) {
		m.Problem = "The overrides or the file changed after the plan was shown, so nothing was changed. This is the " +
			"current plan."
		in.DryRun, in.Expect = true, ""
		done, err = p.runOverrides(v, f, in)
	}
	f.Form.Set("csv", f.shown())
	m.Form, m.Upload = view.NewForm(f.Form, nil), f.upload
	switch {
	case kit.FieldsOf(err) != nil:
		m.Errors = kit.FieldsOf(err)
		return overrideImport(v, http.StatusUnprocessableEntity, m)
	case errors.Is(err, rules.ErrUnavailable):
		m.Problem = kit.NotSaved(err)
		return overrideImport(v, http.StatusServiceUnavailable, m)
	case err != nil:
		return err
	case m.Problem != "":
		m.Plan = &done
		return overrideImport(v, http.StatusConflict, m)
	case in.DryRun:
		m.Plan = &done
		return overrideImport(v, http.StatusOK, m)
	}
	p.uploads.drop(p.Now(), v.User.ID)
	v.WaitInForce(p.Changed)
	v.Flash("Imported: %s created, %s changed, %s deleted, %s unchanged.",
		view.Count(done.Created), view.Count(done.Updated), view.Count(done.Deleted), view.Count(done.Unchanged))
	return v.SeeOther(view.RulePath(r.ID) + "/overrides")
}

// ruleOf is the rule of the path.
func (p *Pages) ruleOf(v *kit.Visit) (rules.Rule, error) {
	id, err := v.ID("id")
	if err != nil {
		return rules.Rule{}, err
	}
	return p.Store.GetRule(v.Ctx, id)
}

// fileOf is a hash of a file and of whether it prunes.
func fileOf(text string, prune bool) string {
	sum := sha256.Sum256([]byte(strconv.FormatBool(prune) + text))
	return hex.EncodeToString(sum[:])
}

// runOverrides parses and imports a file, or returns all of its errors at once: syntax errors and invalid values.
func (p *Pages) runOverrides(v *kit.Visit, f *importFile, in rules.OverrideImport) (rules.OverrideImported, error) {
	var unread *field.ValidationError
	var err error
	if in.Items, err = rulefile.ParseOverrides([]byte(f.Text)); err != nil &&
		(!errors.As(err, &unread) || in.Items == nil) {
		return rules.OverrideImported{}, err
	}
	in.DryRun = in.DryRun || unread != nil
	done, err := p.Store.ImportOverrides(v.Ctx, v.Actor(), in, p.Options())
	if unread == nil {
		return done, err
	}
	var refused *field.ValidationError
	if errors.As(err, &refused) {
		unread.Fields = append(unread.Fields, refused.Fields...)
		slices.SortStableFunc(unread.Fields, func(a, b field.Problem) int { return faultLine(a) - faultLine(b) })
		unread.Fields = unread.Fields[:min(len(unread.Fields), rules.MaxOverrideErrors)]
	}
	return done, unread
}

// faultLine is the line number of an error such as line[17].limit.
func faultLine(f field.Problem) int {
	_, rest, _ := strings.Cut(f.Field, "[")
	number, _, _ := strings.Cut(rest, "]")
	n, _ := strconv.Atoi(number)
	return n
}

// OverrideImport is the page of an import of overrides.
type OverrideImport struct {
	Rule   rules.Rule
	Form   view.Form
	Errors []field.Problem
	// Problem is an error that is not about the file.
	Problem string
	// Plan is the plan, nil before the preview. Upload is the ID of the file that is stored on the node, "" if the page
	// carries it.
	Plan   *rules.OverrideImported
	Upload string
	// Of is the hash of the file and the options of the plan.
	Of string
}

// faultWords introduces the list of errors.
func faultWords(n int) string {
	if n >= rules.MaxOverrideErrors {
		return "The first errors in the file:"
	}
	return view.Plural(int64(n), "error") + " in the file:"
}
