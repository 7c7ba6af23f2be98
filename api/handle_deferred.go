package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/tree"
)

// maxQueues is the maximum number of queues in a list.
const maxQueues = 1000

// queueStatus is one queue in a list.
type queueStatus struct {
	Rule        string `json:"rule"`
	RuleID      int64  `json:"rule_id"`
	Depth       int64  `json:"depth"`
	OldestAgeMS *int64 `json:"oldest_age_ms"`
	// The limits are nil for a rule that is not in force, because nothing is queued.
	MaxItems *int64 `json:"max_items"`
	MaxAgeMS *int64 `json:"max_age_ms"`
}

// releasedItem is one released request.
type releasedItem struct {
	Ticket     string `json:"ticket"`
	Payload    string `json:"payload"`
	Key        string `json:"key"`
	AgeMS      int64  `json:"age_ms"`
	Deliveries int64  `json:"deliveries"`
}

// releaseAnswer is the response to a release.
type releaseAnswer struct {
	RuleID       int64          `json:"rule_id"`
	Items        []releasedItem `json:"items"`
	Depth        int64          `json:"depth"`
	OldestAgeMS  *int64         `json:"oldest_age_ms"`
	RetryAfterMS int64          `json:"retry_after_ms"`
}

// queueError converts an error of a queue to a problem document.
func queueError(err error) error {
	if errors.Is(err, decide.ErrQueueUnavailable) {
		return reply.QueueUnavailable.Problem("Queued requests are not lost. Try again later.").With("Retry-After", "1")
	}
	return err
}

func oldest(s decide.QueueStatus) *int64 {
	if s.Depth == 0 {
		return nil
	}
	ms := s.Age.Milliseconds()
	return &ms
}

func (s *Server) listDeferred(c echo.Context) error {
	q, err := parseQuery(c)
	if err != nil {
		return err
	}
	if err := q.err(); err != nil {
		return err
	}
	ctx := c.Request().Context()
	queues := []queueStatus{}
	for _, r := range s.deps.Checker.DeferringRules(maxQueues) {
		st, err := s.deps.Checker.Waiting(ctx, r.Rule.ID)
		if err != nil {
			return queueError(err)
		}
		queues = append(queues, queueStatus{
			Rule: r.Rule.Name, RuleID: r.Rule.ID, Depth: st.Depth, OldestAgeMS: oldest(st),
			MaxItems: &r.Rule.Defer.MaxItems, MaxAgeMS: &r.Rule.Defer.MaxAgeMS,
		})
	}
	left, err := s.inactiveQueues(ctx, queues)
	if err != nil {
		return err
	}
	queues = append(queues, left...)
	slices.SortFunc(queues, func(a, b queueStatus) int { return cmp.Compare(a.RuleID, b.RuleID) })
	return writeJSON(c, http.StatusOK, map[string]any{"queues": queues[:min(len(queues), maxQueues)]})
}

// inactiveQueues lists the nonempty queues of rules that no longer defer or are disabled
// or deleted.
func (s *Server) inactiveQueues(ctx context.Context, known []queueStatus) ([]queueStatus, error) {
	ids, err := s.deps.Checker.Queues(ctx, maxQueues)
	if err != nil {
		return nil, queueError(err)
	}
	names, _ := s.deps.History.LastNames(ctx, ids) // without the history, queues are listed without names
	var left []queueStatus
	for _, id := range ids {
		if slices.ContainsFunc(known, func(q queueStatus) bool { return q.RuleID == id }) {
			continue
		}
		st, err := s.deps.Checker.Waiting(ctx, id)
		if err != nil {
			return nil, queueError(err)
		}
		left = append(left, queueStatus{Rule: names[id], RuleID: id, Depth: st.Depth, OldestAgeMS: oldest(st)})
	}
	return left, nil
}

// findQueue finds a queue by the id or the current or last name of its rule. A rule in
// force takes precedence over deleted rules with the same name.
func (s *Server) findQueue(c echo.Context) (id int64, name string, err error) {
	id, name, err = s.deps.Checker.QueueNamed(c.Param("id"))
	if !errors.Is(err, rules.ErrNotFound) {
		return id, name, err
	}
	ctx := c.Request().Context()
	waiting, err := s.deps.Checker.Queues(ctx, maxQueues)
	if err != nil {
		return 0, "", queueError(err)
	}
	names, err := s.deps.History.LastNames(ctx, waiting)
	if err != nil {
		return 0, "", err
	}
	var ids []string
	for _, w := range waiting {
		if names[w] == c.Param("id") {
			id = w
			ids = append(ids, strconv.FormatInt(id, 10))
		}
	}
	switch len(ids) {
	case 0:
		return 0, "", rules.ErrNotFound
	case 1:
		return id, "", nil
	}
	return 0, "", &field.ValidationError{Fields: []field.Problem{{
		Field: "id", Message: "is the name of several deleted rules; use one of these ids: " + strings.Join(ids, ", "),
	}}}
}

