package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"sluice/rules"
	"sluice/rules/envoyfile"
	"sluice/rules/field"
	"sluice/rules/rulefile"
	"sluice/web/kit"
	"sluice/web/view"
)

// importing is a file with its plan for the current rules.
type importing struct {
	file *importFile
	how  How
	plan rules.Plan
	// report is about configuration of Envoy.
	report  []envoyfile.Note
	version int64
	// sum is a hash of the plan and of the version of the rules it is for.
	sum string
}

// planImport shows the plan of a file without applying it.
func (p *Pages) planImport(v *kit.Visit) error {
	f, err := p.importFile(v)
	if err != nil {
		return p.importErrors(v, f, err)
	}
	defer f.done()
	in, err := p.planOf(v, f)
	if err != nil {
		return p.importErrors(v, f, err)
	}
	return p.showPlan(v, http.StatusOK, in, "")
}

// planOf compares a file with the current rules.
func (p *Pages) planOf(v *kit.Visit, f *importFile) (*importing, error) {
	in := &importing{file: f, how: howOf(f.Form)}
	planOf, err := in.read(p.FailDefaults)
	var large *rulefile.TooLargeError
	if errors.As(err, &large) {
		return nil, &kit.Problem{Status: http.StatusRequestEntityTooLarge, Title: "Too large", Detail: large.Error() + "."}
	}
	if err != nil {
		return nil, err
	}
	source, err := p.Store.LoadAllRules(v.Ctx)
	if err != nil {
		return nil, err
	}
	in.version = source.Version
	if in.plan, err = planOf(rules.File{Pools: source.Pools, Profiles: source.Profiles, Rules: source.Rules}); err != nil {
		return nil, err
	}
	in.sum, err = sumOf(in.version, &in.plan)
	return in, err
}

// read reads the file and returns what plans its import.
func (in *importing) read(defaults rules.FailDefaults) (func(stored rules.File) (rules.Plan, error), error) {
	if in.how.Format == formatEnvoy {
		file, err := envoyfile.Parse(envoyfile.Split([]byte(in.file.Text)), envoyfile.Options{
			Algorithm: in.how.Algorithm, MergeDomains: in.how.Merge, CalendarMonths: in.how.Months})
		if err != nil {
			return nil, err
		}
		return func(stored rules.File) (rules.Plan, error) {
			in.report = file.Notes(stored.Rules)
			plan, err := file.Plan(stored.Rules, false)
			if err == nil {
				defaults.NoteIn(&plan)
			}
			return plan, err
		}, nil
	}
	wanted, err := rulefile.Parse([]byte(in.file.Text))
	if err != nil {
		return nil, err
	}
	defaults.FillAll(wanted.Rules)
	return func(stored rules.File) (rules.Plan, error) {
		if err := wanted.CheckPools(stored.Pools); err != nil {
			return rules.Plan{}, err
		}
		if err := wanted.CheckPatterns(stored.Rules, in.how.Prune); err != nil {
			return rules.Plan{}, err
		}
		if err := wanted.CheckReplaces(stored, in.how.Prune); err != nil {
			return rules.Plan{}, err
		}
		if err := wanted.CheckUnique(stored, in.how.Prune); err != nil {
			return rules.Plan{}, err
		}
		plan := rules.MakeFilePlan(stored, wanted, in.how.Prune)
		defaults.NoteIn(&plan)
		return plan, nil
	}, nil
}

// sumOf is a hash of a plan. It encodes the plan element by element, because the JSON of a large plan takes several
// times the memory of its rules.
func sumOf(version int64, p *rules.Plan) (string, error) {
	h := sha256.New()
	err := json.NewEncoder(h).Encode([]any{version, p.Pools, p.Profiles, len(p.Create), len(p.Update), len(p.Delete),
		len(p.Unchanged), p.Untouched})
	err = errors.Join(err, sumList(h, p.Create), sumList(h, p.Update), sumList(h, p.Delete))
	return hex.EncodeToString(h.Sum(nil)), err
}

