package records

// Schema is the number of the present form of an event. It changes when a member changes its meaning or is removed.
const Schema = 1

// Event is one line of the decision log: one operation and its answer, or several equal denials of one bucket. Its key,
// rule, limit and used come from the strictest limit; they are "" and 0 if no limit applied.
type Event struct {
	// Schema is Schema.
	Schema int `json:"schema"`
	// TS is the time of the decision by the clock of the counter store, ms since the epoch. If the store did not
	// decide, or returned a stored answer for a repeat, it is by the clock of the node.
	TS int64 `json:"ts"`
	// Key is the bucket's name for people.
	Key         string `json:"key"`
	Rule        string `json:"rule"`
	RuleVersion int64  `json:"rule_version"`
	// Limit is the capacity of the limit in units. Used is the number of units that count after the operation; it may
	// exceed Limit.
	Limit   int64 `json:"limit"`
	Used    int64 `json:"used"`
	Allowed bool  `json:"allowed"`
	// Weight is in units; it counts for every limit unless the limit has its own. For a settle it is the actual weight,
	// -1 if it equals the estimate.
	Weight int64 `json:"weight"`
	// Status is the status for the client: 200, 202, 402, 403, 429 or 503.
	Status    int    `json:"status"`
	ClientIP  string `json:"client_ip"`
	UserAgent string `json:"user_agent"`
	TraceID   string `json:"trace_id"`
	RequestID string `json:"request_id"`
	Route     string `json:"route"`
	Method    string `json:"method"`
	// Op is one of Ops.
	Op string `json:"op"`
	// Only is bans if a reset ended bans and reset nothing else.
	Only string `json:"only,omitempty"`
	// ReserveMS is the lifetime of the reservation that the check got, in ms.
	ReserveMS int64 `json:"reserve_ms,omitempty"`
	// Granted is the number of requests like this one that a reserve has charged for its caller to decide; Weight is
	// the weight of all of them.
	Granted int64 `json:"granted,omitempty"`
	// By is caller if a settle reports decisions of the caller of such a reserve; Decisions counts them.
	By        string     `json:"by,omitempty"`
	Decisions *Decisions `json:"decisions,omitempty"`
	// Face is the interface that received the question: http, grpc, or the face of a gateway.
	Face string `json:"face"`
	Node string `json:"node"`
	// Mode is the mode of the strictest limit: enforce, shadow or candidate.
	Mode string `json:"mode"`
	// Degraded is the fail mode that decided, "" for the store.
	Degraded string `json:"degraded"`
	// Overloaded: denied because the counter store had no turn for the request. Its limits were not checked.
	Overloaded bool `json:"overloaded,omitempty"`
	// Deferred is unknown if the status is 202 and the request may or may not be in its queue.
	Deferred string `json:"deferred,omitempty"`
	// RetryAfterMS is 0 if allowed, and -1 for never.
	RetryAfterMS int64 `json:"retry_after_ms"`
	// Rate is the percentage of entities whose allowed requests are recorded, and Drawn says whether the entity of this
	// event is among them.
	Rate  float64 `json:"rate"`
	Drawn bool    `json:"drawn"`
	// Folded is the number of further denials that this event represents.
	Folded int64 `json:"folded"`
	// Facts are the facts that the rules used, null if there were none: for direct limits, operations by a token, and
	// descriptors. The facts of a settle are the actual weights by field.
	Facts *Facts `json:"facts"`
	// Omitted names the facts that this log never contains.
	Omitted []string `json:"omitted,omitempty"`
	// Limits contains each limit that applied, enforced ones first.
	Limits []Limit `json:"limits"`
	// Shortened names the members that were cut or left out because the event was too long.
	Shortened []string `json:"shortened,omitempty"`
}

// Decisions are numbers of requests.
type Decisions struct {
	Allowed int64 `json:"allowed"`
	Denied  int64 `json:"denied"`
}

// Facts is what rules see of a request. Absent facts are absent.
type Facts struct {
	Method     string            `json:"method,omitempty"`
	Route      string            `json:"route,omitempty"`
	Host       string            `json:"host,omitempty"`
	IP         string            `json:"ip,omitempty"`
	User       string            `json:"user,omitempty"`
	APIKey     string            `json:"api_key,omitempty"`
	Tier       string            `json:"tier,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Fields     map[string]int64  `json:"fields,omitempty"`
}

// Limit is one limit of an event.
type Limit struct {
	Key          string `json:"key"`
	Rule         string `json:"rule"`
	RuleVersion  int64  `json:"rule_version"`
	Mode         string `json:"mode"`
	Limit        int64  `json:"limit"`
	Used         int64  `json:"used"`
	Allowed      bool   `json:"allowed"`
	Weight       int64  `json:"weight"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	// Degraded is the fail mode that decided this limit, "" for the store.
	Degraded string `json:"degraded,omitempty"`
	// Overloaded: the counter store had no turn for this limit.
	Overloaded bool `json:"overloaded,omitempty"`
	// ConditionFailed: the rule's condition could not be evaluated, which counts as true.
	ConditionFailed bool `json:"condition_failed,omitempty"`
	// Direct is the limit itself if the caller sent it. It is nil for a limit of a rule.
	Direct *Direct `json:"direct,omitempty"`
}

// Direct is a limit that the caller sent; it has the same members as in POST /ratelimit/check.
type Direct struct {
	Algorithm string `json:"algorithm"`
	Limit     int64  `json:"limit"`
	WindowMS  int64  `json:"window_ms"`
	Burst     int64  `json:"burst,omitempty"`
	Align     string `json:"align,omitempty"`
	AnchorMS  int64  `json:"anchor_ms,omitempty"`
	Buckets   int64  `json:"buckets,omitempty"`
}

// OnlyBans is the value of Event.Only, DeferredUnknown the value of Event.Deferred.
const (
	OnlyBans        = "bans"
	DeferredUnknown = "unknown"
)

// Ops are the operations of events, by the words of the API.
func Ops() []string {
	return []string{"check", "charge", "refund", "release", "renew", "settle", "reset"}
}
