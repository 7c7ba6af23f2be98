package overview

import (
	"net/http"

	"sluice/web/kit"
)

// settings shows the settings of this node. Changing one needs a restart, so there is nothing to edit.
func (p *Pages) settings(v *kit.Visit) error {
	node := p.Node()
	return v.Page(http.StatusOK, settingsPage(v.Frame("Settings", kit.PathSettings), node.Status, p.Settings()))
}

// SettingGroup are the settings of one area.
type SettingGroup struct {
	Name     string
	Settings []Setting
}

// Setting is a setting in force. The Value of a secret only says whether it is set.
type Setting struct {
	Flag, Env, Value, Help string
	// Default means that the setting has its default.
	Default bool
}
