package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"sluice/limiter"
)

// LocalLimit is a token bucket for each key, in the memory of this process. FailLocal enforces it while the service is
// unavailable, a Guard always.
type LocalLimit struct {
	// Limit is in units per Window, Burst the most that passes at once; Limit if 0.
	Limit, Burst int64
	// Window is a whole number of milliseconds.
	Window time.Duration
	// Key names the bucket of a check. By default it is the key of a direct check, and otherwise the first of user, API
	// key and address that is not empty.
	Key func(*Check) string
	// MaxKeys bounds the buckets; 10,000 if 0. Further keys share one bucket while all of these are in use.
	MaxKeys int
}

const defaultLocalKeys = 10_000

// localLimiter enforces a LocalLimit.
type localLimiter struct {
	limit   limiter.Limit
	key     func(*Check) string
	maxKeys int
	now     func() time.Time

	mu      sync.Mutex
	buckets map[string]*localBucket
	shared  localBucket
	sweep   int64 // no bucket expires before this instant, in ms
}

type localBucket struct {
	state limiter.State
	until int64 // the instant, in ms, from which the bucket is as good as new
}

func newLocalLimiter(l *LocalLimit, now func() time.Time) (*localLimiter, error) {
	if l == nil {
		return nil, errors.New("FailLocal requires a LocalLimit")
	}
	burst := l.Burst
	if burst == 0 {
		burst = l.Limit
	}
	x := &localLimiter{key: l.Key, maxKeys: l.MaxKeys, now: now, buckets: map[string]*localBucket{},
		limit: limiter.Limit{Algorithm: limiter.TokenBucket, Count: l.Limit, Window: l.Window.Milliseconds(), Burst: burst}}
	if x.key == nil {
		x.key = defaultKey
	}
	if x.maxKeys == 0 {
		x.maxKeys = defaultLocalKeys
	}
	if l.Window%time.Millisecond != 0 || l.MaxKeys < 0 {
		return nil, errors.New("LocalLimit: Window must be a whole number of milliseconds, MaxKeys at least 0")
	}
	if ps := x.limit.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("LocalLimit: %s %s", ps[0].Field, ps[0].Message)
	}
	return x, nil
}

func defaultKey(q *Check) string {
	for _, f := range [...]struct{ kind, value string }{{"key:", q.Key}, {"user:", q.User}, {"apikey:", q.APIKey},
		{"ip:", q.IP}} {
		if f.value != "" {
			return f.kind + f.value
		}
	}
	if len(q.Limits) > 0 {
		return "key:" + q.Limits[0].Key
	}
	return ""
}

// take decides one check.
func (x *localLimiter) take(q *Check, weight int64) limiter.Decision {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.now().UnixMilli()
	b := x.bucket(x.key(q), now)
	asks := [1]limiter.Ask{{Limit: x.limit, Weight: weight}}
	var changed [1]bool
	var out [1]limiter.Decision
	var charged [1]limiter.Charged
	limiter.Decide(limiter.OpTake, asks[:], "", []*limiter.State{&b.state}, now, changed[:], out[:], charged[:])
	if b.until = now + out[0].Reset; out[0].Reset == limiter.Never {
		b.until = math.MaxInt64
	}
	return out[0]
}

// bucket returns the bucket of a key.
func (x *localLimiter) bucket(key string, now int64) *localBucket {
	if b := x.buckets[key]; b != nil {
		return b
	}
	if len(x.buckets) >= x.maxKeys && now >= x.sweep {
		x.sweep = math.MaxInt64
		for k, b := range x.buckets {
			if b.until <= now {
				delete(x.buckets, k)
			} else {
				x.sweep = min(x.sweep, b.until)
			}
		}
	}
	if len(x.buckets) >= x.maxKeys {
		return &x.shared
	}
	b := &localBucket{}
	x.buckets[key] = b
	return b
}

// instead answers a check that the service did not decide. An overloaded service, which is no outage, denies; otherwise
// the fail mode decides.
func (c *Client) instead(q Check, err error) *Answer {
	if !Overloaded(err) {
		if errors.As(err, new(unreadableError)) && c.log != nil {
			c.saysUnreadable.Do(func() {
				c.log.Warn("the service answered what this client cannot read, so the fail mode decides", "error", err)
			})
		}
		return c.Fallback(q, err)
	}
	a := &Answer{Overloaded: true, Limits: []LimitAnswer{}, Headers: map[string]string{}}
	a.deny(http.StatusServiceUnavailable, 1000)
	return a
}

// Fallback decides a check by the fail mode and tells OnDegraded about err, as Check does while the service is
// unavailable. It is for callers that let the fail mode decide about other errors too.
func (c *Client) Fallback(q Check, err error) *Answer {
	if c.onDegraded != nil {
		c.onDegraded(err)
	}
	a := &Answer{Allowed: true, Status: 200, Degraded: c.failMode, ByClient: true, Limits: []LimitAnswer{},
		Headers: map[string]string{}}
	switch c.failMode {
	case FailClosed:
		a.deny(503, 1000)
	case FailLocal:
		d := c.local.take(&q, weightOf(&q))
		c.local.describe(&d, a)
	}
	return a
}

func weightOf(q *Check) int64 {
	if q.Weight == nil {
		return 1
	}
	return min(max(*q.Weight, 0), limiter.MaxExact)
}

// describe writes a decision into an answer.
func (x *localLimiter) describe(d *limiter.Decision, a *Answer) {
	a.Limit, a.Burst, a.Remaining = &x.limit.Count, &x.limit.Burst, &d.Remaining
	a.Used, a.ResetMS, a.RetryAfterMS = &d.Used, &d.Reset, &d.RetryAfter
	a.Headers["X-RateLimit-Limit"] = fmt.Sprint(x.limit.Burst)
	a.Headers["X-RateLimit-Remaining"] = fmt.Sprint(d.Remaining)
	if !d.Allowed {
		a.deny(429, d.RetryAfter)
	}
}

// deny makes the answer a denial that ends after some milliseconds, or never.
func (a *Answer) deny(status int, retryAfter int64) {
	a.Allowed, a.Status = false, status
	seconds, advice := int64(limiter.Never), "Waiting does not help."
	if retryAfter != limiter.Never {
		seconds = (retryAfter + 999) / 1000
		advice = fmt.Sprintf("Please try again in %d seconds.", seconds)
		if seconds == 1 {
			advice = "Please try again in 1 second."
		}
		a.Headers["Retry-After"] = fmt.Sprint(seconds)
	}
	a.RetryAfterMS, a.RetryAfterS = &retryAfter, &seconds
	d := denial{Type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title: "Request cannot be satisfied as assigned quota has been exceeded", Status: status, Detail: advice,
		Policies: []string{}, Error: "rate_limit_exceeded", Message: "Too many requests. " + advice}
	if status != 429 {
		d.Type = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
		d.Title = "Request cannot be satisfied due to temporary server capacity constraints"
		d.Detail = "It cannot be determined right now whether this request is within its limits, so it is denied."
		d.Error, d.Message = "rate_limit_unavailable", "The service is busy. Please try again in a moment."
	}
	a.Body, _ = json.Marshal(d) // texts and a number: it cannot fail
}

// denial is the problem document of a denial, as the service writes it.
type denial struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Policies []string `json:"violated-policies"`
	Error    string   `json:"error"`
	Message  string   `json:"message"`
}
