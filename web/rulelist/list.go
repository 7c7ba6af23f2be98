package rulelist

import (
	"net/http"
	"net/url"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/web/kit"
	"sluice/web/view"
)

// perPage is how many rows a page of rules has.
const perPage = 50

// list shows the rules. Search, filters, order and page are in the URL, so that a view can be sent to a colleague.
// Invalid parameters are ignored.
func (p *Pages) list(v *kit.Visit) error {
	q := v.QueryParams()
	b := p.selection(q)
	page := kit.PageNumber(q)
	b.Offset = (page - 1) * perPage
	live := p.Fleet.Live(v.Ctx)
	list, err := p.find(v, q, b, &live)
	if err != nil {
		return err
	}
	m := Table{
		Rows: withFigures(view.RuleLines(&list), &live), CanEdit: v.CanChange(access.RoleEditor),
		Here:  v.Request().URL.RequestURI(),
		Query: view.NewQuery(kit.PathRules, q, append(filters(), "sort", "desc", "group")...),
		Pager: view.Pager{Page: page, Per: perPage, Total: list.Total},
	}
	m.Sorts, m.Grouped, m.Initial = m.Query, q.Get("group") == "owner", "name"
	if m.Grouped {
		m.Sorts, m.Initial = view.NewQuery(kit.PathRules, q, filters()...), ""
	}
	if m.Method, m.Path, m.Asked = routeAsked(q.Get("q")); m.Asked && !m.Grouped {
		m.Initial = ""
	}
	m.Narrowed = m.Query.Filtered(filters()...)
	return v.Page(http.StatusOK, listPage(v.Frame("Rules", kit.PathRules), m))
}

// find returns a page of the list.
func (p *Pages) find(v *kit.Visit, q url.Values, b rules.Browse, live *history.Live) (rules.Listing, error) {
	switch {
	case q.Get("group") == "owner":
		b.Sort, b.Desc = "owner", false
	case q.Get("sort") == sortDenied:
		return browseDenied(v, b, mostDenied(p.Sets.Load(), live))
	}
	return v.Browse(b)
}

// sortDenied is the order by denials of the last minute, the most denied first.
const sortDenied = "denied"

// filters are the parameters that narrow the list of rules.
func filters() []string { return []string{"q", "state", "mode", "fail_mode", "owner"} }

// browseOf reads search, filters and order.
func browseOf(q url.Values) rules.Browse {
	b := rules.Browse{
		Query: rules.Query{Text: q.Get("q"), Equal: map[string]string{}, PageSize: perPage},
		Sort:  kit.OneOf(q.Get("sort"), rules.SortColumns()...), Desc: q.Get("desc") == "1",
	}
	for _, name := range filters() {
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

// Table is the list of rules.
type Table struct {
	Rows  []Row
	Query view.Query
	// Sorts is the query that the heads of columns change, Initial the column by which the table is sorted without one.
	Sorts   view.Query
	Initial string
	// Narrowed means that a search or a filter is set, Grouped that the rules are grouped by owner.
	Narrowed, Grouped bool
	// Asked means that the search is for the rules of a request with Method and Path.
	Asked        bool
	Method, Path string
	Pager        view.Pager
	// CanEdit means that rules can be selected and changed. Here is the address to return to.
	CanEdit bool
	Here    string
}

// Group are the rows of one owner.
type Group struct {
	// Owner is "" for rules without one.
	Owner string
	Rows  []Row
}

// groups divides the rows by owner. They are in order of owner if Grouped is set; otherwise there is one group.
func (m *Table) groups() []Group {
	if !m.Grouped {
		return []Group{{Rows: m.Rows}}
	}
	var out []Group
	for i := range m.Rows {
		owner := ownerOf(m.Rows[i].Rule)
		if len(out) == 0 || out[len(out)-1].Owner != owner {
			out = append(out, Group{Owner: owner})
		}
		out[len(out)-1].Rows = append(out[len(out)-1].Rows, m.Rows[i])
	}
	return out
}

func ownerOf(r *rules.Rule) string {
	if r.Owner == nil {
		return ""
	}
	return *r.Owner
}
