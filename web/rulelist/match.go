package rulelist

import (
	"net/url"
	"strings"

	"sluice/rules"
	"sluice/rules/route"
	"sluice/web/kit"
	"sluice/web/view"
)

// routeAsked is the method and the path of a search such as "POST /v1/charges"; ok is false for searches by words.
func routeAsked(text string) (method, path string, ok bool) {
	words := strings.Fields(text)
	if len(words) != 2 || !strings.HasPrefix(words[1], "/") {
		return "", "", false
	}
	method = route.NormalizeMethod(words[0])
	path, _, _ = strings.Cut(words[1], "?")
	return method, path, route.IsRegistered(method)
}

// selection reads search, filters and order of the list of rules. A search such as "POST /v1/charges" selects the rules
// in force that apply to such a request.
func (p *Pages) selection(q url.Values) rules.Browse {
	b := browseOf(q)
	method, path, ok := routeAsked(b.Text)
	if !ok {
		return b
	}
	b.Text, b.IDs = "", []int64{}
	if set := p.Sets.Load(); set != nil {
		for _, c := range set.ForRoute(method, path) {
			b.IDs = append(b.IDs, c.Rule.ID)
		}
	}
	if b.Sort == "" {
		b.Sort = "id"
	}
	return b
}

// explainLink is the form of Explain for such a request.
func explainLink(method, path string) string {
	return kit.PathExplain + "?" + url.Values{"method": {method}, "route": {path}}.Encode()
}

// askedWords says what the list shows for such a search.
func askedWords(m *Table) string {
	method, path, _ := routeAsked(m.Query.Get("q"))
	what := "No rule in force applies"
	switch n := m.Pager.Total; {
	case n == 1:
		what = "1 rule in force applies"
	case n > 1:
		what = view.Count(n) + " rules in force apply"
	}
	return what + " to " + method + " " + path + "."
}
