package inspect

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/match"
	"sluice/rules/redact"
	"sluice/web/kit"
	"sluice/web/view"
)

// foundActs is the largest number of rules that a typed action offers.
const foundActs = 5

// The actions that can be typed in the search, before the object that they are about.
const (
	typedBlock    = "block"
	typedOverride = "override"
	typedExplain  = "explain"
	typedShadow   = "shadow"
	typedOpen     = "open"
)

// typed returns the hits of a typed action, such as "block user:42", and what is missing, "" for nothing. Each hit is a
// form that is filled in. Nothing changes before it is sent.
func (p *Pages) typed(v *kit.Visit, text string) (hits []Hit, missing string) {
	verb, rest, _ := strings.Cut(text, " ")
	verb, rest = strings.ToLower(verb), strings.TrimSpace(rest)
	changes := slices.Contains([]string{typedBlock, typedOverride, typedShadow}, verb)
	switch {
	case changes && !v.CanChange(access.RoleEditor):
		return nil, ""
	case changes && rest == "" && verb == typedShadow:
		return nil, "Type the name of a rule behind it."
	case changes && rest == "":
		return nil, "Type a key behind it, such as " + verb + " user:42."
	case verb == typedShadow:
		return p.typedShadow(v, rest)
	case changes:
		return p.typedOnKey(v, verb, rest)
	case verb == typedExplain && rest != "":
		return typedFacts(rest)
	case verb == typedOpen && rest != "":
		return places(v, rest), ""
	}
	for _, h := range slices.Concat(places(v, text), actions(v, text)) {
		if strings.EqualFold(h.Label, text) {
			hits = append(hits, h)
		}
	}
	return hits, ""
}

// typedOnKey offers a form for an override of a key, for each of the rules that count it, the most denied first.
func (p *Pages) typedOnKey(v *kit.Visit, verb, key string) (hits []Hit, missing string) {
	b := p.rulesFor(v.Ctx, keyText(key))
	if b == nil {
		return nil, "No active rule counts such a key. Write what it is, as in " + verb + " user:42."
	}
	live := p.Fleet.Live(v.Ctx)
	list, _ := p.rulesThatCount(b, &live)
	for i := range list[:min(len(list), foundActs)] {
		r := &list[i].Bucket.Rule.Rule
		name := list[i].Bucket.Exception
		if _, err := match.ReadOverrideKey(r, p.Options(), name); name == "" || err != nil {
			continue // an override cannot name the key
		}
		h := Hit{"Block " + name, view.BlockURL(r, name), "in " + r.Name, "ban"}
		if verb == typedOverride {
			h = Hit{"Override " + name, view.OverrideURL(r, name), "in " + r.Name, "sliders-horizontal"}
		}
		hits = append(hits, h)
	}
	if hits == nil {
		return nil, "An override cannot name this key."
	}
	return hits, ""
}

// keyText is a typed key, which may be an address without its fact.
func keyText(text string) string {
	if _, err := netip.ParseAddr(text); err == nil {
		return "ip:" + text
	}
	return text
}

// typedShadow offers to switch active enforced rules to shadow mode.
func (p *Pages) typedShadow(v *kit.Visit, text string) (hits []Hit, missing string) {
	list, err := v.Browse(rules.Browse{Query: rules.Query{Text: text, PageSize: 100}})
	if err != nil {
		return nil, "The rules could not be read. Try again."
	}
	for i := range list.Rules {
		r := &list.Rules[i]
		if r.Mode != rules.ModeEnforce || !r.IsActive || r.Candidate != nil || !fits(text, r.Name) {
			continue
		}
		h := Hit{"Switch " + r.Name + " to shadow mode", view.RulePath(r.ID) + "/turn?to=" + rules.ModeShadow,
			view.LimitWords(r), "pause"}
		if hits = append(hits, h); r.Name == text {
			return []Hit{h}, ""
		}
	}
	if hits == nil {
		return nil, "No active enforced rule without a candidate has this in its name."
	}
	return hits[:min(len(hits), foundActs)], ""
}

// typedFacts offers the form of Explain, filled in from facts such as "user:42 POST /v1/charges". Credentials are left
// out, because they must not be in an address.
func typedFacts(text string) (hits []Hit, missing string) {
	q, label, left := url.Values{}, "Explain", false
	for word := range strings.FieldsSeq(text) {
		name, value, named := strings.Cut(word, ":")
		fact := strings.ToLower(name)
		switch {
		case redact.Within(word):
			left = true
			continue
		case strings.HasPrefix(word, "/"):
			q.Set("route", word)
		case !named && isMethod(word):
			q.Set("method", word)
		case fact == "attr" && strings.Contains(value, ":"):
			attribute, value, _ := strings.Cut(value, ":")
			q.Add("attribute", chars.Escape(attribute, "=")+"="+escapeValue(value))
		case slices.Contains(namedFacts, fact) && value != "":
			q.Set(fact, value)
		default:
			addr, err := netip.ParseAddr(word)
			if err != nil {
				left = true
				continue
			}
			q.Set("ip", addr.String())
		}
		label += " " + word
	}
	if left {
		missing = "Explain leaves out what is no fact that it may have in an address. Complete the form."
	}
	if len(q) == 0 {
		return nil, "Type facts behind it, such as explain user:42 POST /v1/charges."
	}
	return []Hit{{label, kit.PathExplain + "?" + q.Encode(), "", "search-code"}}, missing
}

// isMethod reports whether a word is a method in upper case.
func isMethod(word string) bool {
	return word != "" && !strings.ContainsFunc(word, func(r rune) bool { return r < 'A' || r > 'Z' })
}

// namedFacts are the facts of a request that are typed as name:value and that the address of Explain may have.
var namedFacts = []string{"user", "ip", "tier", "host"}
