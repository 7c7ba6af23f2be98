package alerts

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/alerts"
	"sluice/web/kit"
	"sluice/web/view"
)

const (
	// shownDeliveries is how many deliveries the page of a webhook has.
	shownDeliveries = 50
	// testTime is how long the test of a webhook may take, with its page.
	testTime = 15 * time.Second
)

// WebhookLine is a row of the table of webhooks.
type WebhookLine struct {
	Webhook alerts.Webhook
	Status  alerts.WebhookStatus
}

// listWebhooks shows all webhooks and how their deliveries go.
func (p *Pages) listWebhooks(v *kit.Visit) error {
	list, err := p.Webhooks.List(v.Ctx)
	if err != nil {
		return err
	}
	statuses, err := p.Webhooks.Statuses(v.Ctx)
	if err != nil {
		return err
	}
	lines := make([]WebhookLine, len(list))
	for i := range list {
		lines[i] = WebhookLine{list[i], statuses[list[i].ID]}
	}
	return v.Page(http.StatusOK, webhooksPage(v.Frame("Webhooks", kit.PathAlerts), lines))
}

// WebhookPage is the page of one webhook.
type WebhookPage struct {
	WebhookLine
	// Deliveries are the last ones, newest first.
	Deliveries []alerts.Delivery
	// Tested is the delivery of the test that was just sent, nil for none.
	Tested *alerts.Delivery
	// IDs are the rules in force by name, nil if they are not known.
	IDs map[string]int64
}

// missing reports whether no active rule has a name. Alerts come about rules that are active only.
func (m *WebhookPage) missing(rule string) bool { return m.IDs != nil && m.IDs[rule] == 0 }

// webhook shows one webhook with its last deliveries.
func (p *Pages) webhook(v *kit.Visit) error {
	w, err := p.Webhooks.Get(v.Ctx, v.Param("name"))
	if err != nil {
		return err
	}
	m := WebhookPage{WebhookLine: WebhookLine{Webhook: w}}
	if p.Sets.Load() != nil {
		m.IDs = p.IDs(w.Rules...)
	}
	if m.Deliveries, err = p.Webhooks.Deliveries(v.Ctx, w.Name, 0, shownDeliveries); err != nil {
		return err
	}
	statuses, err := p.Webhooks.Statuses(v.Ctx)
	if err != nil {
		return err
	}
	m.Status = statuses[w.ID]
	if id, err := strconv.ParseInt(v.QueryParam("test"), 10, 64); err == nil {
		is := func(d alerts.Delivery) bool { return d.ID == id && d.Message.Type == alerts.TypeTest }
		if i := slices.IndexFunc(m.Deliveries, is); i >= 0 {
			m.Tested = &m.Deliveries[i]
		}
	}
	return v.Page(http.StatusOK, webhookPage(v.Frame("Webhook "+w.Name, kit.PathAlerts), &m))
}

var errTooSoon = &kit.Problem{Status: http.StatusTooManyRequests, Title: "Another test was just sent",
	Detail: "A test of this webhook is under way or has just ended, so none was sent. Go back and try again."}

// test sends a message to a webhook now. The page that it leads to shows what became of it.
func (p *Pages) test(v *kit.Visit) error {
	// If a new deadline cannot be set, a slow receiver may cost the page.
	_ = http.NewResponseController(v.Response()).SetWriteDeadline(time.Now().Add(testTime)) //nolint:forbidigo // sockets
	d, err := p.Webhooks.Test(v.Ctx, v.Param("name"))
	switch {
	case errors.Is(err, alerts.ErrTestTooSoon):
		return errTooSoon
	case err != nil:
		return err
	}
	return v.SeeOther(webhookPath(v.Param("name")) + "?test=" + view.Digits(d.ID))
}

// rotates names the act of rotate.
func rotates(v *kit.Visit, _ url.Values) (string, error) {
	return "rotate the secret of the webhook " + kit.Named(v.Param("name")), nil
}

// rotate gives a webhook a new secret and shows it once.
func (p *Pages) rotate(v *kit.Visit, form url.Values) error {
	w, err := p.Webhooks.Rotate(v.Ctx, v.Actor(), v.Param("name"), kit.Version(form))
	if err != nil {
		return err
	}
	p.Logger.Info("rotated the secret of a webhook", "webhook", w.Name, "by", v.User.Name)
	return p.showSecret(v, &w, true)
}

// showSecret shows the secret of a webhook. The answer is the page itself, because a redirect would have to store the
// secret.
func (p *Pages) showSecret(v *kit.Visit, w *alerts.Webhook, rotated bool) error {
	return v.Page(http.StatusOK, secretPage(v.Frame("Webhook "+w.Name, kit.PathAlerts), w, rotated))
}

// rulesWords names the rules of a webhook, shortened.
func rulesWords(w *alerts.Webhook) string {
	const most = 3
	switch n := len(w.Rules); {
	case n == 0:
		return "all rules"
	case n <= most:
		return strings.Join(w.Rules, ", ")
	default:
		return view.Count(int64(n)) + " rules"
	}
}
