package overview

import (
	"cmp"
	"slices"
	"time"

	"sluice/internal/history"
	"sluice/internal/history/incident"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/web/kit"
	"sluice/web/view"
)

// overview is the home page: decisions of all nodes, rules in force, and the state of the nodes.
func (p *Pages) overview(v *kit.Visit) error {
	m := p.live(v)
	recent, err := v.Browse(rules.Browse{Query: rules.Query{PageSize: 5}, Sort: "updated_at", Desc: true})
	if err != nil {
		return err
	}
	m.Stored, m.Recent = recent.Total, view.RuleLines(&recent)
	return v.Page(m.Timeline.Range.Status(), overviewPage(v.Frame("Overview", kit.PathHome), m))
}

// live is the model of the live parts of the overview.
func (p *Pages) live(v *kit.Visit) Overview {
	node := p.Node()
	m := Overview{
		Fleet: p.fleet(v), Node: node.Status, Embedded: node.Embedded, Degraded: node.Degraded(),
		Rates: map[string]Rate{}, Logs: p.logLines(),
	}
	for _, of := range rates {
		m.Rates[of.name] = rateOf(m.Live.Seconds, of.count)
	}
	m.Query = view.NewQuery(kit.PathHome, v.QueryParams(), view.RangeParams...)
	var err error
	if m.Timeline, _, err = v.Timeline("", "", view.ParseRange(v.QueryParams(), p.Now(), "5m"), m.Query); err != nil {
		p.Logger.Warn("the console could not read figures of traffic", "error", err)
	}
	latest, err := p.Denials.Denials(v.Ctx, history.Filter{Mode: rules.ModeEnforce}, maxLatest)
	m.Latest, m.LatestIDs, m.LatestUnavailable = latest, p.RuleIDs(latest), kit.Unreadable(err)
	m.Incidents, _ = p.Incidents.Running(v.Ctx) // with an error, these are incidents of this node
	if len(node.CutOff) > 0 {                   // a banner says so already
		m.Incidents = slices.DeleteFunc(slices.Clone(m.Incidents), func(i incident.Incident) bool {
			return i.Kind == incident.Regions
		})
	}
	m.Attention = p.attention(v)
	set := p.Sets.Load()
	m.HotKeys, m.Hot = m.Live.HotKeys(), hotLines(set, m.Live.Hot, true)
	m.Denied, m.Busy = p.topRules(m.Live.Rules, set)
	if set == nil {
		m.Begin = p.begin(v, &m)
		return m
	}
	m.Active = set.Len()
	m.Begin = p.begin(v, &m)
	for i := range set.Len() {
		c := set.At(i)
		if c.Shadow {
			m.Shadow++
		}
		switch c.Rule.FailMode {
		case rules.FailClosed:
			m.FailClosed++
		case rules.FailLocal:
			m.FailLocal++
		default:
			m.FailOpen++
		}
	}
	return m
}

// maxLatest is how many denials the overview shows.
const maxLatest = 5

// maxTopRules is how many rules the overview names in each list.
const maxTopRules = 6

// topRules returns the rules with the most denials and the rules with the most decisions.
func (p *Pages) topRules(live []history.RuleLive, set *match.Set) (denied, busy []RuleRate) {
	live = slices.Clone(live)
	named := map[string]bool{}
	pick := func(line func(history.Figures) int64, fits func(history.Figures) bool) []RuleRate {
		var out []RuleRate
		for i := range live {
			if len(out) < maxTopRules && fits(live[i].Minute) {
				out = append(out, RuleRate{Name: live[i].Name, Minute: live[i].Minute, Line: lineOf(live[i].Tens, line)})
			}
		}
		for i := range out {
			named[out[i].Name] = true
		}
		return out
	}
	denied = pick(func(c history.Figures) int64 { return c.Denied }, func(c history.Figures) bool { return c.Denied > 0 })
	slices.SortStableFunc(live, func(a, b history.RuleLive) int { return cmp.Compare(b.Minute.Total(), a.Minute.Total()) })
	busy = pick(history.Figures.Total, func(c history.Figures) bool { return c.Total() > 0 })
	ids := map[string]int64{}
	if set != nil {
		for i := range set.Len() {
			if r := &set.At(i).Rule; named[r.Name] {
				ids[r.Name] = r.ID
			}
		}
	}
	for _, list := range [][]RuleRate{denied, busy} {
		for i := range list {
			list[i].ID = ids[list[i].Name]
		}
	}
	return denied, busy
}

func lineOf(points []history.Point, of func(history.Figures) int64) []float64 {
	out := make([]float64, max(0, len(points)-1)) // the last point is not complete
	for i := range out {
		out[i] = float64(of(points[i].Figures))
	}
	return out
}

// rates are the rates per second on the overview.
var rates = []struct {
	name  string
	count func(history.Figures) int64
}{
	{"allowed", func(c history.Figures) int64 { return c.Allowed }},
	{"denied", func(c history.Figures) int64 { return c.Denied }},
	{"degraded", func(c history.Figures) int64 { return c.Degraded }},
}

// rateSeconds is how many seconds a rate is averaged over.
const rateSeconds = 10

// rateOf is the mean of the last seconds, and a line of the last three minutes.
func rateOf(seconds []history.Point, count func(history.Figures) int64) Rate {
	r := Rate{Line: make([]float64, len(seconds))}
	var sum int64
	for i := range seconds {
		n := count(seconds[i].Figures)
		r.Line[i] = float64(n)
		if i >= len(seconds)-rateSeconds {
			sum += n
		}
	}
	r.PerSecond = float64(sum) / (rateSeconds * time.Second).Seconds()
	return r
}

// Overview is the home page.
type Overview struct {
	// Logs are the decision logs of this node; none if they are off.
	Logs []LogLine
	Fleet
	// Node is this node.
	Node history.Status
	// Rates are allowed, denied and degraded.
	Rates    map[string]Rate
	Query    view.Query
	Timeline view.Timeline
	Begin    Begin
	// Denied and Busy are the rules that deny most, and decide most.
	Denied, Busy []RuleRate
	// Latest are the most recent denials, LatestIDs their rules in force by name. LatestUnavailable means that they
	// cannot be read.
	Latest            []history.Request
	LatestIDs         map[string]int64
	LatestUnavailable bool
	// Attention says who is denied unusually.
	Attention Attention
	// Incidents are the running incidents.
	Incidents []incident.Incident
	// HotKeys counts the hot keys of all nodes, Hot lists some of them.
	HotKeys                         int
	Hot                             []view.HotLine
	Active, Shadow                  int
	FailOpen, FailClosed, FailLocal int
	// Stored also counts disabled rules.
	Stored             int64
	Embedded, Degraded bool
	Recent             []view.RuleLine
}

// Rate is a rate per second with its recent history.
type Rate struct {
	PerSecond float64
	Line      []float64
}

// kind is the color of the line: there is none while everything is zero.
func (r *Rate) kind(of string) string {
	if slices.Max(append([]float64{r.PerSecond}, r.Line...)) == 0 {
		return "good"
	}
	return of
}

// RuleRate holds the counts of a rule in the last minute, and the last ten minutes as a line.
type RuleRate struct {
	Name string
	// ID is 0 if no rule in force has the name.
	ID     int64
	Minute history.Figures
	Line   []float64
}

// openBreaker returns a circuit breaker that is not closed, nil if all are closed.
func openBreaker(all []history.Breaker) *history.Breaker {
	for i := range all {
		if all[i].State != "closed" {
			return &all[i]
		}
	}
	return nil
}
