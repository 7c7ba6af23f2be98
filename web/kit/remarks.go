package kit

import (
	"cmp"
	"fmt"
	"net/url"

	"sluice/internal/access"
	"sluice/internal/attention"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/web/view"
)

// Remarks are findings with what can be done about them.
func (v *Visit) Remarks(list []attention.Finding) view.Remarks {
	out := view.Remarks{Refusal: v.refusal(access.RoleEditor), Primary: v.AtPrimary(PathHome)}
	for _, f := range list {
		out.List = append(out.List, v.remark(f))
	}
	return out
}

func (v *Visit) remark(f attention.Finding) view.Remark {
	r := view.Remark{Finding: f}
	switch {
	case f.Outage != nil:
		r.Explain = PathIncidents
	case f.Rise != nil:
		r.RollBack = view.RulePath(f.Rule.ID) + "/rollback?to=" + view.Digits(f.Rise.Version-1)
		r.Explain = cmp.Or(v.explainDenial(f.Rule.Name, ""), view.RulePath(f.Rule.ID)+"#doctor")
	default:
		r.Explain = cmp.Or(v.explainDenial(f.Rule.Name, f.Key.Key), view.KeyLink(f.Rule.Name, f.Key.Key))
		// An override cannot name every key, for example not a cut one.
		if _, err := match.ReadOverrideKey(f.Rule, v.kit.Options(), f.Key.Key); err == nil {
			r.Block = view.BlockURL(f.Rule, f.Key.Key)
			if !f.Rule.Unlimited {
				r.Raise = view.RaiseURL(f.Rule, f.Key.Key)
			}
		}
	}
	return r
}

// explainDenial returns the address of the explanation of the newest denial of a rule, of one key unless key is "". It
// returns "" if no denial is kept.
func (v *Visit) explainDenial(rule, key string) string {
	f := history.Filter{Outcome: history.Denied, Rule: rule, Key: key, WholeKey: key != "", Mode: rules.ModeEnforce}
	newest, _ := v.kit.Denials.Denials(v.Ctx, f, 1) // with an error, these are denials of this node
	if len(newest) == 0 {
		return ""
	}
	return PathExplain + "?" + url.Values{"denial": {newest[0].ID}}.Encode()
}

// refusal says why a page does not offer changes that need a role, "" if it does.
func (v *Visit) refusal(role access.Role) string {
	switch {
	case v.Replica != nil:
		return "Nothing can be changed here: the rules database of this region is a read replica."
	case v.DatabaseDown:
		return "Nothing can be changed while the rules database is unreachable."
	case !v.User.Role.Includes(role):
		return fmt.Sprintf("Changing something needs the role %s. You have the role %s.", role, v.User.Role)
	}
	return ""
}
