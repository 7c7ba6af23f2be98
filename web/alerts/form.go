package alerts

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/alerts"
	"sluice/rules/field"
	"sluice/web/bind"
	"sluice/web/kit"
	"sluice/web/view"
)

// labels are the inputs of the form by the names of the webhook's fields.
var labels = map[string]string{
	"name": "Name", "description": "Description", "url": "URL", "format": "Format", "kinds": "Kinds", "rules": "Rules",
	"denied_percent": "Share denied", "denied_per_second": "Denials per second", "is_active": "Active",
}

// objects are the form of a webhook, saving and deleting.
func (p *Pages) objects() *kit.Objects[alerts.Webhook] {
	return &kit.Objects[alerts.Webhook]{
		Kit: p.Kit, Kind: alerts.WebhookKind, Store: p.Webhooks, List: pathWebhooks, Nav: kit.PathAlerts, Page: formPage,
		New: alerts.NewWebhook, Values: values, Read: read, Differ: differences, Saved: webhookPath, Apart: true,
		Created: func(v *kit.Visit, w *alerts.Webhook) error { return p.showSecret(v, w, false) },
	}
}

func webhookPath(name string) string { return pathWebhooks + "/" + url.PathEscape(name) }

// values fills in the form of a webhook.
func values(w *alerts.Webhook) url.Values {
	form := url.Values{
		"name": {w.Name}, "description": {w.Description}, "url": {w.URL}, "format": {w.Format},
		"kinds": slices.Clone(w.Kinds), "rules": {strings.Join(w.Rules, "\n")},
		"denied_percent":    {view.Digits(w.DeniedPercent)},
		"denied_per_second": {view.Digits(w.DeniedPerSecond)},
		"version":           {view.Digits(w.Version)},
	}
	if w.IsActive {
		form.Set("is_active", "on")
	}
	return form
}

// read reads the form and validates the webhook. Errors are named after the inputs.
func read(form url.Values) (alerts.Webhook, []field.Problem) {
	w := alerts.NewWebhook()
	rd := &bind.Reader{Form: form}
	number := func(name string) (n int64) {
		if typed := rd.Whole(name); typed != nil {
			n = *typed
		}
		return n
	}
	w.Name, w.Description, w.URL = form.Get("name"), form.Get("description"), strings.TrimSpace(form.Get("url"))
	w.Format, w.Kinds, w.Rules = form.Get("format"), slices.Clone(form["kinds"]), strings.Fields(form.Get("rules"))
	w.DeniedPercent, w.DeniedPerSecond = number("denied_percent"), number("denied_per_second")
	w.IsActive = form.Get("is_active") == "on"
	w.Normalize()
	for _, f := range kit.FieldsOf(alerts.Validate(&w)) {
		name, at, list := strings.Cut(f.Field, "[")
		if i, err := strconv.Atoi(strings.TrimSuffix(at, "]")); list && err == nil && name == "rules" && i < len(w.Rules) {
			f.Message = strconv.Quote(w.Rules[i]) + " " + f.Message
		}
		rd.Wrong(name, f.Message)
	}
	return w, rd.Errs
}

// differences lists the inputs in which two webhooks differ. Of a URL it shows all, because the form has it too.
func differences(theirs, ours *alerts.Webhook) (changes []field.Change) {
	for _, c := range field.Diff(alerts.WebhookKind.Fields, theirs, ours) {
		switch c.Field {
		case "name":
			continue
		case "kinds":
			c.Old, c.New = titles(theirs.Kinds), titles(ours.Kinds)
		case "rules":
			c.Old, c.New = ruleNames(theirs), ruleNames(ours)
		case "format":
			c.Old, c.New = formatTitle(theirs.Format), formatTitle(ours.Format)
		}
		c.Field = labels[c.Field]
		changes = append(changes, c)
	}
	return changes
}

// ruleNames are the names of a webhook's rules.
func ruleNames(w *alerts.Webhook) string { return cmp.Or(strings.Join(w.Rules, ", "), "All rules") }
