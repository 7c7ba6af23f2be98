package rulepage

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/scope"
	"sluice/web/kit"
	"sluice/web/view"
)

const (
	// trialPage and maxTrialVersions bound how many versions are searched for the start of a trial.
	trialPage        = 50
	maxTrialVersions = 500
	// enoughRequests is how many requests are enough evidence for a promotion.
	enoughRequests = 1000
	// fewChanges is how many changed requests may all be of one key.
	fewChanges = 10
	// littleEvidence is the field that confirms a promotion with too little evidence.
	littleEvidence = "little_evidence"
	// fewKeys is how many keys the page of a rule shows that would change.
	fewKeys = 5
)

// trialOf returns how many requests the rule's trial would have denied since it started, and how many it saw. With an
// error there are no counts, and they are marked as unknown.
func (p *Pages) trialOf(v *kit.Visit, r *rules.Rule, find trialFinder) (*Trial, error) {
	t, versions, err := find(v, r)
	if err == nil {
		t.Counts, err = p.Trials.Trial(v.Ctx, r.ID, versions)
	}
	if err != nil {
		t.Counts = history.TrialCounts{}
	}
	t.Unknown, t.Rule, t.Now = err != nil, r, p.Now()
	return &t, err
}

// trialFinder returns the start of a rule's trial and the versions that belong to it.
type trialFinder func(v *kit.Visit, r *rules.Rule) (Trial, []int64, error)

// findTrial searches the history for the version that started the rule's trial.
func (p *Pages) findTrial(v *kit.Visit, r *rules.Rule) (Trial, []int64, error) {
	t := Trial{Version: r.Version, At: r.UpdatedAt}
	versions := []int64{r.Version}
	for before, more := r.Version, true; more && len(versions) < maxTrialVersions; before = t.Version {
		page, err := p.Rules.RuleHistory(v.Ctx, r.ID, trialPage, before)
		if err != nil {
			return t, nil, err
		}
		more = len(page) > 0
		for i := range page {
			if !rules.SameTrial(&page[i].Rule, r) {
				more = false
				break
			}
			t.Version, t.At = page[i].Version, page[i].At
			versions = append(versions, t.Version)
		}
	}
	return t, versions, nil
}

// logFigures logs that some metrics of a rule's page could not be read.
func (p *Pages) logFigures(r *rules.Rule, err error) {
	if err != nil {
		p.Logger.Warn("could not read the figures of a rule", "rule", r.Name, "error", err)
	}
}

// Trial counts the requests that a shadow rule or a candidate would have decided otherwise.
type Trial struct {
	// Version of the rule started the trial, at the time At.
	Version int64
	At      time.Time
	// Counts are the requests since then. Unknown means that they cannot be read.
	Counts  history.TrialCounts
	Unknown bool
	// Rule is on trial. Now is the time of the page.
	Rule *rules.Rule
	Now  time.Time
}

// replacing reports whether the trial is of a shadow rule that would replace others.
func (t *Trial) replacing() bool { return t.Rule.WouldReplace() }

// canAllow reports whether the trial can also allow what is denied now.
func (t *Trial) canAllow() bool { return t.Rule.Candidate != nil || t.replacing() }

// present is what the trial is compared with.
func (t *Trial) present() string {
	if t.replacing() {
		return "the rules that it would replace"
	}
	return "the present limit"
}

// newlyDenied is the number of requests that are allowed now and that the trial would deny.
func (t *Trial) newlyDenied() int64 {
	if t.canAllow() {
		return t.Counts.NewlyDenied
	}
	return t.Counts.Denied // a shadow rule denies nothing yet
}

// of is the number of requests that are compared.
func (t *Trial) of() int64 {
	if t.canAllow() {
		return t.Counts.Compared
	}
	return t.Counts.Seen
}

// changes is the number of requests that would change.
func (t *Trial) changes() int64 { return t.newlyDenied() + t.Counts.NewlyAllowed }

// label is what the trial counts.
func (t *Trial) label() string {
	if t.canAllow() {
		return "Would change"
	}
	return "Would have denied"
}

// figure is the number of requests that would change.
func (t *Trial) figure() string {
	if t.Unknown {
		return "–"
	}
	return view.Count(t.changes())
}

