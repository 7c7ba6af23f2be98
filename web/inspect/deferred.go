package inspect

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/kit"
	"sluice/web/view"
)

// Deferrals lists and drops deferred requests. Errors wrap rules.ErrUnavailable while the rules database is
// unreachable; any other error means that the queue is.
type Deferrals interface {
	// Deferred returns up to most queues in order of rule id: the queues of rules in force that defer, and all other
	// queues that are not empty.
	Deferred(ctx context.Context, most int) ([]DeferredQueue, error)
	// DropDeferred drops the requests of a rule that were deferred no later than until, in ms since the epoch on the
	// queue's clock, records it, and returns their number. With an error it also returns the number of requests that
	// were dropped.
	DropDeferred(ctx context.Context, actor rules.Actor, ruleID, until int64) (int, error)
}

// DeferredQueue is the queue of one rule.
type DeferredQueue struct {
	RuleID int64
	// Rule is the rule's present or last name, "" if unknown. InForce means that it still defers; only then are MaxItems
	// and MaxAge set.
	Rule    string
	InForce bool
	// Depth is the number of requests, MaxItems the largest possible one.
	Depth, MaxItems int64
	// Oldest is how long the oldest request has waited, MaxAge how long one may wait.
	Oldest, MaxAge time.Duration
	// Repeated were delivered more than once without an acknowledgement.
	Repeated int64
	// At is the time of the queue's clock, in ms since the epoch.
	At int64
}

// mostQueues is how many queues the page shows.
const mostQueues = 200

// deferredPage lists the queues of deferred requests.
func (p *Pages) deferredPage(v *kit.Visit) error {
	m := DeferredList{CanEdit: v.CanChange(access.RoleEditor), Most: mostQueues}
	queues, err := p.Deferrals.Deferred(v.Ctx, mostQueues)
	if err != nil {
		p.Logger.Warn("the console could not read the deferred requests", "error", err)
		m.Unreadable = true
	}
	m.Queues = queues
	return v.Page(http.StatusOK, deferredList(v.Frame("Deferred", kit.PathDeferred), m))
}

// drops names the act of dropDeferred. The queue may be that of a deleted rule.
func (p *Pages) drops(v *kit.Visit, form url.Values) (string, error) {
	words, err := kit.DoesToRule("drop the deferred requests of the rule ", "")(v, form)
	if errors.Is(err, rules.ErrNotFound) {
		return "drop the deferred requests of a deleted rule", nil
	}
	return words, err
}

// dropDeferred drops the requests of a queue that were there when its page was shown.
func (p *Pages) dropDeferred(v *kit.Visit, form url.Values) error {
	id, err := v.ID("id")
	if err != nil {
		return err
	}
	until, err := strconv.ParseInt(form.Get("until"), 10, 64)
	if err != nil || until < 1 {
		return &kit.Problem{Status: http.StatusUnprocessableEntity, Title: "Nothing was dropped",
			Detail: "The form does not match the page: until must be a time in milliseconds. Reload the page and try again."}
	}
	n, err := p.Deferrals.DropDeferred(v.Ctx, v.ActorWithReason(form), id, until)
	switch {
	case err != nil && kit.ProblemOf(err) != nil:
		return err
	case err != nil:
		p.Logger.Warn("the console could not drop deferred requests", "error", err, "dropped", n)
		return &kit.Problem{Status: http.StatusServiceUnavailable, Title: "The queue is unreachable",
			Detail: view.Plural(int64(n), "request") + " dropped before the queue stopped answering " +
				"or the time was over. Try again."}
	}
	v.Flash("%s dropped.", view.Plural(int64(n), "deferred request"))
	return v.SeeOther(kit.PathDeferred)
}

// DeferredList is the page of deferred requests.
type DeferredList struct {
	Queues []DeferredQueue
	// Most is the largest number of queues of the page.
	Most       int
	CanEdit    bool
	Unreadable bool
}

// ageKind is the color of the age of a queue: requests near the end of their wait are about to be lost.
func ageKind(q *DeferredQueue) string {
	switch {
	case q.MaxAge > 0 && q.Oldest*10 >= q.MaxAge*9:
		return "bad"
	case q.MaxAge > 0 && q.Oldest*2 >= q.MaxAge:
		return "warn"
	}
	return "info"
}

// depthKind is the color of the depth of a queue.
func depthKind(q *DeferredQueue) string {
	switch {
	case q.Depth >= q.MaxItems:
		return "bad"
	case q.Depth*10 >= q.MaxItems*8:
		return "warn"
	}
	return "info"
}

// queueName names a queue.
func queueName(q *DeferredQueue) string {
	if q.Rule == "" {
		return "rule " + view.Digits(q.RuleID)
	}
	return q.Rule
}
