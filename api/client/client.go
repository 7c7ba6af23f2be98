package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/secretfile"
)

// Fail modes of a client.
const (
	// FailOpen allows requests while the service is unavailable.
	FailOpen = "open"
	// FailClosed denies them with status 503.
	FailClosed = "closed"
	// FailLocal enforces Options.LocalLimit in this process.
	FailLocal = "local"
)

// Options configure a Client. The zero Options suit a service without tokens.
type Options struct {
	// Token is an API token with the scope check; Explain needs rules:read, Reset and a Refund without RequestID need
	// counters.
	Token string
	// TokenFile is the path of a file whose content is the token, instead of Token. A line break at its end is cut off. A
	// changed token is used within 10 s; while the file is not usable, the previous token is.
	TokenFile string
	// Log receives changes and problems of TokenFile, and once that the service answers what the client cannot read; nil
	// discards them.
	Log *slog.Logger
	// FailMode decides checks while the service is unavailable: FailOpen (if empty), FailClosed or FailLocal.
	FailMode string
	// LocalLimit is required for FailLocal.
	LocalLimit *LocalLimit
	// Timeout bounds Check, Batch and Reserve, which requests wait for; 25 ms if 0.
	Timeout time.Duration
	// CallTimeout bounds every other call; 1 s if 0.
	CallTimeout time.Duration
	// MaxConns is the most connections to the service, all of which are kept open for reuse; 64 if 0.
	MaxConns int
	// TLS configures https: the certificates to trust, and a client certificate. nil trusts what the system trusts.
	TLS *tls.Config
	// OnDegraded, if set, is called for every answer of the fail mode, with the reason. It must return quickly, and is
	// called concurrently.
	OnDegraded func(error)
}

// Client asks one service with one token. It is safe for concurrent use.
type Client struct {
	base                 string
	token                func() string // nil: none
	timeout, callTimeout time.Duration
	http                 *http.Client
	failMode             string
	local                *localLimiter
	onDegraded           func(error)
	log                  *slog.Logger // nil: none
	saysUnreadable       sync.Once
	breaker              breaker
	checks               dispatcher
	releasing            chan struct{} // one element for each release of ReleaseLater
	closed               atomic.Bool
	nearMu               sync.Mutex
	nears                map[*Near]bool // that are not closed; nil once the client is
}

const (
	defaultTimeout     = 25 * time.Millisecond
	defaultCallTimeout = time.Second
	defaultConns       = 64
	// idleTimeout is shorter than the idle timeout of the service, so that a connection is rarely closed while a check
	// is sent.
	idleTimeout = 30 * time.Second
	// maxReleases is how many releases of ReleaseLater are under way at once.
	maxReleases = 64
	// connectTimeout bounds a connection's start. It may be longer than Timeout: later checks use the connection.
	connectTimeout = 2 * time.Second
)

// New returns a client of the service at base, such as http://127.0.0.1:8080. It opens no connection yet.
func New(base string, opt Options) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the URL of the service must look like http://127.0.0.1:8080")
	}
	c := &Client{
		base: strings.TrimSuffix(base, "/"), timeout: opt.Timeout, callTimeout: opt.CallTimeout,
		failMode: opt.FailMode, onDegraded: opt.OnDegraded, log: opt.Log, releasing: make(chan struct{}, maxReleases),
		nears: map[*Near]bool{},
	}
	//nolint:forbidigo // the client is its own wiring: it runs in the programs of others
	c.breaker.now = time.Now
	switch {
	case opt.Timeout < 0 || opt.CallTimeout < 0 || opt.MaxConns < 0:
		return nil, errors.New("timeouts and MaxConns must not be negative")
	case opt.FailMode == "":
		c.failMode = FailOpen
	case opt.FailMode == FailLocal:
		if c.local, err = newLocalLimiter(opt.LocalLimit, c.breaker.now); err != nil {
			return nil, err
		}
	case opt.FailMode != FailOpen && opt.FailMode != FailClosed:
		return nil, fmt.Errorf("FailMode must be open, closed or local, not %q", opt.FailMode)
	}
	if c.token, err = opt.token(c.breaker.now); err != nil {
		return nil, err
	}
	if opt.Timeout == 0 {
		c.timeout = defaultTimeout
	}
	if opt.CallTimeout == 0 {
		c.callTimeout = defaultCallTimeout
	}
	conns := opt.MaxConns
	if conns == 0 {
		conns = defaultConns
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: connectTimeout}).DialContext,
			TLSClientConfig:        opt.TLS.Clone(),
			TLSHandshakeTimeout:    connectTimeout,
			MaxConnsPerHost:        conns,
			MaxIdleConns:           conns,
			MaxIdleConnsPerHost:    conns,
			IdleConnTimeout:        idleTimeout,
			DisableCompression:     true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the token must not be sent to another server
		},
	}
	c.checks.start(c)
	return c, nil
}

