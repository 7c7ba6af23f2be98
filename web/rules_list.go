package web

import (
	"net/http"
	"net/url"
	"strconv"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/view"
)

// rulesPerPage is how many rows a page of rules has.
const rulesPerPage = 50

// lastPage bounds page numbers; beyond it there is nothing anyway.
const lastPage = 1_000_000

// listRules shows the rules, searched, filtered, sorted and paged by what the
// URL says, so that a view can be sent to a colleague. What the URL says wrongly
// is ignored.
func (s *Server) listRules(v *visit) error {
	q := v.QueryParams()
	b := browseOf(q)
	page := pageNumber(q)
	b.Offset = (page - 1) * rulesPerPage
	list, err := s.browse(v, b)
	if err != nil {
		return err
	}
	m := view.RuleTable{
		Lines: s.withDenied(v, ruleLines(&list)), CanEdit: v.canChange(access.RoleEditor), Here: v.Request().URL.RequestURI(), Query: view.NewQuery(pathRules, q, append(ruleFilters(), "sort", "desc")...),
		Pager: view.Pager{Page: page, Per: rulesPerPage, Total: list.Total},
	}
	m.Narrowed = m.Query.Filtered(ruleFilters()...)
	return v.page(http.StatusOK, view.RulesPage(v.frame("Rules", pathRules), m))
}

// ruleFilters are the parameters that narrow the list of rules.
func ruleFilters() []string { return append(rules.Filters(), "fail_mode", "state", "q") }

// browseOf reads search, filters and order.
func browseOf(q url.Values) rules.Browse {
	b := rules.Browse{
		Query: rules.Query{Text: q.Get("q"), Equal: map[string]string{}, PageSize: rulesPerPage},
		Sort:  oneOf(q.Get("sort"), rules.SortColumns()...), Desc: q.Get("desc") == "1",
	}
	for _, name := range ruleFilters() {
		f := rules.FieldNamed(name)
		switch {
		case f == nil:
		case len(f.OneOf) > 0:
			b.Equal[name] = oneOf(q.Get(name), f.OneOf...)
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

// pageNumber reads page, from 1.
func pageNumber(q url.Values) int {
	n, err := strconv.Atoi(q.Get("page"))
	if err != nil {
		return 1
	}
	return min(max(n, 1), lastPage)
}

// oneOf is value if it is among the allowed ones, else "".
func oneOf(value string, allowed ...string) string {
	for _, a := range allowed {
		if value == a {
			return value
		}
	}
	return ""
}

// withDenied adds how much each rule denied in the last minute, where that is
// known: on all nodes, or on this one while the others' figures cannot be read.
func (s *Server) withDenied(v *visit, lines []view.RuleLine) []view.RuleLine {
	live := s.deps.Fleet.Live(v.ctx)
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
