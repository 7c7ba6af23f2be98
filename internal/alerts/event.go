package alerts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// Subject is what an alert is about. Alerts about one subject are sent in order.
type Subject struct {
	Kind Kind `json:"kind"`
	// Rule is the name of a rule, "" for none. Key is the displayed name of a bucket, without credentials.
	Rule string `json:"rule,omitempty"`
	Key  string `json:"key,omitempty"`
	// Level distinguishes subjects of one kind: the percentage of key_usage, or the thresholds of rule_denials.
	Level string `json:"level,omitempty"`
}

// maxSubject bounds the name of a subject in bytes: a row of an index on Postgres holds less than 2,700.
const maxSubject = 512

// String is the name of a subject. It is unique. It is valid UTF-8 without control characters and at most maxSubject
// bytes long: a longer name is cut and ends with a hash.
func (s Subject) String() string {
	name := fmt.Sprintf("%s|%s|%s|%q", s.Kind, s.Rule, s.Level, s.Key)
	if len(name) <= maxSubject {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	return strings.ToValidUTF8(name[:maxSubject-2*len(hash)-1], "") + "~" + hex.EncodeToString(hash[:])
}

// Event is one alert: a condition of a subject has begun or ended.
type Event struct {
	// ID is the id of the row; 0 before it is stored. Later events have larger ids.
	ID int64 `json:"-"`
	// UID is unique and names the event in every place.
	UID     string    `json:"uid"`
	At      time.Time `json:"at"`
	Kind    Kind      `json:"kind"`
	State   string    `json:"state"` // On or Off
	Subject Subject   `json:"subject"`
	Data    Data      `json:"data"`
	// Silenced: no message was sent at that time, because the alert was silenced or acknowledged.
	Silenced bool `json:"silenced,omitempty"`
	// SilencedBy and AcknowledgedBy are what covers an active alert now, nil for none; see Mark.
	SilencedBy     *Silence `json:"-"`
	AcknowledgedBy *Silence `json:"-"`
}

// Data is the content of a message.
type Data struct {
	// State is On or Off, "" for a summary and a test.
	State string `json:"state,omitempty"`
	// Text is one sentence for people.
	Text string `json:"text"`
	Rule string `json:"rule,omitempty"`
	Key  string `json:"key,omitempty"`
	// Kind is the kind of the alerts in a summary.
	Kind Kind `json:"kind,omitempty"`
	// Numbers are the figures behind the text, by name.
	Numbers map[string]int64 `json:"numbers,omitempty"`
	// Nodes are the addresses of the nodes concerned, Cause is the reason for people, without addresses.
	Nodes []string `json:"nodes,omitempty"`
	Cause string   `json:"cause,omitempty"`
	// Since is when the condition began.
	Since *time.Time `json:"since,omitempty"`
	// Suppressed is how many earlier alerts about the subject were not sent, because of its quiet time.
	Suppressed int64 `json:"suppressed,omitempty"`
	// Path is the page of the console that shows the alert.
	Path string `json:"path,omitempty"`
	// Count is the number of alerts in a summary, Alerts are the first of them.
	Count  int64  `json:"count,omitempty"`
	Alerts []Data `json:"alerts,omitempty"`
}

// Thresholds returns the thresholds of rule_denials as the level of a subject.
func (w *Webhook) Thresholds() string { return levelOf(w.DeniedPercent, w.DeniedPerSecond) }

func levelOf(percent, perSecond int64) string { return fmt.Sprintf("%d%%,%d/s", percent, perSecond) }

// Message is a message to one webhook.
type Message struct {
	// ID is the same each time the message is sent, so that a receiver can recognise a repetition.
	ID string
	// Webhook is the id of the webhook's row.
	Webhook int64
	// Subject orders messages: messages with the same subject and webhook are sent one after the other.
	Subject string
	Type    string
	Body    []byte
	At      time.Time
}

// States of a Delivery.
const (
	DeliveryWaiting   = "waiting"
	DeliveryDelivered = "delivered"
	DeliveryFailed    = "failed"
)

// Delivery is a message and its delivery state.
type Delivery struct {
	ID      int64
	Message Message
	// State is waiting, delivered or failed.
	State string
	// Attempts is the number of attempts. Status is the status of the last answer, 0 without an answer; Error is the
	// reason if the last attempt failed, and Took the duration of the last attempt.
	Attempts int64
	Status   int
	Error    string
	Took     time.Duration
	// Tried is the time of the last attempt, Next the time of the next one, Ended when the message was delivered or
	// given up. Each is zero if it does not apply.
	Tried, Next, Ended time.Time
}

// Attempt is the result of sending a message once.
type Attempt struct {
	At   time.Time
	Took time.Duration
	// Status is the status of the answer, 0 without an answer.
	Status int
	// Error is "" if the message was delivered.
	Error string
	// Gone: the receiver said that it wants no more messages (410).
	Gone bool
	// Refused: nothing was sent, because the address is not allowed.
	Refused bool
}

// Delivered reports whether the receiver accepted the message.
func (a *Attempt) Delivered() bool { return a.Error == "" }

// Result says in a word what became of an attempt, for metrics.
type Result string

// The results of attempts.
const (
	ResultDelivered Result = "delivered"
	// ResultStatus: another status than 2xx and 410. ResultGone: 410.
	ResultStatus Result = "status"
	ResultGone   Result = "gone"
	// ResultNoAnswer: no connection, or no answer in time. ResultRefused: the address is not allowed.
	ResultNoAnswer Result = "no_answer"
	ResultRefused  Result = "refused"
)

// Results returns all results.
func Results() []Result {
	return []Result{ResultDelivered, ResultStatus, ResultGone, ResultNoAnswer, ResultRefused}
}

// Result returns the result of an attempt.
func (a *Attempt) Result() Result {
	switch {
	case a.Delivered():
		return ResultDelivered
	case a.Gone:
		return ResultGone
	case a.Refused:
		return ResultRefused
	case a.Status != 0:
		return ResultStatus
	}
	return ResultNoAnswer
}

// plural is a number with its noun.
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %s", n, noun+"s")
}

// oneLine shortens a text for a message.
func oneLine(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
