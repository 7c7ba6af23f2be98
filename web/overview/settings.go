package overview

import (
	"net/http"
	"slices"
	"strings"

	"sluice/internal/history"
	"sluice/web/kit"
	"sluice/web/view"
)

// settings shows the settings of this node. Changing one needs a restart, so there is nothing to edit.
func (p *Pages) settings(v *kit.Visit) error {
	q := view.NewQuery(kit.PathSettings, v.QueryParams(), "q", "only")
	node := p.Node()
	return v.Page(http.StatusOK, settingsPage(v.Frame("Settings", kit.PathSettings), SettingsPage{Node: node.Status,
		Query: q, Groups: matching(p.Settings(), q.Get("q"), q.Get("only") == onlyChanged)}))
}

// onlyChanged is the filter for settings that do not have their default.
const onlyChanged = "changed"

var settingChoices = []view.Choice{{"", "All settings"}, {onlyChanged, "Changed only"}}

// SettingsPage is the page of settings.
type SettingsPage struct {
	Node   history.Status
	Query  view.Query
	Groups []SettingGroup
}

// matching are the settings whose group, flag, variable, value and meaning contain each word of the text, in either
// case, and the groups that have any. changed leaves out those that have their default.
func matching(groups []SettingGroup, text string, changed bool) (found []SettingGroup) {
	words := strings.Fields(strings.ToLower(text))
	for _, g := range groups {
		kept := SettingGroup{Name: g.Name}
		for _, s := range g.Settings {
			all := strings.ToLower(strings.Join([]string{g.Name, s.Flag, s.Env, s.Value, s.Help}, "\n"))
			lacks := func(word string) bool { return !strings.Contains(all, word) }
			if (!changed || !s.Default) && !slices.ContainsFunc(words, lacks) {
				kept.Settings = append(kept.Settings, s)
			}
		}
		if len(kept.Settings) > 0 {
			found = append(found, kept)
		}
	}
	return found
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
