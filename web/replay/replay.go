package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"sluice/internal/backtest"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
	"sluice/web/kit"
	"sluice/web/view"
)

// The fields of the range and of the job.
const (
	rangeField = "replay.range"
	jobParam   = "job"
)

// fewPictures is how many pictures a page shows at once.
const fewPictures = 2

// ranges are how much of the decision log can be read.
var ranges = []view.Choice{{"hour", "The last hour"}, {"day", "The last day"}, {"all", "All there is"}}

// since is the beginning of a range, in ms since the epoch, 0 for all; false if there is no such range.
func (p *Pages) since(name string) (int64, bool) {
	switch name {
	case "hour":
		return p.Now().Add(-time.Hour).UnixMilli(), true
	case "day":
		return p.Now().Add(-24 * time.Hour).UnixMilli(), true
	case "all":
		return 0, true
	}
	return 0, false
}

// rangeWords describes a range.
func rangeWords(name string) string {
	switch name {
	case "hour":
		return "the last hour"
	case "day":
		return "the last day"
	}
	return "all that the log has"
}

// wrongRange is the error of a range that does not exist.
var wrongRange = field.Problem{Field: rangeField, Message: "must be hour, day or all"}

// Card is the part of the editor of a rule that starts a replay.
func (p *Pages) Card(f view.Form) templ.Component {
	_, hasLog := p.Jobs.Source()
	return card(f, hasLog, p.Jobs.Has())
}

// Start tries an edited rule on recent traffic and returns the address of the replay, which leads back to form.
func (p *Pages) Start(v *kit.Visit, edited *rules.Rule, form url.Values) (address string, err error) {
	set := p.Sets.Load()
	if set == nil {
		return "", kit.ErrUnavailable
	}
	proposed, err := setWith(set, edited)
	switch {
	case kit.FieldsOf(err) != nil:
		return "", err
	case err != nil:
		return "", &kit.Problem{Status: http.StatusUnprocessableEntity, Title: "Not replayed",
			Detail: "With this rule the rules in force do not compile: " + err.Error() + "."}
	}
	from, ok := p.since(form.Get(rangeField))
	if !ok {
		return "", &field.ValidationError{Fields: []field.Problem{wrongRange}}
	}
	draft := maps.Clone(form)
	draft.Del("do")
	id, err := p.Jobs.Start(v.SessionID(), from, &tried{edited.Name, draft},
		func(ctx context.Context, s backtest.Span) (any, error) {
			today, err := setWith(set, nil)
			if err != nil {
				return nil, err
			}
			return backtest.Run(ctx, backtest.Options{Span: s, Today: today, Proposed: proposed, MaxKeys: backtest.JobKeys})
		})
	if err != nil {
		return "", &kit.Problem{Status: http.StatusConflict, Title: "Not replayed", Detail: notStarted(err)}
	}
	return jobLink(kit.PathReplay, id), nil
}

// setWith compiles the rules in force for a replay, with a rule in place of the one with its ID or, if that is 0, as
// a new one; nil changes nothing. The figures of conditions are only of live requests.
func setWith(set *match.Set, edited *rules.Rule) (*match.Set, error) {
	src := rules.Source{Profiles: set.Profiles(), Version: set.Version()}
	last := int64(0)
	for i := range set.Len() {
		r := set.At(i).Rule
		if last = max(last, r.ID); edited == nil || r.ID != edited.ID {
			src.Rules = append(src.Rules, r)
		}
	}
	for _, pool := range set.Pools() {
		src.Pools = append(src.Pools, pool.Pool)
	}
	if edited != nil && edited.IsActive {
		r := edited.Clone()
		if r.ID == 0 {
			r.ID = last + 1
		}
		src.Rules = append(src.Rules, r)
	}
	opt := set.Options()
	out, err := match.CompileSource(src, match.Options{IPv4Prefix: opt.IPv4Prefix, IPv6Prefix: opt.IPv6Prefix,
		NAT64: opt.NAT64, FoldRoute: opt.FoldRoute})
	if err != nil {
		return nil, err
	}
	return out.WithOverrides(set.Overrides()), nil
}

// notStarted describes why a job did not start.
func notStarted(err error) string {
	if errors.Is(err, backtest.ErrNoLog) {
		return "This node keeps no decision log, so there is no traffic to replay."
	}
	return fmt.Sprintf("This node is reading its decision log for %s other people. Try again in a minute.",
		view.Count(backtest.MaxJobs))
}

func jobLink(path, id string) string { return path + "?" + url.Values{jobParam: {id}}.Encode() }

// tried is the subject of a replay: the name of the rule, and the form of the editor.
type tried struct {
	name string
	form url.Values
}

// show shows how far a replay is, or its result. A script asks for the former and is led to the latter.
func (p *Pages) show(v *kit.Visit) error {
	if v.QueryParam(jobParam) == "" {
		return p.begin(v)
	}
	m := Result{Job: p.findJob(v)}
	of, ok := m.Job.Subject.(*tried)
	switch {
	case !ok:
		m.Job = Job{}
	case v.HTMX() && m.Job.Running():
		return v.Page(http.StatusOK, jobProgress(m.Job))
	case v.HTMX():
		return v.SeeOther(jobLink(kit.PathReplay, m.Job.ID))
	default:
		m.Name, m.Range, m.Draft = of.name, rangeWords(of.form.Get(rangeField)), of.form
		m.Report, _ = m.Job.Result.(*backtest.Report)
		m.arrange()
	}
	m.Nodes = len(p.Fleet.Live(v.Ctx).Nodes)
	title := "Replay"
	if m.Name != "" {
		title = "Try " + m.Name + " on recent traffic"
	}
	return v.Page(http.StatusOK, resultPage(v.Frame(title, kit.PathReplay), m))
}

