package web

import (
	"net/http"

	"sluice/web/view"
)

// settings shows what this node runs with; changing it needs a restart, so there
// is nothing to edit.
func (s *Server) settings(v *visit) error {
	node := s.deps.Node()
	return v.page(http.StatusOK, view.SettingsPage(v.frame("Settings", pathSettings), node.Status, s.deps.Admin.Settings()))
}
