package transfer

import (
	"net/url"

	"sluice/limiter"
	"sluice/web/view"
)

// The formats of a file.
const (
	formatRules = "rules"
	formatEnvoy = "envoy"
)

// How says how a file is imported.
type How struct {
	// Format is formatRules or formatEnvoy.
	Format string
	// Prune, of a rules file: what is missing from it is deleted.
	Prune bool
	// Algorithm and Merge are options of Envoy's configuration, of which a plan always shows what to delete.
	Algorithm string
	Merge     bool
	Months    bool
}

// howOf reads the fields of a form.
func howOf(form url.Values) How {
	h := How{Format: formatRules}
	if form.Get("format") == formatEnvoy {
		h.Format, h.Merge = formatEnvoy, form.Get("merge_domains") == "on"
		h.Months = form.Get("calendar_months") == "on"
		if a, err := limiter.ParseAlgorithm(form.Get("algorithm")); err == nil {
			h.Algorithm = a.String()
		}
		return h
	}
	h.Prune = form.Get("prune") == "on"
	return h
}

// fields are the form's fields, without those that are off.
func (h How) fields() url.Values {
	out := url.Values{"format": {h.Format}}
	if h.Prune {
		out.Set("prune", "on")
	}
	if h.Merge {
		out.Set("merge_domains", "on")
	}
	if h.Months {
		out.Set("calendar_months", "on")
	}
	if h.Algorithm != "" {
		out.Set("algorithm", h.Algorithm)
	}
	return out
}

// formats and algorithms are the choices of the form.
func formats() []view.Choice {
	return []view.Choice{{formatRules, "Rules file of Sluice"}, {formatEnvoy, "envoyproxy/ratelimit YAML"}}
}

func algorithms() []view.Choice {
	out := []view.Choice{{"", "as in envoyproxy/ratelimit"}}
	for _, a := range limiter.Algorithms() {
		out = append(out, view.Choice{a.String(), a.String()})
	}
	return out
}
