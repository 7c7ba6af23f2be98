package inspect

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"sluice/rules/facts"
	"sluice/rules/field"
	"sluice/rules/profile"
	"sluice/web/kit"
	"sluice/web/view"
)

// explainGateway reads a request as a gateway with a profile does, fills the form with the facts, and explains the
// decision on them.
func (p *Pages) explainGateway(v *kit.Visit, form url.Values) error {
	var m Explain
	filled, decided, err := p.readByProfile(form, &m)
	if err != nil {
		form.Set("weight", "1")
		m.Form = view.NewForm(form, []field.Problem{{Field: "request", Message: err.Error()}})
		return v.Page(http.StatusUnprocessableEntity, p.explainPage(v, m))
	}
	filled.Set("profile", form.Get("profile")) // not the request, which may have a key
	if decided {
		m.Form = view.NewForm(filled, nil)
		return v.Page(http.StatusOK, p.explainPage(v, m))
	}
	return p.showExplained(v, filled, m)
}

// readByProfile returns the facts as the form's fields. decided means that the profile decides without rules; the notes
// of m then describe the decision.
func (p *Pages) readByProfile(form url.Values, m *Explain) (filled url.Values, decided bool, err error) {
	var profile *profile.Profile
	if set := p.Sets.Load(); set != nil {
		profile = set.Profile(form.Get("profile"))
	}
	if profile == nil {
		return nil, false, errors.New("cannot be read: the profile is not in force on this node")
	}
	request, err := parseRequest(form.Get("request"))
	if err != nil {
		return nil, false, err
	}
	reader, err := facts.New(profile)
	if err != nil {
		return nil, false, errors.New(unreadable(profile, err))
	}
	var read facts.Facts
	if err := reader.Read(request, &read); err != nil {
		return nil, false, errors.New("cannot be read: the header " + err.Error())
	}
	name := profileWords(profile)
	switch {
	case read.Skip:
		m.Notes, decided = []string{name + "allows " + read.Descriptor.Method + " without a check."}, true
	case read.Denied != "":
		m.Notes, decided = []string{name + "denies this request with status 403, because the fact " + read.Denied +
			" is missing."}, true
	default:
		m.Notes = []string{name + "reads the request as shown in the fields below."}
	}
	return fromFacts(&read), decided, nil
}

// profileWords begins a sentence about a profile.
func profileWords(p *profile.Profile) string {
	return "Profile " + p.Name + " (version " + view.Count(p.Version) + ") "
}

// unreadable is the error of a profile that does not compile.
func unreadable(p *profile.Profile, err error) string {
	return "cannot be read: the profile " + p.Name + " is invalid: " + err.Error()
}

// fromFacts fills the form with the facts that a profile has read.
func fromFacts(read *facts.Facts) url.Values {
	d := &read.Descriptor
	form := url.Values{
		"method": {d.Method}, "route": {d.Route}, "host": {d.Host}, "user": {d.User}, "api_key": {d.APIKey},
		"tier":       {d.Tier},
		"weight":     {view.Digits(read.Weight)},
		"attributes": {lines(d.Attributes, escapeValue)},
		"fields":     {lines(d.Fields, func(v int64) string { return view.Digits(v) })},
	}
	if d.IP.IsValid() {
		form.Set("ip", d.IP.String())
	}
	return form
}

// parseRequest reads the first line and the headers of a request, as in "GET /users/17" and "X-User: 42".
func parseRequest(text string) (*facts.Request, error) {
	r := &facts.Request{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if r.Method == "" {
			words := strings.Fields(line)
			if len(words) < 2 || len(words) > 3 || strings.HasSuffix(words[0], ":") {
				break
			}
			r.Method, r.Target = words[0], words[1]
			continue
		}
		if !r.AddHeader(line) {
			return nil, errors.New("must have one header per line, such as X-User: 42")
		}
	}
	if r.Method == "" {
		return nil, errors.New("must begin with a method and a path, such as GET /users/17")
	}
	return r, nil
}