func sumList[T any](w io.Writer, list []T) error {
	e := json.NewEncoder(w)
	for i := range list {
		if err := e.Encode(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pages) showPlan(v *kit.Visit, status int, in *importing, note string) error {
	return v.Page(status, planPage(v.Frame("Import plan", kit.PathImport), ImportPlan{
		Plan: &in.plan, Text: in.file.shown(), Upload: in.file.upload, How: in.how, Report: in.report, Sum: in.sum,
		Version: in.version, Note: note, Reason: in.file.Form.Get("reason"),
	}))
}

// importErrors shows the form again with the errors of the file.
func (p *Pages) importErrors(v *kit.Visit, f *importFile, err error) error {
	fields := kit.FieldsOf(err)
	if fields == nil {
		return err
	}
	return v.Page(http.StatusUnprocessableEntity, transferPage(v.Frame("Import & export", kit.PathImport), Transfer{
		Text: f.shown(), How: howOf(f.Form), Errors: fields,
	}))
}

// ImportPlan is the page of a plan. Sum is a hash of the plan and of Version, the version of the rules it is for. The
// page carries Text, or the ID of the Upload that is stored on the node.
type ImportPlan struct {
	Plan              *rules.Plan
	Text, Upload, Sum string
	How               How
	Report            []envoyfile.Note
	Version           int64
	Note              string
	// Reason is the typed reason.
	Reason string
}

// planWords summarizes a plan: "2 created, 1 deleted".
func planWords(p *rules.Plan) string {
	var out []string
	for _, part := range []struct {
		n    int
		what string
	}{{creations(p), "created"}, {updates(p), "changed"}, {deletions(p), "deleted"}} {
		if part.n > 0 {
			out = append(out, view.Count(int64(part.n))+" "+part.what)
		}
	}
	if len(out) == 0 {
		return "nothing changed"
	}
	return strings.Join(out, ", ")
}

// shownRules is how many rules of each part of a plan are listed.
const shownRules = 200

// creations, updates, deletions and otherChanges count what a plan does.
func creations(p *rules.Plan) int {
	return len(p.Create) + len(p.Pools.Create) + len(p.Profiles.Create)
}

func updates(p *rules.Plan) int { return len(p.Update) + len(p.Pools.Update) + len(p.Profiles.Update) }

func deletions(p *rules.Plan) int {
	return len(p.Delete) + len(p.Pools.Delete) + len(p.Profiles.Delete)
}

func otherChanges(p *rules.Plan) int { return creations(p) + updates(p) }

// planLine is a pool or profile in a plan.
type planLine struct {
	Noun, Name, About string
	Changes           []field.Change
}

// The pools and profiles that a plan creates, updates and deletes.
func created(p *rules.Plan) (lines []planLine) {
	for i := range p.Pools.Create {
		pool := &p.Pools.Create[i]
		lines = append(lines, planLine{Noun: "pool", Name: pool.Name,
			About: view.Count(pool.Limit) + " per " + view.Window(pool.WindowMS)})
	}
	for i := range p.Profiles.Create {
		profile := &p.Profiles.Create[i]
		lines = append(lines, planLine{Noun: "profile", Name: profile.Name, About: profile.Summary()})
	}
	return lines
}

func updated(p *rules.Plan) (lines []planLine) {
	for i := range p.Pools.Update {
		e := &p.Pools.Update[i]
		lines = append(lines, planLine{Noun: "pool", Name: e.New.Name, Changes: e.Changes})
	}
	for i := range p.Profiles.Update {
		e := &p.Profiles.Update[i]
		lines = append(lines, planLine{Noun: "profile", Name: e.New.Name, Changes: e.Changes})
	}
	return lines
}

func deleted(p *rules.Plan) (lines []planLine) {
	for i := range p.Pools.Delete {
		lines = append(lines, planLine{Noun: "pool", Name: p.Pools.Delete[i].Name})
	}
	for i := range p.Profiles.Delete {
		lines = append(lines, planLine{Noun: "profile", Name: p.Profiles.Delete[i].Name})
	}
	return lines
}

// deletionWords counts what a plan deletes.
func deletionWords(p *rules.Plan) string {
	var out []string
	if n := len(p.Delete); n > 0 {
		out = append(out, view.Plural(int64(n), "rule"))
	}
	if n := len(p.Pools.Delete); n > 0 {
		out = append(out, view.Plural(int64(n), "pool"))
	}
	if n := len(p.Profiles.Delete); n > 0 {
		out = append(out, view.Plural(int64(n), "profile"))
	}
	return strings.Join(out, " and ")
}

// missingWords counts the rules that are not in the file.
func missingWords(p *rules.Plan) string {
	if p.Untouched == 0 {
		return ""
	}
	return view.Count(int64(p.Untouched)) + " not in the file"
}

// transferForm is the page of export and import.
func (p *Pages) transferForm(v *kit.Visit) error {
	return v.Page(http.StatusOK, transferPage(v.Frame("Import & export", kit.PathImport), Transfer{}))
}

// Transfer is the page of export and import.
type Transfer struct {
	// Text, How and Errors are of an invalid file.
	Text   string
	How    How
	Errors []field.Problem
}