// share describes the total, as in "of 7,399 requests, 1.3%".
func (t *Trial) share() string {
	switch {
	case t.Unknown:
		return "unknown: the counts could not be loaded"
	case t.Counts.Seen == 0:
		return "no request seen yet"
	}
	return "of " + view.Plural(t.of(), "request") + ", " + view.Percent(t.changes(), t.of())
}

// sentence says what a promotion would change.
func (t *Trial) sentence() string {
	if !t.canAllow() {
		return fmt.Sprintf("%s of %s would be denied.", view.Count(t.changes()), view.Plural(t.of(), "request"))
	}
	return fmt.Sprintf("%s of %s would change: %s newly denied, %s newly allowed.", view.Count(t.changes()),
		view.Plural(t.of(), "request"), view.Count(t.newlyDenied()), view.Count(t.Counts.NewlyAllowed))
}

// seenFor is how long requests have been seen.
func (t *Trial) seenFor() time.Duration {
	first := t.Counts.First
	if first.IsZero() {
		first = t.At
	}
	return t.Now.Sub(first)
}

// doubts are the reasons why the counts are too little evidence for a promotion. There are none if they are enough.
func (t *Trial) doubts() []string {
	switch {
	case t.Unknown:
		return []string{"the counts could not be loaded"}
	case t.Counts.Seen == 0:
		return []string{"no request has been seen yet"}
	}
	var out []string
	if t.Counts.Seen < enoughRequests {
		out = append(out, fmt.Sprintf("only %s seen, and %s show what is usual", were(t.Counts.Seen, "request"),
			view.Count(enoughRequests)))
	}
	whole, why := history.Day, "a whole day shows how traffic varies"
	if t.Rule.Schedule != nil {
		whole, why = 7*history.Day, "the limit follows a schedule, so a whole week shows how it works"
	}
	if got := t.seenFor(); got < whole {
		out = append(out, fmt.Sprintf("requests were seen for %s, and %s", view.Length(got), why))
	}
	if left := t.Counts.Seen - t.of(); left*10 > t.Counts.Seen {
		out = append(out, were(left, "request")+" not compared, because a fail mode decided")
	}
	if k := t.dominant(); k != nil {
		out = append(out, fmt.Sprintf("one key, %s, makes %s of the %s changes", k.Key, view.Count(k.Allowed+k.Denied),
			view.Count(t.changes())))
	}
	return out
}

// dominant is the key that makes most of the changes, nil if there is none.
func (t *Trial) dominant() *history.TopEntry {
	if t.changes() < fewChanges || t.Rule.Scope == scope.Global {
		return nil
	}
	for i := range t.Counts.Keys.Entries {
		if k := &t.Counts.Keys.Entries[i]; 2*(k.Allowed+k.Denied) > t.changes() {
			return k
		}
	}
	return nil
}

// enough describes the evidence when it is enough.
func (t *Trial) enough() string {
	return fmt.Sprintf("Enough evidence: %s in %s.", view.Plural(t.Counts.Seen, "request"), view.Length(t.seenFor()))
}

// tooLittle describes the doubts.
func tooLittle(doubts []string) string {
	return "Too little evidence: " + strings.Join(doubts, "; ") + "."
}

// keys are the first keys that would change.
func (t *Trial) keys(most int) []history.TopEntry {
	return t.Counts.Keys.Entries[:min(most, len(t.Counts.Keys.Entries))]
}

// were is "1 request was" or "2 requests were".
func were(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun + " was"
	}
	return view.Plural(n, noun) + " were"
}

// askAgain shows the confirmation page of a promotion again, if there is too little evidence and the person has not
// confirmed that. It returns false if the promotion may proceed.
func (p *Pages) askAgain(v *kit.Visit, id int64, form url.Values) (asked bool, err error) {
	if form.Get(littleEvidence) == "on" {
		return false, nil
	}
	r, err := p.Rules.GetRule(v.Ctx, id)
	if err != nil || !r.OnTrial() || r.Version != kit.Version(form) {
		return false, err // the promotion says what is wrong
	}
	t, err := p.trialOf(v, &r, p.findTrial)
	p.logFigures(&r, err)
	if len(t.doubts()) == 0 {
		return false, nil
	}
	return true, p.confirm(v, http.StatusUnprocessableEntity, r, "promote", view.NewForm(form, []field.Problem{
		{Field: littleEvidence, Message: "must be checked to promote with too little evidence"}}))
}