// token returns a function that returns the token in force, or nil if there is none.
func (o *Options) token(now func() time.Time) (func() string, error) {
	switch {
	case o.Token != "" && o.TokenFile != "":
		return nil, errors.New("set Token or TokenFile, not both")
	case o.Token != "":
		return func() string { return o.Token }, nil
	case o.TokenFile == "":
		return nil, nil //nolint:nilnil // a token is an option
	}
	file, err := secretfile.Open(secretfile.Options{Setting: "TokenFile", Path: o.TokenFile, Log: o.Log, Now: now})
	if err != nil {
		return nil, err
	}
	return file.Value, nil
}

// Close ends the calls that carry batches, waits for the client's goroutines and closes its connections. Every later
// call of a method returns ErrClosed. A second Close does nothing.
func (c *Client) Close() {
	c.nearMu.Lock()
	nears := c.nears
	c.nears = nil
	c.nearMu.Unlock()
	var closing sync.WaitGroup
	for n := range nears {
		closing.Go(n.Close)
	}
	closing.Wait()
	c.checks.close()
	c.closed.Store(true)
	c.http.CloseIdleConnections()
}

// Check decides one request and spends from every limit that applies, or from none if one of them denies. An error is a
// *Problem that says what is wrong with the check or the token, the error of ctx if that has ended, or ErrClosed. While
// the service is unavailable there is no error: the fail mode decides. While it is overloaded, a check that it has no
// turn for is denied, with Overloaded.
func (c *Client) Check(ctx context.Context, q Check) (*Answer, error) {
	body, err := q.encode()
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	a := &Answer{}
	if q.Payload != nil || len(body) > maxShared {
		err = c.decide(within, ctx, "/ratelimit/check", body, a)
	} else {
		err = c.checks.check(within, ctx, body, a)
	}
	if err := c.failed(ctx, err); err != nil {
		return nil, err
	}
	if err != nil {
		a = c.instead(q, err)
	}
	return a, nil
}

// Reserve is a Check whose weight is an estimate. If it is allowed, the answer contains a Reservation to Settle within
// ttl (1 s to 1 h, 60 s if 0); an estimate that is not settled stays charged, unless its OnExpire says otherwise. An
// answer of a fail mode has no Reservation.
func (c *Client) Reserve(ctx context.Context, q Check, ttl time.Duration) (*Answer, error) {
	body, err := q.encode()
	if err != nil {
		return nil, err
	}
	if ttl != 0 {
		member := fmt.Appendf(nil, `"ttl_ms":%d}`, ttl.Milliseconds())
		if body = body[:len(body)-1]; len(body) > 1 {
			body = append(body, ',')
		}
		body = append(body, member...)
	}
	within, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	a := &Answer{}
	err = c.decide(within, ctx, "/ratelimit/reserve", body, a)
	if err := c.failed(ctx, err); err != nil {
		return nil, err
	}
	if err != nil {
		a = c.instead(q, err)
	}
	return a, nil
}

// Settle corrects a reservation to what was used. A reservation counts once, so a Settle that failed may be repeated; a
// *Problem with status 410 says that the reservation has ended and its charge is final.
func (c *Client) Settle(ctx context.Context, s Settlement) (*Answer, error) {
	return c.operate(ctx, "/ratelimit/settle", s)
}

