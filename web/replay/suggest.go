package replay

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/backtest"
	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/web/kit"
	"sluice/web/view"
)

// suggested is the subject of a job that suggests limits of a rule.
type suggested struct {
	rule int64
	form url.Values
}

// suggestPage shows the form for suggested limits of a rule, and how far its job is or what it found.
func (p *Pages) suggestPage(v *kit.Visit, r rules.Rule) error {
	return p.suggest(v, http.StatusOK, r, nil, nil, "")
}

// suggest shows suggestPage with a status, the typed values, and the problems of these values.
func (p *Pages) suggest(v *kit.Visit, status int, r rules.Rule, form url.Values, errs []field.Problem,
	problem string) error {
	m := Suggest{Rule: r, Job: p.findJob(v), Problem: problem}
	of, ok := m.Job.Subject.(*suggested)
	switch {
	case !ok || of.rule != r.ID:
		m.Job = Job{Has: m.Job.Has}
	case v.HTMX() && m.Job.Running():
		return v.Page(http.StatusOK, jobProgress(m.Job))
	case v.HTMX():
		return v.SeeOther(m.Job.link())
	default:
		m.Result, _ = m.Job.Result.(*backtest.Suggestions)
		m.Range = rangeWords(of.form.Get(rangeField))
		if form == nil {
			form = of.form
		}
	}
	if form == nil {
		form = url.Values{"windows": {usualWindows(&r)}, "headroom": {"1.2"}, rangeField: {"day"}}
	}
	m.Form = view.NewForm(form, errs)
	m.LogSource, m.HasLog = p.Jobs.Source()
	m.Nodes = len(p.Fleet.Live(v.Ctx).Nodes)
	p.scale(v, &m)
	return v.Page(status, suggestPageOf(v.Frame("Suggested limits of "+r.Name, kit.PathRules), m))
}

// usualWindows are the windows at first: the rule's own and common ones.
func usualWindows(r *rules.Rule) string {
	windows := []time.Duration{time.Second, time.Minute, time.Hour}
	if own := time.Duration(r.WindowMS) * time.Millisecond; own > 0 && !slices.Contains(windows, own) {
		windows = append(windows, own)
		slices.Sort(windows)
	}
	words := make([]string, len(windows))
	for i, w := range windows {
		words[i] = durationWords(w)
	}
	return strings.Join(words, ", ")
}

