package traffic

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/a-h/templ"

	"sluice/web/kit"
)

// feed produces the live parts of the page. Between two readings of the figures it repeats itself, and the stream sends
// nothing.
type feed struct {
	pages *Pages
	visit *kit.Visit
	// text are the parts of the last reading, at, of a chart that starts at first.
	text  string
	at    time.Time
	first time.Time
}

// Feed returns the live parts of the page of traffic.
func (p *Pages) Feed(v *kit.Visit) kit.Feed {
	f := &feed{pages: p, visit: v}
	return f.parts
}

// freshFor is how long figures with a step are shown until they are read again.
func freshFor(step time.Duration) time.Duration {
	switch {
	case step <= time.Second:
		return 2 * time.Second
	case step <= time.Minute:
		return 10 * time.Second
	}
	return time.Minute
}

func (f *feed) parts() templ.Component {
	now := f.pages.Now()
	m := f.pages.ask(f.visit)
	if age := now.Sub(f.at); f.text == "" || age < 0 || age >= freshFor(m.Range.Step) {
		m = f.pages.model(f.visit)
		var b strings.Builder
		if err := parts(m, f.first).Render(f.visit.Ctx, &b); err != nil {
			if !errors.Is(err, context.Canceled) { // then the browser has left
				f.pages.Logger.Error("the live parts of the page of traffic failed", "error", err)
			}
			return templ.NopComponent
		}
		f.text, f.at, f.first = b.String(), now, m.Timeline.Range.From
	}
	return templ.Raw(f.text)
}
