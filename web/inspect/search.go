package inspect

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/redact"
	"sluice/web/kit"
	"sluice/web/view"
)

// The largest numbers of results of a kind, and of bytes of a search.
const (
	foundRules  = 8
	foundKeys   = 5
	maxSearched = 500
)

// Hit is a result of the search: a link, and the kind of its target.
type Hit struct {
	Label, Path, About, Icon string
}

// Search is the page of the search for everything.
type Search struct {
	Text string
	// Groups have at least one hit each, the likeliest group first.
	Groups []HitGroup
	// Missing says what a typed action lacks, "" for nothing.
	Missing string
	// Partial means that rules in the database or requests could not be read.
	Partial bool
}

// HitGroup are the results of a kind.
type HitGroup struct {
	Name string
	Hits []Hit
}

// hits is the number of results.
func (m *Search) hits() (n int) {
	for i := range m.Groups {
		n += len(m.Groups[i].Hits)
	}
	return n
}

// searchPage is the page of the search, or for a script the form alone.
func (p *Pages) searchPage(v *kit.Visit) error {
	m := p.search(v, v.QueryParam("q"))
	if v.HTMX() {
		return v.Page(http.StatusOK, searchForm(m))
	}
	return v.Page(http.StatusOK, searchPage(v.Frame("Search", kit.PathSearch), m))
}

// searchFor shows the results of a search. The form uses POST, so that a typed credential is not in an address.
func (p *Pages) searchFor(v *kit.Visit, form url.Values) error {
	m := p.search(v, form.Get("q"))
	if v.HTMX() {
		return v.Page(http.StatusOK, searchResults(m))
	}
	return v.Page(http.StatusOK, searchPage(v.Frame("Search", kit.PathSearch), m))
}

// search finds pages, actions, rules and keys. Each result must contain each word, in any order and case.
func (p *Pages) search(v *kit.Visit, text string) Search {
	text = strings.TrimSpace(text)
	m := Search{Text: text}
	shown := map[string]bool{}
	add := func(name string, hits []Hit) {
		hits = slices.DeleteFunc(hits, func(h Hit) bool { return shown[h.Path] })
		for i := range hits {
			shown[hits[i].Path] = true
		}
		if len(hits) > 0 {
			m.Groups = append(m.Groups, HitGroup{name, hits})
		}
	}
	if text == "" || len(text) > maxSearched {
		add("Pages", places(v, ""))
		return m
	}
	typed, missing := p.typed(v, text)
	m.Missing = missing
	add("Best match", typed)
	key := p.namedKey(v, text)
	add("Keys", key)
	add("Requests", requestHits(text))
	add("Rules", p.ruleHits(v, &m))
	add("Pages", places(v, text))
	add("Actions", actions(v, text))
	if len(key) == 0 {
		add("Keys", p.likelyKeys(v, &m))
	}
	return m
}

