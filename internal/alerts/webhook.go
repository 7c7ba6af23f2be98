package alerts

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/rules"
	"sluice/rules/field"
)

// Bounds of webhooks.
const (
	// MaxWebhooks is the largest number of webhooks.
	MaxWebhooks = 32
	// maxURL is the longest URL, in bytes, maxRules the largest number of rules that a webhook names.
	maxURL, maxRules = 2048, 100
	// maxRate is the largest DeniedPerSecond.
	maxRate = 1_000_000_000
	// defaultDenied is the share of denials, in percent, from which a rule's denials are an alert.
	defaultDenied = 50
)

// Formats of messages.
const (
	// FormatStandard is the body {type, timestamp, data} of Standard Webhooks.
	FormatStandard = "standard"
	// FormatSlack is the body {text, blocks} of Slack's incoming webhooks, which other chats understand too.
	FormatSlack = "slack"
)

// Webhook is where alerts are sent.
type Webhook struct {
	// ID is the id of the row; 0 before it is stored.
	ID int64 `json:"-"`
	// Name is unique among webhooks and has the form of a rule's name.
	Name        string `json:"name"`
	Description string `json:"description"`
	// URL is where messages are posted. Part of it is often a secret, so logs and the audit log contain only its host.
	URL string `json:"url"`
	// Format is FormatStandard or FormatSlack.
	Format string `json:"format"`
	// Kinds are the kinds that are sent; empty means all.
	Kinds []string `json:"kinds"`
	// Rules are the names of the rules whose alerts are sent; empty means all. Alerts without a rule are always sent.
	Rules []string `json:"rules"`
	// DeniedPercent is the share of a rule's requests, 0 to 100, from which its denials cause an alert, DeniedPerSecond
	// the number of denials per second. 0 turns a threshold off.
	DeniedPercent   int64 `json:"denied_percent"`
	DeniedPerSecond int64 `json:"denied_per_second"`
	// IsActive: messages are sent. While it is false, queued messages are kept for a day.
	IsActive bool `json:"is_active"`
	// DisabledReason says why Sluice itself made the webhook inactive, "" if it did not. A store ignores it.
	DisabledReason string `json:"disabled_reason"`
	// Version starts at 1 and grows by 1 with every edit; it is the ETag.
	Version   int64     `json:"version"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// Secret signs the messages. A store takes it for a new webhook and never returns it.
	Secret string `json:"secret,omitempty"`
}

// webhookFields are the fields that people write, in the order of the JSON form.
var webhookFields = []field.Field[Webhook]{
	{Name: "name", At: func(w *Webhook) any { return &w.Name }, Required: true},
	{Name: "description", At: func(w *Webhook) any { return &w.Description }, Bytes: field.MaxDescription},
	{Name: "url", At: func(w *Webhook) any { return &w.URL }, Required: true, Bytes: maxURL},
	{Name: "format", At: func(w *Webhook) any { return &w.Format }, Default: FormatStandard,
		OneOf: []string{FormatStandard, FormatSlack}},
	{Name: "kinds", At: func(w *Webhook) any { return &w.Kinds }, Noun: "kinds of alerts", Default: []string{},
		Most: int64(len(Kinds()))},
	{Name: "rules", At: func(w *Webhook) any { return &w.Rules }, Noun: "names of rules", Default: []string{},
		Most: maxRules},
	{Name: "denied_percent", At: func(w *Webhook) any { return &w.DeniedPercent }, Default: int64(defaultDenied),
		Most: 100},
	{Name: "denied_per_second", At: func(w *Webhook) any { return &w.DeniedPerSecond }, Default: int64(0), Most: maxRate},
	{Name: "is_active", At: func(w *Webhook) any { return &w.IsActive }, Default: true},
}

// WebhookKind describes webhooks. They are no part of the rules: files of rules do not have them.
var WebhookKind = &rules.Kind[Webhook]{
	Noun: "webhook", New: NewWebhook, Fields: webhookFields, Normalize: (*Webhook).Normalize, Validate: Validate,
	Diff: diff,
	Identity: func(w *Webhook) rules.Identity {
		return rules.Identity{Name: &w.Name, Version: &w.Version, CreatedAt: &w.CreatedAt, UpdatedAt: &w.UpdatedAt}
	},
}

// NewWebhook returns a webhook with the defaults and nothing else.
func NewWebhook() Webhook { return field.Fresh(webhookFields) }

// Normalize trims the texts and fills in defaults.
func (w *Webhook) Normalize() { field.Normalize(webhookFields, w) }

// Validate reports every problem of a normalised webhook at once; the error is a *field.ValidationError. Whether the
// address may be reached is not among them.
func Validate(w *Webhook) error {
	var bad []field.Problem
	wrong := func(member, format string, args ...any) {
		bad = append(bad, field.Problem{Field: member, Message: fmt.Sprintf(format, args...)})
	}
	if !field.ValidName(w.Name) {
		wrong("name", "must be %s", field.NameHelp)
	}
	if message := checkURL(w.URL); message != "" && len(w.URL) <= maxURL {
		wrong("url", "%s", message)
	}
	for i, kind := range w.Kinds {
		switch {
		case !slices.Contains(Kinds(), kind):
			wrong(fmt.Sprintf("kinds[%d]", i), "must be one of %s", strings.Join(Kinds(), ", "))
		case slices.Contains(w.Kinds[:i], kind):
			wrong(fmt.Sprintf("kinds[%d]", i), "must not be repeated")
		}
	}
	for i, name := range w.Rules {
		switch {
		case !field.ValidName(name):
			wrong(fmt.Sprintf("rules[%d]", i), "must be the name of a rule")
		case slices.Contains(w.Rules[:i], name):
			wrong(fmt.Sprintf("rules[%d]", i), "must not be repeated")
		}
	}
	return field.Check(webhookFields, w, bad)
}

// checkURL says what is wrong with a URL, "" if nothing is.
func checkURL(text string) string {
	u, err := url.Parse(text)
	if text == "" || err != nil {
		return "must be a URL such as https://hooks.example.com/sluice"
	}
	addr, err := netip.ParseAddr(u.Hostname())
	named := err != nil
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return "must begin with https://"
	case u.Hostname() == "" || u.Opaque != "":
		return "must have a host, as in https://hooks.example.com/sluice"
	case named && !validHost(CanonicalHost(u.Hostname())):
		return "must have the name of a host or a whole IP address, as in https://192.0.2.1/ or https://[2001:db8::1]/"
	case !named && addr.Zone() != "":
		return "must not have an address with a zone"
	case !validPort(u.Port()):
		return "must have a port between 1 and 65535"
	case u.User != nil:
		return "must not have a user or password; use the secret that signs the messages"
	case u.Fragment != "":
		return "must not have a fragment"
	}
	return ""
}

// validPort reports whether a port can be dialled; "" means the default port of the scheme.
func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// diff is the Diff of webhooks, for the audit log: of a URL it shows the host, because the rest is often a secret.
func diff(was, is *Webhook) []field.Change {
	changes := field.Diff(webhookFields, was, is)
	for i := range changes {
		c := &changes[i]
		if c.Field != "url" {
			continue
		}
		for _, v := range []*any{&c.Old, &c.New} {
			if text, ok := (*v).(string); ok {
				*v = HostOf(text)
			}
		}
	}
	return changes
}

// HostOf shows a URL without its path and query, which are often a secret.
func HostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "…"
	}
	return u.Scheme + "://" + u.Host + "/…"
}

// Wants reports whether a webhook is to get an event.
func (w *Webhook) Wants(e *Event) bool {
	switch {
	case !w.IsActive || len(w.Kinds) > 0 && !slices.Contains(w.Kinds, string(e.Kind)):
		return false
	case e.Kind == KindRuleDenials && e.Subject.Level != w.Thresholds():
		return false
	}
	return e.Subject.Rule == "" || len(w.Rules) == 0 || slices.Contains(w.Rules, e.Subject.Rule)
}

// Secrets of webhooks, as Standard Webhooks writes them.
const (
	secretPrefix = "whsec_"
	secretBytes  = 32
)

// NewSecret returns a new secret.
func NewSecret() string {
	raw := make([]byte, secretBytes)
	_, _ = rand.Read(raw) // never fails: it ends the process instead
	return secretPrefix + base64.StdEncoding.EncodeToString(raw)
}

// KeyOf returns the bytes of a secret with which messages are signed, nil if it is none.
func KeyOf(secret string) []byte {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
	if err != nil || len(raw) == 0 {
		return nil
	}
	return raw
}
