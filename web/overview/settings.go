package overview

import (
	"net/http"

	"sluice/web/kit"
)

// settings shows what this node runs with; changing it needs a restart, so there
// is nothing to edit.
func (p *Pages) settings(v *kit.Visit) error {
	node := p.Node()
	return v.Page(http.StatusOK, settingsPage(v.Frame("Settings", kit.PathSettings), node.Status, p.Settings()))
}

// SettingGroup are the settings of one area.
type SettingGroup struct {
	Name     string
	Settings []Setting
}

// Setting is one setting as it is in force. A secret's Value says only whether
// there is one.
type Setting struct {
	Flag, Env, Value, Help string
	// Default: nobody has set it.
	Default bool
}
