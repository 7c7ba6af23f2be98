package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
	"sluice/internal/alerts"
	"sluice/rules"
)

var webhooks = objects[alerts.Webhook]{
	kind: alerts.WebhookKind, store: func(d *Deps) rules.Store[alerts.Webhook] { return d.Webhooks }, apart: true,
	keeps: "the deliveries and the audit log refer to it", shows: []string{"disabled_reason"},
}

// testTime is how long the test of a webhook may take, with its answer.
const testTime = 15 * time.Second

// deliveryPage is the response to GET /ratelimit/webhooks/{name}/deliveries.
type deliveryPage struct {
	Deliveries    []delivery `json:"deliveries"`
	NextPageToken string     `json:"next_page_token"`
}

// delivery is a message to a webhook and the state of its delivery.
type delivery struct {
	// ID is the webhook-id of the message.
	ID   string `json:"id"`
	Type string `json:"type"`
	// State is waiting, delivered or failed.
	State    string `json:"state"`
	Attempts int64  `json:"attempts"`
	// Status is the status of the last answer, Error the reason why the last attempt failed; null if there is none.
	Status *int    `json:"status"`
	Error  *string `json:"error"`
	TookMS int64   `json:"took_ms"`
	// CreatedAt is when the message was made. The others are null if there is no such time.
	CreatedAt time.Time       `json:"created_at"`
	TriedAt   *time.Time      `json:"tried_at"`
	NextAt    *time.Time      `json:"next_at"`
	EndedAt   *time.Time      `json:"ended_at"`
	Body      json.RawMessage `json:"body"`
}

func deliveryOf(d *alerts.Delivery) delivery {
	m := &d.Message
	out := delivery{ID: m.ID, Type: m.Type, State: d.State, Attempts: d.Attempts, TookMS: d.Took.Milliseconds(),
		CreatedAt: m.At, TriedAt: optionalTime(d.Tried), NextAt: optionalTime(d.Next), EndedAt: optionalTime(d.Ended),
		Body: json.RawMessage(m.Body)}
	if d.Status != 0 {
		out.Status = &d.Status
	}
	if d.Error != "" {
		out.Error = &d.Error
	}
	return out
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// rotateWebhook gives a webhook a new secret and shows it.
func (s *Server) rotateWebhook(c echo.Context) error {
	version, err := webhooks.checkVersion(s, c)
	if err != nil {
		return err
	}
	w, err := s.deps.Webhooks.Rotate(c.Request().Context(), actor(c), c.Param("name"), version)
	if err != nil {
		return err
	}
	return writeVersion(c, http.StatusOK, &w, w.Version)
}

// testWebhook sends a message now. A receiver that does not take it is no error of this request.
func (s *Server) testWebhook(c echo.Context) error {
	// If a new deadline cannot be set, a slow receiver may cost the answer.
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(s.deps.Now().Add(testTime))
	d, err := s.deps.Webhooks.Test(c.Request().Context(), c.Param("name"))
	if errors.Is(err, alerts.ErrTestTooSoon) {
		return reply.TooSoon.Problem("Another test of this webhook is under way or has just ended.").
			With("Retry-After", strconv.Itoa(int(alerts.TestPause/time.Second)))
	}
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, deliveryOf(&d))
}

// listDeliveries sends the last messages to a webhook.
func (s *Server) listDeliveries(c echo.Context) error {
	q, err := parseQuery(c, "page_size", "page_token")
	if err != nil {
		return err
	}
	most, before := q.pageSize(), q.pageToken()
	if err := q.err(); err != nil {
		return err
	}
	list, err := s.deps.Webhooks.Deliveries(c.Request().Context(), c.Param("name"), before, most+1)
	if err != nil {
		return err
	}
	page := deliveryPage{Deliveries: []delivery{}}
	for i := range list[:min(most, len(list))] {
		page.Deliveries = append(page.Deliveries, deliveryOf(&list[i]))
	}
	if len(list) > most {
		page.NextPageToken = pageToken(list[most-1].ID)
	}
	return writeJSON(c, http.StatusOK, page)
}
