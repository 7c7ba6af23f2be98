package rulepage

import (
	"errors"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"sluice/rules"
	"sluice/web/kit"
	"sluice/web/view"
)

// trialRetry is after how many messages a stream looks for the start of a trial again, if the history could not be
// read.
const trialRetry = 15

// feed produces the live parts of the page of a rule. They are only for the version of the rule that the page
// shows.
type feed struct {
	pages *Pages
	visit *kit.Visit
	id    int64
	shown int64 // version on the page, 0 if unknown
	rule  rules.Rule
	// inForce means that the rule was in force since the stream started, gone that it was deleted or disabled.
	inForce, gone bool
	// trial is the trial of version trialOf of the rule, of its versions.
	trial   Trial
	of      []int64
	trialOf int64
	wait    int
	// first is the start of the chart on the page.
	first time.Time
}

// Feed returns the live parts of the page of a rule.
func (p *Pages) Feed(v *kit.Visit, id int64) kit.Feed {
	f := &feed{pages: p, visit: v, id: id}
	f.shown, _ = strconv.ParseInt(v.QueryParam("version"), 10, 64)
	if set := p.Sets.Load(); (set == nil || set.Get(id) == nil) && !v.Offline {
		// It may be disabled; its earlier metrics are still on the page.
		var err error
		f.rule, err = p.Rules.GetRule(v.Ctx, id)
		f.gone = errors.Is(err, rules.ErrNotFound) && f.shown > 0
	}
	return f.parts
}

func (f *feed) parts() templ.Component {
	f.look()
	m := Page{Rule: f.rule, Live: f.pages.Fleet.Live(f.visit.Ctx),
		Query: view.NewQuery(view.RulePath(f.id), f.visit.QueryParams(), view.RangeParams...)}
	m.Changed = f.gone || f.shown > 0 && f.rule.Version > f.shown
	if m.Rule.Name == "" && !m.Changed {
		return templ.NopComponent
	}
	if m.Changed || f.shown > 0 && f.rule.Version < f.shown { // or this node has an older version
		return notesPart(m)
	}
	_ = f.pages.figures(f.visit, &m, f.findTrial) // the page says what is missing
	first := f.first
	f.first = m.Timeline.Range.From
	return parts(m, first)
}

// look loads the current state of the rule.
func (f *feed) look() {
	set := f.pages.Sets.Load()
	if set == nil {
		return
	}
	c := set.Get(f.id)
	if c != nil {
		f.rule, f.inForce, f.gone = c.Rule, true, false
	} else if f.inForce {
		f.gone = true
	}
}

// findTrial calls Pages.findTrial, which reads the database, once for each version.
func (f *feed) findTrial(v *kit.Visit, r *rules.Rule) (Trial, []int64, error) {
	if f.trialOf == r.Version {
		return f.trial, f.of, nil
	}
	if f.wait--; f.wait > 0 {
		return Trial{Version: r.Version, At: r.UpdatedAt}, nil, rules.ErrUnavailable
	}
	t, versions, err := f.pages.findTrial(v, r)
	if err != nil {
		f.wait = trialRetry
		return t, nil, err
	}
	f.trial, f.of, f.trialOf = t, versions, r.Version
	return t, versions, nil
}
