package alerts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"sluice/internal/alerts"
	"sluice/web/view"
)

// kindWords are the titles of kinds, and when there is an alert of the kind.
var kindWords = map[alerts.Kind]struct{ title, about string }{
	alerts.KindRuleDenials:     {"High denials", "A rule denies more than the thresholds below."},
	alerts.KindKeyUsage:        {"Key near its limit", "A key reached a percentage of its rule's notify_percent."},
	alerts.KindKeyHot:          {"Hot key", "A key has so many checks that nodes treat it as hot."},
	alerts.KindFailModeEngaged: {"Fail mode engaged", "Redis is unreachable, and fail modes decide requests."},
	alerts.KindFailModeEnded:   {"Fail mode ended", "Redis answers again."},
	alerts.KindRuleIdle:        {"Idle rule", "A rule matched no request for a week."},
	alerts.KindSetRefused:      {"Rules refused", "The stored rules do not compile, so the previous ones stay in force."},
	alerts.KindSetOld:          {"Outdated rules", "A node has not been able to confirm its rules for long."},
	alerts.KindRegionCutOff:    {"Region cut off", "Two regions have not heard each other for 30 seconds."},
	alerts.KindRegionSetOld:    {"Outdated region", "A region has lacked an edit of the rules for five minutes."},
	alerts.KindLogDropping:     {"Decision log dropping", "The decision log loses events."},
	alerts.KindNodeStarved:     {"Node lacks CPU", "Checks are late because a node lacks CPU, whatever Redis does."},
	alerts.KindTokenRefused:    {"Refused token", "An API token is used although it is expired or revoked."},
	alerts.KindTokenExpiring:   {"Token expires soon", "An API token expires within 14 days."},
	alerts.TypeSummary:         {title: "Summary"},
	alerts.TypeTest:            {title: "Test"},
}

// kindTitle is the title of a kind or of a type of messages.
func kindTitle(kind string) string {
	if w, ok := kindWords[alerts.Kind(kind)]; ok {
		return w.title
	}
	return kind
}

// titles are the titles of kinds. No kinds means all.
func titles(kinds []string) string {
	if len(kinds) == 0 {
		return "All kinds"
	}
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = kindTitle(k)
	}
	return strings.Join(out, ", ")
}

// thresholdWords are the thresholds of a webhook: "50% of a rule's requests, or 20 per second".
func thresholdWords(w *alerts.Webhook) string {
	var parts []string
	if w.DeniedPercent > 0 {
		parts = append(parts, view.PercentOf(w.DeniedPercent)+" of a rule's requests")
	}
	if w.DeniedPerSecond > 0 {
		parts = append(parts, view.Count(w.DeniedPerSecond)+" denials per second")
	}
	return strings.Join(parts, ", or ")
}

// formatTitle is the name of a format.
func formatTitle(format string) string {
	if format == alerts.FormatSlack {
		return "Slack"
	}
	return "Standard Webhooks"
}

// stateKind is the color of a delivery, stateWords its state.
func stateKind(d *alerts.Delivery) string {
	switch {
	case d.State == alerts.DeliveryDelivered:
		return "good"
	case d.State == alerts.DeliveryFailed:
		return "bad"
	case d.Error != "":
		return "warn"
	}
	return "plain"
}

func stateWords(d *alerts.Delivery) string {
	if d.State == alerts.DeliveryWaiting && d.Attempts > 0 {
		return "retrying"
	}
	return d.State
}

// outcome says what became of a test: "the receiver answered 200 after 34 ms".
func outcome(d *alerts.Delivery) string {
	took := "after " + view.Length(d.Took)
	switch {
	case d.State == alerts.DeliveryDelivered:
		return fmt.Sprintf("Test delivered: the receiver answered %s %s.", view.Digits(d.Status), took)
	case d.Status != 0:
		return fmt.Sprintf("Test failed %s: the receiver %s.", took, d.Error)
	}
	return fmt.Sprintf("Test failed %s: %s.", took, d.Error)
}

// textOf is the text of a message, of either format, shortened.
func textOf(body []byte) string {
	var m struct {
		Text string `json:"text"`
		Data struct {
			Text string `json:"text"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &m) != nil {
		return ""
	}
	const most = 240
	text := []rune(cmp.Or(m.Text, m.Data.Text))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// maxBody is how much of a body is shown, in bytes.
const maxBody = 4096

// shownBody is a body with a line for each field, shortened to maxBody.
func shownBody(body []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, body, "", "  ") != nil {
		b.Reset()
		b.WriteString(strings.ToValidUTF8(string(body), "�"))
	}
	text := b.String()
	if len(text) <= maxBody {
		return text
	}
	end := maxBody
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "\n… shortened, " + view.Count(int64(len(body))) + " bytes in total"
}
