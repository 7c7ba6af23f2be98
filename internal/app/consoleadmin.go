package app

import (
	"context"

	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/web"
)

// administration is what the pages of people, tokens, the audit log, import and
// settings get.
func administration(cfg *config.Serve, db *database.DB, changed func(context.Context) bool) web.Admin {
	return web.Admin{
		People: db, Tokens: db, Log: db, Transfer: db, Changed: changed,
		Settings: func() []web.SettingGroup { return settingsShown(cfg) },
	}
}

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

var (
	_ web.People   = (*database.DB)(nil)
	_ web.Tokens   = (*database.DB)(nil)
	_ web.AuditLog = (*database.DB)(nil)
	_ web.Transfer = (*database.DB)(nil)
)
