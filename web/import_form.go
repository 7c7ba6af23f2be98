package web

import (
	"net/http"

	"sluice/web/view"
)

// transferForm is the page of export and import.
func (s *Server) transferForm(v *visit) error {
	source, err := s.deps.Admin.Transfer.LoadAllRules(v.ctx)
	if err != nil {
		return err
	}
	return v.page(http.StatusOK, view.TransferPage(v.frame("Import & export", pathImport), view.Transfer{Rules: len(source.Rules), Pools: len(source.Pools)}))
}