// durationWords writes a duration without parts that are 0.
func durationWords(d time.Duration) string {
	text := d.String()
	text = strings.TrimSuffix(text, "m0s") + strings.Repeat("m", btoi(strings.HasSuffix(text, "m0s")))
	return strings.TrimSuffix(text, "h0m") + strings.Repeat("h", btoi(strings.HasSuffix(text, "h0m")))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// startSuggest reads the decision log to suggest limits of a rule.
func (p *Pages) startSuggest(v *kit.Visit, r rules.Rule) error {
	form, err := v.Form()
	if err != nil {
		return err
	}
	windows, headroom, errs := suggestForm(form)
	from, ok := p.since(form.Get(rangeField))
	if !ok {
		errs = append(errs, wrongRange)
	}
	if len(errs) > 0 {
		return p.suggest(v, http.StatusUnprocessableEntity, r, form, errs, "")
	}
	set := p.Sets.Load()
	if set == nil {
		return kit.ErrUnavailable
	}
	counted := r.Clone()
	counted.IsActive = true // also one that is disabled has requests
	now, err := setWith(set, &counted)
	if err != nil {
		return p.suggest(v, http.StatusUnprocessableEntity, r, form, nil,
			"The rules do not compile with this rule: "+err.Error())
	}
	id, err := p.Jobs.Start(v.SessionID(), from, &suggested{r.ID, form},
		func(ctx context.Context, s backtest.Span) (any, error) {
			return backtest.Suggest(ctx, backtest.SuggestOptions{Span: s, Rules: now, Rule: counted.Name, Windows: windows,
				Headroom: headroom, MaxKeys: backtest.JobKeys})
		})
	if err != nil {
		return p.suggest(v, http.StatusConflict, r, form, nil, notStarted(err))
	}
	return v.SeeOther(jobLink(view.RulePath(r.ID)+"/suggest", id))
}

// suggestForm reads the windows and the headroom factor.
func suggestForm(form url.Values) (windows []time.Duration, headroom float64, errs []field.Problem) {
	wrong := func(member, message string, args ...any) {
		errs = append(errs, field.Problem{Field: member, Message: fmt.Sprintf(message, args...)})
	}
	for text := range strings.FieldsFuncSeq(form.Get("windows"), func(c rune) bool { return c == ',' || c == ' ' }) {
		w, err := time.ParseDuration(text)
		switch {
		case err != nil:
			wrong("windows", "%q is not a duration such as 10s, 1m or 24h", text)
		case w < time.Millisecond || w.Milliseconds() > limiter.MaxWindow:
			wrong("windows", "must be between 1ms and %s each", durationWords(time.Duration(limiter.MaxWindow)*time.Millisecond))
		case !slices.Contains(windows, w):
			windows = append(windows, w)
		}
	}
	if len(errs) == 0 && (len(windows) == 0 || len(windows) > backtest.MaxWindows) {
		wrong("windows", "must have 1 to %s durations", view.Count(backtest.MaxWindows))
	}
	headroom, err := strconv.ParseFloat(strings.TrimSpace(form.Get("headroom")), 64)
	if err != nil || math.IsNaN(headroom) || headroom < 1 || headroom > backtest.MaxHeadroom {
		wrong("headroom", "must be a number between 1 and %s", view.Count(backtest.MaxHeadroom))
	}
	return windows, headroom, errs
}

// makeCandidate makes a limit the candidate of a rule. The candidate counts in parallel and denies nothing.
func (p *Pages) makeCandidate(v *kit.Visit, id int64, form url.Values) error {
	r, err := p.Rules.GetRule(v.Ctx, id)
	if err != nil {
		return err
	}
	limit, limitErr := strconv.ParseInt(form.Get("limit"), 10, 64)
	window, windowErr := strconv.ParseInt(form.Get("window_ms"), 10, 64)
	if limitErr != nil || windowErr != nil || limit < 1 || window < 1 {
		return p.suggest(v, http.StatusUnprocessableEntity, r, nil, nil,
			"limit and window_ms must be positive numbers. Nothing was saved.")
	}
	after := r.Clone()
	after.Candidate = &rules.Candidate{Limit: &limit}
	if window != r.WindowMS {
		after.Candidate.WindowMS = &window
	}
	actor := v.ActorWithReason(form)
	if actor.Reason == "" {
		actor.Reason = "Suggested from recorded traffic"
	}
	_, err = p.Rules.UpdateRule(v.Ctx, actor, after, kit.Version(form))
	if fields := kit.FieldsOf(err); fields != nil {
		return p.suggest(v, http.StatusUnprocessableEntity, r, nil, nil,
			"Nothing was saved: "+fields[0].Field+" "+fields[0].Message+".")
	}
	return v.AfterChange(id, form, err, view.RulePath(id),
		"Rule %q has a candidate of %s per %s. It counts and denies nothing.", r.Name, view.Count(limit), view.Window(window))
}

// Suggest is the page of suggested limits.
type Suggest struct {
	Rule rules.Rule
	Job  Job
	Form view.Form
	// Problem is an error of the form as a whole.
	Problem   string
	HasLog    bool
	LogSource string
	// Range is what of the log was read, Nodes the number of nodes that decide.
	Range string
	Nodes int
	// Result is nil if there is none.
	Result *backtest.Suggestions
	// Part is the part of the rule's requests that the log contains, if several nodes decide and the log contains the
	// requests of one node: 0 if unknown. Fleet describes it for people, "" if one log contains all requests.
	Part  float64
	Fleet string
}

// scale scales the figures of one node up to all nodes.
func (p *Pages) scale(v *kit.Visit, m *Suggest) {
	if m.Nodes < 2 || !p.Jobs.OneNode() || m.Result == nil || m.Result.Keys == 0 {
		return
	}
	m.Part = p.partOf(v, m.Result)
	if m.Part == 0 {
		m.Fleet = "The log has only what this node decided, and it is not known which part of the rule's requests that is. " +
			"So the limits are those of this node alone, and none can become a candidate. A log in Kafka has all requests."
		return
	}
	m.Result = m.Result.Times(1 / m.Part)
	m.Fleet = "The log has only what this node decided, about " + view.PercentOf(m.Part*100) +
		" of the rule's requests. Peaks and limits are scaled up by that part."
}

// partOf is which part of a rule's requests suggestions are made from, 0 if that is not known.
func (p *Pages) partOf(v *kit.Visit, s *backtest.Suggestions) float64 {
	from, to := time.UnixMilli(s.From), time.UnixMilli(s.Until)
	step := time.Minute
	if p.Now().Sub(from) > history.MinutesKept {
		step = time.Hour
	}
	if to.Sub(from) < fewSteps*step || to.Sub(from) > history.MaxPoints*step || s.Cut {
		return 0 // the first and the last step count for too much
	}
	all, err := p.Stats.Stats(v.Ctx, history.Query{Rule: s.Rule, From: from, To: to, Step: step})
	if err != nil || all.Partial != nil || len(all.Series) != 1 {
		return 0
	}
	for i := range all.Series[0].Points {
		if !all.Series[0].Points[i].Known {
			return 0
		}
	}
	sum, _ := all.Series[0].Sum()
	if sum.Total() == 0 {
		return 0
	}
	part := s.Requests / float64(sum.Total())
	if part > 1+tolerance {
		return 0 // the history lacks something
	}
	return min(1, part)
}

// tolerance is by how much a log may exceed the history, because its figures are estimates.
const tolerance = 0.1

// fewSteps is the least number of steps of the history that a log must span to be compared with it.
const fewSteps = 10

// barred is the reason why the rule cannot have a candidate, "" if it can.
func (m *Suggest) barred() string {
	a, _ := limiter.ParseAlgorithm(m.Rule.Algorithm)
	switch {
	case m.Fleet != "" && m.Part == 0:
		return m.Fleet
	case a.Traits().Slots:
		return "The rule counts requests at a time. What the log has, their number in a window, suggests no limit for it."
	case m.Rule.Mode == rules.ModeShadow:
		return "The rule is in shadow mode, so it is a trial itself and cannot have a candidate. Edit its limit instead."
	}
	return ""
}

// suggestionWords describes a suggestion.
func suggestionWords(s *backtest.Suggestion) string {
	if s.DeniedKeys == 0 {
		return "nothing"
	}
	keys := view.About(s.DeniedKeys) + " keys"
	if math.Round(s.DeniedKeys) == 1 {
		keys = "1 key"
	}
	return view.PercentOf(s.Denied) + " of the requests, of " + keys
}

// percentileWords names the keys below a peak.
func percentileWords(p float64) string {
	if p == 100 {
		return "All keys"
	}
	return view.PercentOf(p) + " of the keys"
}

// same reports whether a suggestion is the limit of the rule.
func (m *Suggest) same(w *backtest.WindowSuggestion, s *backtest.Suggestion) bool {
	return w.WindowMS == m.Rule.WindowMS && s.Limit == m.Rule.Limit
}
