package rulepages

import (
	"net/http"
	"net/url"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/kit"
	"sluice/web/view"
)

// rulesPerPage is how many rows a page of rules has.
const rulesPerPage = 50

// listRules shows the rules. Search, filters, order and page are in the URL, so that a view can be sent to a colleague.
// Invalid parameters are ignored.
func (p *Pages) listRules(v *kit.Visit) error {
	q := v.QueryParams()
	b := browseOf(q)
	page := kit.PageNumber(q)
	b.Offset = (page - 1) * rulesPerPage
	list, err := v.Browse(b)
	if err != nil {
		return err
	}
	m := RuleTable{
		Lines: p.withDenied(v, view.RuleLines(&list)), CanEdit: v.CanChange(access.RoleEditor),
		Here: v.Request().URL.RequestURI(), Query: view.NewQuery(kit.PathRules, q, append(ruleFilters(), "sort", "desc")...),
		Pager: view.Pager{Page: page, Per: rulesPerPage, Total: list.Total},
	}
	m.Narrowed = m.Query.Filtered(ruleFilters()...)
	return v.Page(http.StatusOK, rulesPage(v.Frame("Rules", kit.PathRules), m))
}

// ruleFilters are the parameters that narrow the list of rules.
func ruleFilters() []string { return []string{"q", "state", "mode", "fail_mode", "owner"} }

// browseOf reads search, filters and order.
func browseOf(q url.Values) rules.Browse {
	b := rules.Browse{
		Query: rules.Query{Text: q.Get("q"), Equal: map[string]string{}, PageSize: rulesPerPage},
		Sort:  kit.OneOf(q.Get("sort"), rules.SortColumns()...), Desc: q.Get("desc") == "1",
	}
	for _, name := range ruleFilters() {
		f := rules.FieldNamed(name)
		switch {
		case f == nil:
		case len(f.OneOf) > 0:
			b.Equal[name] = kit.OneOf(q.Get(name), f.OneOf...)
		default:
			b.Equal[name] = q.Get(name)
		}
	}
	switch q.Get("state") {
	case "on":
		b.Active = new(true)
	case "off":
		b.Active = new(false)
	}
	return b
}

// withDenied adds the denials of the last minute, if they are known: of all nodes, or of this one while the metrics of
// others cannot be read.
func (p *Pages) withDenied(v *kit.Visit, lines []view.RuleLine) []view.RuleLine {
	live := p.Fleet.Live(v.Ctx)
	if live.Err != nil && !live.Own {
		return lines
	}
	denied := make(map[string]int64, len(live.Rules))
	for i := range live.Rules {
		denied[live.Rules[i].Name] = live.Rules[i].Minute.Denied
	}
	for i := range lines {
		lines[i].Denied, lines[i].Known, lines[i].Own = denied[lines[i].Rule.Name], true, live.Own
	}
	return lines
}

// RuleTable is the list of rules.
type RuleTable struct {
	Lines []view.RuleLine
	Query view.Query
	// Narrowed means that a search or a filter is set.
	Narrowed bool
	Pager    view.Pager
	// CanEdit means that rules can be selected and changed. Here is the address to return to.
	CanEdit bool
	Here    string
}

// sampleRule is shown where there are no rules.
const sampleRule = `rules:
  - name: charges-per-user
    scope: user
    route: /v1/charges
    method: POST
    limit: 100
    window_ms: 60000`
