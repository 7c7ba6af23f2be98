package traffic

import (
	"net/url"
	"time"

	"sluice/internal/stats"
	"sluice/rules"
)

// period is the time that the page shows.
type period struct {
	From, To time.Time
	Step     time.Duration
	// Live means that the period ends now.
	Live bool
}

// kept are the parameters of the address.
var kept = []string{"by", "rule", "q", "sort", "desc", "range"}

func periodOf(q url.Values, now time.Time) (period, []rules.FieldError) {
	p := period{From: now.Add(-time.Hour), To: now, Step: stats.Minute, Live: true}
	if span, err := time.ParseDuration(q.Get("range")); err == nil && span > 0 {
		p.From = now.Add(-span)
		p.Step = max(stats.FitStep(p.From, p.To), stats.Minute)
	} else if q.Has("range") {
		return p, []rules.FieldError{{Field: "range", Message: "no such range"}}
	}
	return p, nil
}
