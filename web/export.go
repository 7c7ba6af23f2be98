package web

import (
	"net/http"

	"sluice/rules"
	"sluice/rules/rulefile"
)

// export sends every rule and pool as a rules file, which import reads back.
func (s *Server) export(v *visit) error {
	source, err := s.deps.Admin.Transfer.LoadAllRules(v.ctx)
	if err != nil {
		return err
	}
	file, err := rulefile.Format(rules.File{Pools: source.Pools, Rules: source.Rules})
	if err != nil {
		return err
	}
	if err := v.saveSession(); err != nil {
		return err
	}
	v.Response().Header().Set("Content-Disposition", `attachment; filename="rules.yaml"`)
	return v.Blob(http.StatusOK, "application/yaml", file)
}
