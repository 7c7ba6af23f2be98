package web

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"sluice/rules"
	"sluice/web/view"
)

// importing is a file and what it would do to the rules as they are.
type importing struct {
	text    string
	prune   bool
	plan    rules.Plan
	version int64
	// sum stands for the plan and the version of the rules on which it was made.
	sum string
	// reason is why, as it was typed.
	reason string
}

// planImport shows what a file would do, without doing it.
func (s *Server) planImport(v *visit) error {
	text, prune, err := v.importFile()
	if err != nil {
		return err
	}
	in, err := s.planOf(v, text, prune)
	if err != nil {
		return s.importErrors(v, text, prune, err)
	}
	return s.showPlan(v, http.StatusOK, in, "")
}

// importFile reads the form: a file that was uploaded, or else what was pasted.
func (v *visit) importFile() (text string, prune bool, err error) {
	r := v.Request()
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && kind == "multipart/form-data" {
		if err := r.ParseMultipartForm(rules.MaxFile); err != nil {
			return "", false, formError(err)
		}
		defer func() { _ = r.MultipartForm.RemoveAll() }()
		if f, head, err := r.FormFile("file"); err == nil {
			defer f.Close()
			if head.Size > 0 {
				body, err := io.ReadAll(io.LimitReader(f, rules.MaxFile+1))
				return string(body), r.PostForm.Get("prune") == "on", err
			}
		}
		return r.PostForm.Get("text"), r.PostForm.Get("prune") == "on", nil
	}
	form, err := v.form()
	return form.Get("text"), form.Get("prune") == "on", err
}

// planOf compares a file with the rules as they are.
func (s *Server) planOf(v *visit, text string, prune bool) (*importing, error) {
	text = strings.ReplaceAll(text, "\r\n", "\n") // as browsers send what a page carries along
	wanted, err := rules.ParseFile([]byte(text))
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
	if err := wanted.CheckPatterns(source.Rules, prune); err != nil {
		return nil, err
	}
	in := &importing{text: text, prune: prune, version: source.Version}
	in.plan = rules.MakeFilePlan(rules.File{Pools: source.Pools, Rules: source.Rules}, wanted, prune)
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(struct {
		Version int64
		Plan    *rules.Plan
	}{in.version, &in.plan}); err != nil {
		return nil, err
	}
	in.sum = hex.EncodeToString(h.Sum(nil))
	return in, nil
}

func (s *Server) showPlan(v *visit, status int, in *importing, note string) error {
	return v.page(status, view.PlanPage(v.frame("What the import does", pathImport), view.ImportPlan{
		Plan: &in.plan, Text: in.text, Prune: in.prune, Sum: in.sum, Version: in.version, Note: note, Reason: in.reason,
	}))
}

// importErrors shows the form again with what is wrong with the file.
func (s *Server) importErrors(v *visit, text string, prune bool, err error) error {
	var invalid *rules.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	return v.page(http.StatusUnprocessableEntity, view.TransferPage(v.frame("Import & export", pathImport), view.Transfer{
		Text: text, Prune: prune, Errors: invalid.Fields,
	}))
}
