package alerts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// Subject is what an alert is about. Two alerts about one subject are told in order.
type Subject struct {
	Kind Kind `json:"kind"`
	// Rule is the name of a rule, "" for none. Key is the displayed name of a bucket, without credentials.
	Rule string `json:"rule,omitempty"`
	Key  string `json:"key,omitempty"`
	// Level is the percentage of key_usage, the thresholds of rule_denials, or what else tells subjects apart.
	Level string `json:"level,omitempty"`
}

// maxSubject bounds the name of a subject in bytes: a row of an index on Postgres holds less than 2,700.
const maxSubject = 512

// String is the name of a subject. No two subjects have the same. It is valid UTF-8 without control characters and has
// at most maxSubject bytes: of a longer key it has the beginning and a hash.
func (s Subject) String() string {
	name := fmt.Sprintf("%s|%s|%s|%q", s.Kind, s.Rule, s.Level, s.Key)
	if len(name) <= maxSubject {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	return strings.ToValidUTF8(name[:maxSubject-2*len(hash)-1], "") + "~" + hex.EncodeToString(hash[:])
}

// Event is one alert: a subject that came into a state, or left it.
type Event struct {
	// ID is that of the row; 0 before it is stored. A later event has a larger one.
	ID int64 `json:"-"`
	// UID is unique and names the event in every place.
	UID     string    `json:"uid"`
	At      time.Time `json:"at"`
	Kind    Kind      `json:"kind"`
	State   string    `json:"state"` // On or Off
	Subject Subject   `json:"subject"`
	Data    Data      `json:"data"`
}

// Data is what a message says.
type Data struct {
	// State is On or Off, "" for a summary and a test.
	State string `json:"state,omitempty"`
	// Text is one sentence for people.
	Text string `json:"text"`
	Rule string `json:"rule,omitempty"`
	Key  string `json:"key,omitempty"`
	// Kind is that of the alerts of a summary.
	Kind Kind `json:"kind,omitempty"`
	// Numbers are the figures behind the text, by name.
	Numbers map[string]int64 `json:"numbers,omitempty"`
	// Nodes are the addresses of the nodes concerned, Cause says why, in words without addresses.
	Nodes []string `json:"nodes,omitempty"`
	Cause string   `json:"cause,omitempty"`
	// Since is when it began.
	Since *time.Time `json:"since,omitempty"`
	// Suppressed is how many earlier alerts about the subject were not sent, because of its quiet time.
	Suppressed int64 `json:"suppressed,omitempty"`
	// Path is the page of the console that shows it.
	Path string `json:"path,omitempty"`
	// Count is the number of alerts in a summary, Alerts are the first of them.
	Count  int64  `json:"count,omitempty"`
	Alerts []Data `json:"alerts,omitempty"`
}

// Thresholds are those of rule_denials as a level of a subject.
func (w *Webhook) Thresholds() string { return levelOf(w.DeniedPercent, w.DeniedPerSecond) }

func levelOf(percent, perSecond int64) string { return fmt.Sprintf("%d%%,%d/s", percent, perSecond) }

// Message is what one webhook gets.
type Message struct {
	// ID is the same each time the message is sent, so that a receiver can tell a repetition.
	ID string
	// Webhook is the id of the webhook's row.
	Webhook int64
	// Subject orders messages: those of one subject and webhook are sent one after the other.
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

// Delivery is a message and what became of it.
type Delivery struct {
	ID      int64
	Message Message
	// State is waiting, delivered or failed.
	State string
	// Attempts is how often it was sent. Status is that of the last answer, 0 without one; Error says why the last attempt
	// failed, and Took how long it took.
	Attempts int64
	Status   int
	Error    string
	Took     time.Duration
	// Tried is the time of the last attempt, Next that of the next one, Ended when it was delivered or given up. They are
	// zero if there is none.
	Tried, Next, Ended time.Time
}

// Attempt is the result of sending a message once.
type Attempt struct {
	At   time.Time
	Took time.Duration
	// Status is that of the answer, 0 without one.
	Status int
	// Error is "" if the message was delivered.
	Error string
	// Gone: the receiver said that it wants no more messages (410).
	Gone bool
	// Refused: nothing was sent, because the address is not allowed.
	Refused bool
}

// Delivered reports whether the receiver has the message.
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