// begin lists the rules that changed last, to begin with one of them.
func (p *Pages) begin(v *kit.Visit) error {
	list, err := v.Browse(rules.Browse{Query: rules.Query{PageSize: 10}, Sort: "updated_at", Desc: true})
	if err != nil {
		return err
	}
	_, hasLog := p.Jobs.Source()
	return v.Page(http.StatusOK, beginPage(v.Frame("Replay", kit.PathReplay), list, hasLog, p.Jobs.Has()))
}

// cancel ends a job and shows its page.
func (p *Pages) cancel(v *kit.Visit, form url.Values) error {
	id := form.Get(jobParam)
	p.Jobs.Cancel(v.SessionID(), id)
	if job, ok := p.Jobs.Find(v.SessionID(), id, false); ok {
		if of, is := job.Subject.(*suggested); is {
			return v.SeeOther(jobLink(view.RulePath(of.rule)+"/suggest", id))
		}
	}
	return v.SeeOther(jobLink(kit.PathReplay, id))
}

// findJob is the job that the page is about, without a subject if this node has none.
func (p *Pages) findJob(v *kit.Visit) Job {
	job, _ := p.Jobs.Find(v.SessionID(), v.QueryParam(jobParam), v.HTMX())
	source, _ := p.Jobs.Source()
	return Job{Job: job, Source: source, Has: p.Jobs.Has(), Now: p.Now(), Path: v.Request().URL.Path}
}

// Job is a job on a page.
type Job struct {
	backtest.Job
	Source string
	// Has says which requests the log has.
	Has string
	Now time.Time
	// Path is the path of the page.
	Path string
}

// Running reports whether the job still reads.
func (j *Job) Running() bool { return j.State == backtest.JobRunning }

// link is the address of the page.
func (j *Job) link() string { return jobLink(j.Path, j.ID) }

// percent is the part of the time range that was read, 0 to 100. Traffic varies over time, so it is an estimate.
func (j *Job) percent() int64 {
	span := j.Now.UnixMilli() - j.First
	if j.First == 0 || span <= 0 {
		return 0
	}
	return min(max(0, 100*(j.At-j.First)/span), 100)
}

// Result is the page of a replay.
type Result struct {
	Job Job
	// Name is the name of the tried rule, Range the part of the log that was read.
	Name, Range string
	// Draft is the form of the editor.
	Draft url.Values
	// Report is the result, nil if there is none.
	Report *backtest.Report
	// Pictures are the pictures, with the picture of the tried rule first.
	Pictures []backtest.Demand
	// Nodes is the number of nodes that decide.
	Nodes int
}

// arrange puts the tried rule first.
func (m *Result) arrange() {
	if m.Report == nil {
		return
	}
	m.Pictures = slices.Clone(m.Report.Demand)
	slices.SortStableFunc(m.Pictures, func(a, b backtest.Demand) int {
		return btoi(b.Rule == m.Name) - btoi(a.Rule == m.Name)
	})
}

// matched reports whether the tried rule applied to a request that was replayed.
func (m *Result) matched() bool {
	return len(m.Pictures) > 0 && m.Pictures[0].Rule == m.Name || m.Report.NotJudged(m.Name) > 0
}

// sentence says what would change.
func (m *Result) sentence() string {
	r := m.Report
	switch unknown := r.NotJudged(m.Name); {
	case r.Checks == 0:
		return strings.TrimSpace("No request of the log could be replayed, so nothing is known about the change. " +
			m.Job.Has)
	case r.NewlyDenied == 0 && r.NewlyAllowed == 0 && unknown > 0:
		return fmt.Sprintf("No change was found, but %s could not be tried on %s.", m.Name, view.Plural(unknown, "event"))
	case r.NewlyDenied == 0 && r.NewlyAllowed == 0:
		return "Nothing would change: the rules as edited answer every replayed request as today's do."
	}
	return fmt.Sprintf("Of %s requests, %s would be newly denied and %s newly allowed.", view.About(r.Checks),
		view.About(r.NewlyDenied), view.About(r.NewlyAllowed))
}

// share is a part of the checks, as in "1.3% of the requests".
func (m *Result) share(n float64) string {
	return view.Percent(int64(n), int64(m.Report.Checks)) + " of the requests"
}

// changeRow is a row of a table of denials before and after.
type changeRow struct {
	Name, Note                               string
	Before, After, NewlyDenied, NewlyAllowed float64
}

func ruleRows(r *backtest.Report) (out []changeRow) {
	for _, c := range r.Rules {
		out = append(out, changeRow{c.Rule, "", c.DeniedBefore, c.DeniedAfter, c.NewlyDenied, c.NewlyAllowed})
	}
	return out
}

func keyRows(r *backtest.Report) (out []changeRow) {
	for _, c := range r.Keys {
		out = append(out, changeRow{c.Key, c.Rule, c.DeniedBefore, c.DeniedAfter, c.NewlyDenied, c.NewlyAllowed})
	}
	return out
}

// usedWords says how many of the events were used, if not all.
func usedWords(events, used int64) string {
	if used == events {
		return ""
	}
	return ", of which " + view.Count(used) + " were used"
}

// keyWords says which keys the table has, and how many keys have changes.
func keyWords(r *backtest.Report) string {
	text := view.Plural(int64(r.ChangedKeys), "key") + " with changes"
	if r.MoreKeys {
		text += ", and more"
	}
	return text + ". The most changed are listed first, then the most denied."
}
