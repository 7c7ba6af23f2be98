package web

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"sluice/rules"
	"sluice/rules/rulefile"
	"sluice/web/view"
)

// importing is a file and what it would do to the rules as they are.
type importing struct {
	file    *importFile
	prune   bool
	plan    rules.Plan
	version int64
	// sum stands for the plan and the version of the rules on which it was made.
	sum string
}

// planImport shows what a file would do, without doing it.
func (s *Server) planImport(v *visit) error {
	f, err := s.importFile(v, "text")
	if err != nil {
		return s.importErrors(v, f, err)
	}
	defer f.done()
	in, err := s.planOf(v, f)
	if err != nil {
		return s.importErrors(v, f, err)
	}
	return s.showPlan(v, http.StatusOK, in, "")
}

// planOf compares a file with the rules as they are.
func (s *Server) planOf(v *visit, f *importFile) (*importing, error) {
	wanted, err := rulefile.Parse([]byte(f.text))
	var large *rulefile.TooLargeError
	if errors.As(err, &large) {
		return nil, &problem{status: http.StatusRequestEntityTooLarge, title: "Too large", detail: large.Error() + "."}
	}
	if err != nil {
		return nil, err
	}
	source, err := s.deps.Admin.Transfer.LoadAllRules(v.ctx)
	if err != nil {
		return nil, err
	}
	if err := wanted.CheckPools(source.Pools); err != nil {
		return nil, err
	}
	in := &importing{file: f, prune: f.form.Get("prune") == "on", version: source.Version}
	if err := wanted.CheckPatterns(source.Rules, in.prune); err != nil {
		return nil, err
	}
	in.plan = rules.MakeFilePlan(rules.File{Pools: source.Pools, Rules: source.Rules}, wanted, in.prune)
	in.sum, err = sumOf(in.version, &in.plan)
	return in, err
}

// sumOf stands for a plan. It writes element by element: the text of a large plan
// takes several times the memory of its rules.
func sumOf(version int64, p *rules.Plan) (string, error) {
	h := sha256.New()
	err := json.NewEncoder(h).Encode([]any{version, p.Pools, len(p.Create), len(p.Update), len(p.Delete), len(p.Unchanged), p.Untouched})
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

func (s *Server) showPlan(v *visit, status int, in *importing, note string) error {
	return v.page(status, view.PlanPage(v.frame("Import plan", pathImport), view.ImportPlan{
		Plan: &in.plan, Text: in.file.shown(), Upload: in.file.upload, Prune: in.prune, Sum: in.sum, Version: in.version, Note: note,
		Reason: in.file.form.Get("reason"),
	}))
}

// importErrors shows the form again with what is wrong with the file.
func (s *Server) importErrors(v *visit, f *importFile, err error) error {
	var invalid *rules.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	return v.page(http.StatusUnprocessableEntity, view.TransferPage(v.frame("Import & export", pathImport), view.Transfer{
		Text: f.shown(), Prune: f.form.Get("prune") == "on", Errors: invalid.Fields,
	}))
}