// fits reports whether every word is part of a text, in any case.
func fits(words, text string) bool {
	text = strings.ToLower(text)
	for word := range strings.FieldsSeq(strings.ToLower(words)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// places are the pages of the navigation that fit.
func places(v *kit.Visit, words string) (hits []Hit) {
	for _, n := range v.Places() {
		if fits(words, n.Label) {
			hits = append(hits, Hit{Label: n.Label, Path: n.Path, Icon: n.Icon})
		}
	}
	return hits
}

// actions returns the actions that the person may begin.
func actions(v *kit.Visit, words string) (hits []Hit) {
	for _, a := range []struct {
		role  access.Role
		also  string // other words for it
		label string
		path  string
		icon  string
	}{
		{access.RoleEditor, "create add limit", "New rule", "/console/rules/new", "plus"},
		{access.RoleViewer, "why denied try request curl", "Explain a request", kit.PathExplain, "search-code"},
		{access.RoleViewer, "quota remaining reset block raise override tenant user", "Inspect a key", pathKeys, "search"},
		{access.RoleViewer, "denied sample recent", "Denials", kit.PathDenials, "ban"},
		{access.RoleViewer, "yaml csv backup download upload", "Import or export rules", kit.PathImport, "arrow-up-down"},
		{access.RoleViewer, "gateway secret api credential create", "API tokens", "/console/tokens", "users"},
		{access.RoleAdmin, "webhook slack pager notify send alert secret", "Webhooks", kit.PathAlerts + "/webhooks", "send"},
		{access.RoleAdmin, "webhook slack pager notify create", "New webhook", kit.PathAlerts + "/webhooks/new", "plus"},
		{access.RoleAdmin, "invite colleague user create", "New account", "/console/people/new", "plus"},
		{access.RoleViewer, "password sign out sessions", "Your account", "/console/account", "users"},
	} {
		if v.Offers(a.role) && fits(words, a.label+" "+a.also) {
			hits = append(hits, Hit{Label: a.label, Path: a.path, Icon: a.icon})
		}
	}
	return hits
}

// requestHits are about a request, such as "POST /v1/charges" or "/v1/charges". There are none for a request with a
// credential, because a link would put it in an address.
func requestHits(text string) []Hit {
	method, route, found := strings.Cut(text, " ")
	if !found {
		method, route = "", text
	}
	if route = strings.TrimSpace(route); !strings.HasPrefix(route, "/") || strings.Contains(route, " ") ||
		method != "" && !isMethod(method) || redact.Within(text) {
		return nil
	}
	hits := []Hit{
		{"Requests of " + text, view.NewQuery(kit.PathRequests, nil).With("route", text), "sampled", "list-filter"},
	}
	if method != "" {
		hits = append(hits,
			Hit{"Rules that apply to " + text, view.NewQuery(kit.PathRules, nil).With("q", text), "", "list-filter"},
			Hit{"Explain " + text, view.NewQuery(kit.PathExplain, nil).Set("method", method, "route", route).URL(), "",
				"search-code"})
	}
	return hits
}

// ruleHits are the first rules that fit.
func (p *Pages) ruleHits(v *kit.Visit, m *Search) (hits []Hit) {
	list, err := v.Browse(rules.Browse{Query: rules.Query{Text: m.Text, PageSize: foundRules}})
	if m.Partial = m.Partial || v.DatabaseDown; err != nil {
		m.Partial = true
		return nil
	}
	for i := range list.Rules {
		r := &list.Rules[i]
		hits = append(hits, Hit{r.Name, view.RulePath(r.ID), view.RuleWords(r), "list-filter"})
	}
	if list.Total > int64(len(list.Rules)) {
		hits = append(hits, Hit{"All " + view.Plural(list.Total, "rule"),
			view.NewQuery(kit.PathRules, nil).With("q", m.Text), "", "list-filter"})
	}
	return hits
}

// namedKey is the key that a text such as user:42 or an address names. A credential in it is a hash in the hit.
func (p *Pages) namedKey(v *kit.Visit, text string) []Hit {
	b := p.rulesFor(v.Ctx, keyText(text))
	if b == nil {
		return nil
	}
	m := KeyPage{Bucket: b}
	return []Hit{{m.shownName(), view.KeyLink(b.Rule.Rule.Name, b.Name), "counted by " + b.Rule.Rule.Name, "search"}}
}

// likelyKeys are keys of sampled requests that have the text in them.
func (p *Pages) likelyKeys(v *kit.Visit, m *Search) (hits []Hit) {
	found, err := p.Denials.Requests(v.Ctx, history.Filter{Key: m.Text}, 100*foundKeys)
	m.Partial = m.Partial || err != nil
	ids := p.RuleIDs(found)
	for i := range found {
		r := &found[i]
		if same := func(h Hit) bool { return h.Label == r.Key }; ids[r.Rule] == 0 || slices.ContainsFunc(hits, same) {
			continue
		}
		hits = append(hits, Hit{r.Key, view.KeyOfRequest(r), "counted by " + r.Rule, "search"})
		if len(hits) == foundKeys {
			break
		}
	}
	return hits
}
