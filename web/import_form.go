package web

import (
	"net/http"

	"sluice/web/view"
)

// transferForm is the page of export and import.
func (s *Server) transferForm(v *visit) error {
	return v.page(http.StatusOK, view.TransferPage(v.frame("Import & export", pathImport), view.Transfer{}))
}
