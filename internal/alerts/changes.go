package alerts

import (
	"errors"
	"time"
)

// ErrLeaseLost means that another node evaluates alerts, or may.
var ErrLeaseLost = errors.New("this node does not hold the lease of alerts")

// TestPause is the shortest time between the beginnings of two tests of a webhook.
const TestPause = 2 * time.Second

// ErrTestTooSoon means that another test of a webhook is under way, or began less than TestPause ago.
var ErrTestTooSoon = errors.New("another test of the webhook is under way or has just ended")

// Report is an observation of one node that the evaluating node has not read yet.
type Report struct {
	// ID is the id of the row; 0 before it is stored.
	ID int64
	// UID keeps a report from counting twice when a node stores it again.
	UID string
	// Data is JSON of package evaluate.
	Data []byte
}

// State is the stored state of a subject between two evaluations.
type State struct {
	Subject string
	// Data is JSON of package evaluate. Nil in Changes deletes the state.
	Data []byte
}

// Changes is the result of one evaluation. It is stored whole or not at all, and storing it twice has the same effect
// as storing it once.
type Changes struct {
	Events []Event
	// Messages with the same webhook and subject are sent in this order.
	Messages []Message
	States   []State
	// Read are the ids of the reports that the evaluation has used.
	Read []int64
}

// DueDelivery is a message to be sent now, with the data needed to send it.
type DueDelivery struct {
	Delivery
	// Name is the name of the webhook.
	Name string
	URL  string
	// Secrets sign the message, the newest first.
	Secrets []string
	// Version is the version of the webhook.
	Version int64
}

// Backlog describes the queue of messages to active webhooks.
type Backlog struct {
	Waiting int64
	// Oldest is the age of the oldest queued message, 0 if there is none.
	Oldest time.Duration
}

// GivenUp counts messages that were given up, by the reason.
type GivenUp struct {
	// TooOld were not delivered within a day, TooMany were the oldest of more than MaxWaiting.
	TooOld, TooMany int64
}

// DeliveryTotals counts the results of deliveries since the start of a node.
type DeliveryTotals struct {
	// Attempts counts them by their result. Tests by people are not among them.
	Attempts map[Result]int64
	GivenUp
	Backlog
}

// MaxWaiting is how many messages to one webhook wait at most.
const MaxWaiting = 10_000