// between reads an integer parameter; def is the value of an absent one.
func (q *query) between(name string, least, most, def int64) int64 {
	if !q.values.Has(name) {
		return def
	}
	n, err := strconv.ParseInt(q.values.Get(name), 10, 64)
	if err != nil || n < least || n > most {
		q.wrong(name, "must be between "+strconv.FormatInt(least, 10)+" and "+strconv.FormatInt(most, 10))
		return def
	}
	return n
}

// releaseDeferred releases the requests that may run now. HEAD and max=0 only return
// the state of the queue.
func (s *Server) releaseDeferred(c echo.Context) error {
	q, err := parseQuery(c, "max", "hold_ms")
	if err != nil {
		return err
	}
	most := q.between("max", 0, decide.MaxRelease, 1)
	hold := q.between("hold_ms", 1, decide.MaxQueueHold.Milliseconds(), decide.DefaultHold.Milliseconds())
	if err := q.err(); err != nil {
		return err
	}
	id, name, err := s.findQueue(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	answer := releaseAnswer{RuleID: id, Items: []releasedItem{}, RetryAfterMS: 0}
	if most > 0 && c.Request().Method == http.MethodGet {
		out, err := s.deps.Checker.Release(ctx, id, name, int(most), time.Duration(hold)*time.Millisecond)
		if err != nil {
			return queueError(err)
		}
		answer.RetryAfterMS = out.RetryAfter
		for _, it := range out.Items {
			answer.Items = append(answer.Items, releasedItem{
				Ticket: it.Ticket, Payload: it.Payload, Key: it.Key, AgeMS: it.Waited.Milliseconds(), Deliveries: it.Deliveries,
			})
		}
	}
	// The released requests are sent even if this read fails.
	st, err := s.deps.Checker.Waiting(ctx, id)
	if err != nil && len(answer.Items) == 0 {
		return queueError(err)
	}
	answer.Depth, answer.OldestAgeMS = st.Depth, oldest(st)
	return writeJSON(c, http.StatusOK, &answer)
}

func (s *Server) ackDeferred(c echo.Context) error {
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	tickets, err := decodeTickets(body)
	if err != nil {
		return err
	}
	id, name, err := s.findQueue(c)
	if err != nil {
		return err
	}
	n, err := s.deps.Checker.Acknowledge(c.Request().Context(), id, name, tickets)
	if err != nil {
		return queueError(err)
	}
	return writeJSON(c, http.StatusOK, map[string]int{"acked": n})
}

// Limits of an acknowledgement.
const (
	maxTickets = 1000
	maxTicket  = 64
)

// decodeTickets reads {"tickets": ["…"]}.
func decodeTickets(body []byte) ([]string, error) {
	v, err := parseJSON(body)
	if err != nil {
		return nil, err
	}
	for i := range v.Members {
		name := v.Members[i].Name
		if name != "tickets" {
			return nil, unknownMember(name)
		}
	}
	invalid := func(member, message string) ([]string, error) {
		return nil, &field.ValidationError{Fields: []field.Problem{{Field: member, Message: message}}}
	}
	m := v.Member("tickets")
	switch {
	case m == nil:
		return invalid("tickets", "is required")
	case m.Kind != tree.List:
		return invalid("tickets", "must be an array of strings")
	case len(m.List) == 0 || len(m.List) > maxTickets:
		return invalid("tickets", "must have 1 to "+strconv.Itoa(maxTickets)+" elements")
	}
	tickets := make([]string, len(m.List))
	for i := range m.List {
		if t := &m.List[i]; t.Kind != tree.Text || t.Text == "" || len(t.Text) > maxTicket {
			return invalid("tickets["+strconv.Itoa(i)+"]", "must be a ticket from a response of this service")
		}
		tickets[i] = m.List[i].Text
	}
	return tickets, nil
}