// Charge spends even if a limit is exceeded. No fail mode applies to it or to the methods below: if Unavailable(err),
// the service could not be asked or its counters are unavailable, and the charge may have been applied; repeat it only
// with a RequestID.
func (c *Client) Charge(ctx context.Context, q Check) (*Answer, error) {
	return c.operateOn(ctx, "/ratelimit/charge", q)
}

// Refund gives units back: with a RequestID what that request spent, once; without, what was spent last.
func (c *Client) Refund(ctx context.Context, q Check) (*Answer, error) {
	return c.operateOn(ctx, "/ratelimit/refund", q)
}

// Reset forgets the buckets of a request.
func (c *Client) Reset(ctx context.Context, q Check) (*Answer, error) {
	return c.operateOn(ctx, "/ratelimit/reset", q)
}

// lease is a request to release or renew the slots of an answer.
type lease struct {
	Lease string `json:"lease"`
}

// Release ends the concurrency slots of an answer with a Lease. Releasing one that has ended is not an error; Refunded
// is then 0.
func (c *Client) Release(ctx context.Context, token string) (*Answer, error) {
	return c.operate(ctx, "/ratelimit/release", lease{token})
}

// ReleaseLater is a Release that its caller does not wait for, unless many are under way. Close waits for it. If it
// fails, the slots end when their time is over.
func (c *Client) ReleaseLater(token string) {
	release := func() { _, _ = c.Release(context.Background(), token) }
	select {
	case c.releasing <- struct{}{}:
		c.checks.goes(func() {
			release()
			<-c.releasing
		})
	default:
		release()
	}
}

// ReleaseCheck ends the slots of a check that had a RequestID, even if its answer was lost.
func (c *Client) ReleaseCheck(ctx context.Context, q Check) (*Answer, error) {
	return c.operateOn(ctx, "/ratelimit/release", q)
}

// Renew restarts the time for which the slots of an answer with a Lease are held. Allowed is false if one has ended.
func (c *Client) Renew(ctx context.Context, token string) (*Answer, error) {
	return c.operate(ctx, "/ratelimit/renew", lease{token})
}

// RenewReservation prolongs a reservation with its slots, and adds to its estimate. If the addition does not fit,
// Allowed is false and nothing changes. Otherwise the answer contains a Reservation that replaces the old one.
func (c *Client) RenewReservation(ctx context.Context, r Renewal) (*Answer, error) {
	return c.operate(ctx, "/ratelimit/renew", r)
}

// RenewCheck restarts the time of the slots of a check that had a RequestID.
func (c *Client) RenewCheck(ctx context.Context, q Check) (*Answer, error) {
	return c.operateOn(ctx, "/ratelimit/renew", q)
}

// Explain says which rules apply to a request and why the others do not. It spends nothing.
func (c *Client) Explain(ctx context.Context, q Check) (*Explanation, error) {
	body, err := q.encode()
	if err != nil {
		return nil, err
	}
	e := &Explanation{}
	if err := c.call(ctx, "/ratelimit/explain", body, e); err != nil {
		return nil, err
	}
	return e, nil
}

func (c *Client) operateOn(ctx context.Context, path string, q Check) (*Answer, error) {
	body, err := q.encode()
	if err != nil {
		return nil, err
	}
	a := &Answer{}
	if err := c.call(ctx, path, body, a); err != nil {
		return nil, err
	}
	return a, nil
}

func (c *Client) operate(ctx context.Context, path string, document any) (*Answer, error) {
	body, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	a := &Answer{}
	if err := c.call(ctx, path, body, a); err != nil {
		return nil, err
	}
	return a, nil
}

// call makes a call that no request waits for.
func (c *Client) call(ctx context.Context, path string, body []byte, into any) error {
	within, cancel := context.WithTimeout(ctx, c.callTimeout)
	defer cancel()
	err := c.decide(within, ctx, path, body, into)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// failed returns the error that a caller gets for the error of a decision, or nil if there is none or the fail mode is
// to decide. ctx is the caller's own.
func (c *Client) failed(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case Unavailable(err):
		return nil
	}
	return err
}
