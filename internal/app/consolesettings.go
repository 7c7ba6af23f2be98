package app

import (
	"sluice/internal/config"
	"sluice/web"
)

// settingsShown are the settings of this node for people to see.
func settingsShown(cfg *config.Serve) []web.SettingGroup {
	var out []web.SettingGroup
	for _, v := range config.Values(*cfg) {
		if len(out) == 0 || out[len(out)-1].Name != v.Group {
			out = append(out, web.SettingGroup{Name: v.Group})
		}
		g := &out[len(out)-1]
		g.Settings = append(g.Settings, web.Setting{Flag: v.Flag, Env: v.Env, Value: v.Value, Help: v.Help, Default: v.IsDefault})
	}
	return out
}
