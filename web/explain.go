package web

import (
	"net/http"
	"net/url"
	"strconv"

	"sluice/internal/fleet"
	"sluice/rules"
	"sluice/rules/redact"
	"sluice/web/view"
)

// maxFact bounds each field of the form, in bytes, as the API bounds its members.
const maxFact = 8 << 10

// explainForm is the form for a request; of a sampled denial it is filled in and
// explained at once.
func (s *Server) explainForm(v *visit) error {
	m := view.Explain{Form: view.NewForm(url.Values{"weight": {"1"}}, nil)}
	id := v.QueryParam("denial")
	if id == "" {
		return v.page(http.StatusOK, view.ExplainPage(v.frame("Explain", pathExplain), m))
	}
	d, found, err := s.deps.Inspect.Denials.Denial(v.ctx, id)
	switch {
	case err != nil:
		return s.countersAway(err)
	case !found:
		m.Notes = []string{"This denial is no longer kept; only the most recent ones are. Describe the request below."}
		return v.page(http.StatusNotFound, view.ExplainPage(v.frame("Explain", pathExplain), m))
	}
	form, notes := fromDenial(&d)
	m.Denial, m.Notes = &d, notes
	return s.explained(v, form, m)
}

// explain says what the rules do with the request that was described or pasted.
// It spends nothing.
func (s *Server) explain(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	var m view.Explain
	if paste := form.Get("paste"); paste != "" {
		filled, notes, err := fromPaste(paste)
		if err != nil {
			form.Set("weight", "1")
			m.Form = view.NewForm(form, []rules.FieldError{{Field: "paste", Message: err.Error()}})
			return v.page(http.StatusUnprocessableEntity, view.ExplainPage(v.frame("Explain", pathExplain), m))
		}
		if filled.Get("weight") == "" {
			filled.Set("weight", "1")
		}
		form, m.Notes = filled, notes
	}
	return s.explained(v, form, m)
}

// explained shows the form with what the rules say.
func (s *Server) explained(v *visit, form url.Values, m view.Explain) error {
	d, weight, errs := descriptorOf(form)
	for name := range form {
		if len(form.Get(name)) > maxFact {
			errs = append(errs, rules.FieldError{Field: name, Message: "is longer than any request may say"})
		}
	}
	m.Form = view.NewForm(form, errs)
	if len(errs) > 0 {
		return v.page(http.StatusUnprocessableEntity, view.ExplainPage(v.frame("Explain", pathExplain), m))
	}
	e, err := s.deps.Inspect.Explain(v.ctx, &d, weight)
	if err != nil {
		return err
	}
	m.Result = &e
	return v.page(http.StatusOK, view.ExplainPage(v.frame("Explain", pathExplain), m))
}

// fromDenial fills the form from a sampled denial, as far as it was kept.
func fromDenial(d *fleet.Denial) (url.Values, []string) {
	form := url.Values{
		"method": {d.Method}, "route": {d.Route}, "ip": {d.IP}, "user": {d.User}, "tier": {d.Tier}, "weight": {strconv.FormatInt(d.Weight, 10)},
		"attributes": {lines(d.Attributes, func(v string) string { return v })},
	}
	notes := []string{"API keys and fields are not kept with denials: fill in what the rules look at."}
	if d.User == redact.Hidden || d.Tier == redact.Hidden {
		for _, name := range []string{"user", "tier"} {
			if form.Get(name) == redact.Hidden {
				form.Del(name)
			}
		}
		notes = append(notes, "What looked like a credential was left out.")
	}
	return form, notes
}
