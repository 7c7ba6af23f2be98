package transfer

import (
	"net/http"

	"sluice/rules"
	"sluice/rules/rulefile"
	"sluice/web/kit"
)

// export sends every rule, pool and profile as a rules file, which import reads back.
func (p *Pages) export(v *kit.Visit) error {
	source, err := p.Store.LoadAllRules(v.Ctx)
	if err != nil {
		return err
	}
	file, err := rulefile.Format(rules.File{Pools: source.Pools, Profiles: source.Profiles,
		Rules: source.Rules})
	if err != nil {
		return err
	}
	if err := v.Save(); err != nil {
		return err
	}
	v.Response().Header().Set("Content-Disposition", `attachment; filename="rules.yaml"`)
	return v.Blob(http.StatusOK, "application/yaml", file)
}
