package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"unicode/utf8"
)

// Check describes one request to decide. It has one of three shapes. With a Key it is direct: Limit holds the limit of
// that key. With Limits there are several of them. With neither, the facts (Method to Fields) say which rules of the
// service apply; at least one is needed, and an empty one is absent.
type Check struct {
	// Key, up to 1,024 bytes, is the key of a direct check. Key, Algorithm and WindowMS name the bucket: a changed
	// count or burst keeps the spent units, a changed window starts an empty bucket.
	Key string `json:"key,omitempty"`
	*Limit
	// Limits are 1 to 16 direct limits that are taken all together or not at all.
	Limits []DirectLimit `json:"limits,omitempty"`

	Method string `json:"method,omitempty"`
	// Route is a path, such as /v1/charges, a URL, whose path counts, or the template that the request matched.
	Route string `json:"route,omitempty"`
	// Host is the host that the request is for, with or without a port.
	Host string `json:"host,omitempty"`
	// IP is an IPv4 or IPv6 address.
	IP     string `json:"ip,omitempty"`
	User   string `json:"user,omitempty"`
	APIKey string `json:"api_key,omitempty"`
	Tier   string `json:"tier,omitempty"`
	// Attributes are up to 64 further facts.
	Attributes map[string]string `json:"attributes,omitempty"`
	// Fields are up to 64 numbers of the request, at least 0, for rules with a weight_field.
	Fields map[string]int64 `json:"fields,omitempty"`

	// Weight is in units, 0 to 2^53-1. nil weighs 1; 0 looks without spending.
	Weight *int64 `json:"weight,omitempty"`
	// RequestID, up to 64 bytes, identifies the request: a repeat within a minute gets the stored answer and is not
	// charged again. It also identifies the charge to refund and the lease to release.
	RequestID string `json:"request_id,omitempty"`
	// UserAgent and TraceID of the client's request are for the decision log; they do not affect the decision. The
	// first 512 and 64 bytes are recorded.
	UserAgent string `json:"user_agent,omitempty"`
	TraceID   string `json:"trace_id,omitempty"`
	// Dialect is what Headers and Body of the answer are for besides the usual: openai, anthropic or mcp; none if empty.
	Dialect string `json:"dialect,omitempty"`
	// Payload is stored with a request that a rule defers, up to 16 KiB; it may be empty. Without one a request is
	// never deferred. Only Check accepts it, and sends such a check in a separate call.
	Payload *string `json:"payload,omitempty"`
	// OnExpire is what happens with the estimate of a Reserve that nobody settles in time; nil keeps it charged. Only
	// Reserve accepts it.
	OnExpire *OnExpire `json:"on_expire,omitempty"`
}

// OnExpire says which part of an estimate stays charged once its reservation has ended unsettled.
type OnExpire struct {
	// Percent is 0 (all of it comes back) to 100.
	Percent int64 `json:"percent"`
}

// DirectLimit is one of several direct limits. No two of a check have the same Key, Algorithm and WindowMS.
type DirectLimit struct {
	// Name identifies the limit in the answer and in client headers, like the name of a rule. It is default-1,
	// default-2 and so on if empty.
	Name string `json:"name,omitempty"`
	// Key names the bucket as in Check.
	Key string `json:"key"`
	Limit
}

// Limit is the limit of a direct check.
type Limit struct {
	// Count is in units per window, 0 to 2^53-1.
	Count int64 `json:"limit"`
	// WindowMS is in milliseconds, from 1 to ten years. For concurrency it is how long a slot is held.
	WindowMS int64 `json:"window_ms"`
	// Algorithm is sliding_window_counter if empty.
	Algorithm string `json:"algorithm,omitempty"`
	// Burst is the capacity of token_bucket, gcra, leaky_bucket and leaky_queue, in units; Count if nil.
	Burst *int64 `json:"burst,omitempty"`
	// Align is calendar (the default) or first_hit, AnchorMS the start of a calendar window in ms since 1970; both only
	// for fixed_window.
	Align    string `json:"align,omitempty"`
	AnchorMS int64  `json:"anchor_ms,omitempty"`
	// Buckets is the number of parts of a window, up to 1,440, for sliding_window_buckets; 60 if 0.
	Buckets int64 `json:"buckets,omitempty"`
	// FailMode decides if the service cannot reach its counters: open (the default), closed or local.
	FailMode string `json:"fail_mode,omitempty"`
}

// Settlement corrects a reservation to what was used. At least one of Weight, Fields and Decisions is needed; weights
// that are not given stay as estimated.
type Settlement struct {
	// Set one of the two: Reservation from the answer, or RequestID of the reserve, which finds the newest reservation.
	Reservation string `json:"reservation,omitempty"`
	RequestID   string `json:"request_id,omitempty"`
	// Weight is in units, 0 to 2^53-1.
	Weight *int64 `json:"weight,omitempty"`
	// Fields are for rules with a weight_field.
	Fields map[string]int64 `json:"fields,omitempty"`
	// Decisions are the decisions that the caller made in its own memory, from granted requests.
	Decisions *CallerDecisions `json:"decisions,omitempty"`
}

// Renewal prolongs a reservation and adds to its estimate.
type Renewal struct {
	// Reservation is the newest one.
	Reservation string `json:"reservation"`
	// TTLMS is for how long it can be settled from now on, in ms: 1,000 to 3,600,000, 60,000 if 0. It lives for 24 hours
	// in all.
	TTLMS int64 `json:"ttl_ms,omitempty"`
	// More is what the estimate grows by; nil for nothing.
	More *More `json:"more,omitempty"`
}

// More is what an estimate grows by, in units. Limits that get nothing do not change.
type More struct {
	Weight int64 `json:"weight,omitempty"`
	// Fields are for rules with a weight_field.
	Fields map[string]int64 `json:"fields,omitempty"`
}

// CallerDecisions are numbers of requests: at most as many are Allowed as were granted, at most 1,000,000 are Denied.
type CallerDecisions struct {
	Allowed int64 `json:"allowed"`
	Denied  int64 `json:"denied"`
}

// encode returns the check as JSON. Text that is not UTF-8 is a *Problem, as the service would answer: JSON would
// give different texts the same form, and so the same bucket.
func (q *Check) encode() ([]byte, error) {
	for _, f := range [...]struct{ name, text string }{{"key", q.Key}, {"method", q.Method}, {"route", q.Route},
		{"host", q.Host}, {"ip", q.IP}, {"user", q.User}, {"api_key", q.APIKey}, {"tier", q.Tier},
		{"request_id", q.RequestID}} {
		if !utf8.ValidString(f.text) {
			return nil, notUTF8(f.name)
		}
	}
	for i := range q.Limits {
		if !utf8.ValidString(q.Limits[i].Key) || !utf8.ValidString(q.Limits[i].Name) {
			return nil, notUTF8("limits")
		}
	}
	for name, text := range q.Attributes {
		if !utf8.ValidString(name) || !utf8.ValidString(text) {
			return nil, notUTF8("attributes")
		}
	}
	for name := range q.Fields {
		if !utf8.ValidString(name) {
			return nil, notUTF8("fields")
		}
	}
	if q.Payload != nil && !utf8.ValidString(*q.Payload) {
		return nil, notUTF8("payload")
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("encoding a check failed: %w", err)
	}
	return body, nil
}

func notUTF8(field string) *Problem {
	return &Problem{Type: "/problems/malformed", Title: "Malformed request", Status: http.StatusBadRequest,
		Errors: []FieldError{{Field: field, Message: "must be valid UTF-8"}}}
}
