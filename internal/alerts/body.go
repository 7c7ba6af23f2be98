package alerts

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// maxText is the longest text of a message, in characters: Slack refuses longer ones.
const maxText = 3000

// payload is the body of Standard Webhooks.
type payload struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      Data      `json:"data"`
}

// slack is the body of Slack's incoming webhooks.
type slack struct {
	Text   string       `json:"text"`
	Blocks []slackBlock `json:"blocks"`
}

type slackBlock struct {
	Type string    `json:"type"`
	Text slackText `json:"text"`
}

type slackText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// unmarked keeps text of callers from being links and mentions in Slack, which reads the field text as markup.
var unmarked = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// BodyOf is the body of a message in a format.
func BodyOf(format, kind string, at time.Time, d *Data) []byte {
	var body any = payload{Type: kind, Timestamp: at.UTC().Truncate(time.Millisecond), Data: *d}
	if format == FormatSlack {
		text := lines(d)
		body = slack{Text: unmarked.Replace(oneLine(d.Text, maxText)),
			Blocks: []slackBlock{{Type: "section", Text: slackText{Type: "plain_text", Text: text}}}}
	}
	out, err := json.Marshal(body)
	if err != nil { // the types have nothing that cannot be encoded
		return []byte("{}")
	}
	return out
}

// lines is a message as text.
func lines(d *Data) string {
	var b strings.Builder
	b.WriteString(d.Text)
	for i := range d.Alerts {
		b.WriteString("\n• " + d.Alerts[i].Text)
	}
	if n := d.Count - int64(len(d.Alerts)); n > 0 && len(d.Alerts) > 0 {
		fmt.Fprintf(&b, "\n• and %d more", n)
	}
	if d.Suppressed > 0 {
		b.WriteString("\n" + plural(d.Suppressed, "alert") + " in between not sent.")
	}
	text := []rune(b.String())
	if len(text) > maxText {
		return string(text[:maxText-1]) + "…"
	}
	return string(text)
}

// NewMessageID returns a new id of a message.
func NewMessageID() string { return "msg_" + rand.Text() }

// TestMessage is what the test of a webhook sends.
func TestMessage(w *Webhook, at time.Time) Message {
	data := Data{Text: "This is a test of the webhook " + w.Name + " of Sluice."}
	return Message{ID: NewMessageID(), Webhook: w.ID, Subject: TypeTest, Type: TypeTest, At: at,
		Body: BodyOf(w.Format, TypeTest, at, &data)}
}
