package deliver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"sluice/internal/alerts"
)

const (
	// sendTimeout bounds an attempt, from the lookup of the name to the end of the answer.
	sendTimeout = 5 * time.Second
	// lookupTimeout bounds looking up a name.
	lookupTimeout = 2 * time.Second
	// maxAnswer is how much of the body of an answer is read and thrown away, so that the receiver is not cut off.
	maxAnswer = 4 << 10
	// maxHeader bounds the headers of an answer.
	maxHeader = 16 << 10
)

// SenderOptions configure a Sender. Guard and Now are required.
type SenderOptions struct {
	Guard *Guard
	Now   func() time.Time
	// Roots are the authorities that certificates of receivers are checked against; nil means the authorities of the
	// system.
	Roots *x509.CertPool
	// Version is the version of the build, for the header User-Agent.
	Version string
}

// Sender posts messages. It follows no redirects, uses no proxy and keeps no connection, so that each attempt checks
// the address again. It is safe for concurrent use.
type Sender struct {
	opt    SenderOptions
	client *http.Client
}

// NewSender creates a Sender.
func NewSender(opt SenderOptions) *Sender {
	dial := func(open bool) func(ctx context.Context, network, address string) (net.Conn, error) {
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			return opt.Guard.dial(ctx, network, address, open)
		}
	}
	plain := &http.Transport{DialContext: dial(true), DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: maxHeader}
	secure := &http.Transport{DialContext: dial(false), DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: maxHeader, TLSHandshakeTimeout: sendTimeout,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: opt.Roots}}
	return &Sender{opt: opt, client: &http.Client{
		Transport:     bySchema{plain: plain, secure: secure},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       sendTimeout,
	}}
}

// bySchema sends plain requests and requests over TLS by separate transports, because they may reach different
// addresses.
type bySchema struct{ plain, secure http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bySchema) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		return b.secure.RoundTrip(r)
	}
	return b.plain.RoundTrip(r)
}

// Send posts a message once, signed with each of the secrets. The error text of the attempt contains no addresses.
func (s *Sender) Send(ctx context.Context, url string, secrets []string, m *alerts.Message) alerts.Attempt {
	at := s.opt.Now()
	a := alerts.Attempt{At: at}
	status, err := s.post(ctx, url, secrets, m, at)
	a.Took, a.Status = max(0, s.opt.Now().Sub(at)), status
	switch {
	case err != nil:
		a.Error = words(err)
	case status >= 300 && status < 400:
		a.Error = fmt.Sprintf("answered %d; redirects are not followed", status)
	case status < 200 || status >= 300:
		a.Error = fmt.Sprintf("answered %d", status)
	}
	a.Gone, a.Refused = status == http.StatusGone, errors.Is(err, errRefused)
	return a
}

func (s *Sender) post(ctx context.Context, url string, secrets []string, m *alerts.Message, at time.Time) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(m.Body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Sluice/"+s.opt.Version)
	req.Header.Set("webhook-id", m.ID)
	req.Header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	req.Header.Set("webhook-signature", signatures(secrets, m.ID, at, m.Body))
	res, err := s.client.Do(req)
	if err != nil {
		return 0, err
	}
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer) // the status is the answer
	_ = res.Body.Close()                             // it was read as far as it counts
	return res.StatusCode, nil
}

// words says what went wrong, without addresses: people must not learn from them what a name leads to inside a network.
func words(err error) string {
	var name *net.DNSError
	var network net.Error
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, errRefused):
		return "the address is not allowed: it is not public, or not https, and SLUICE_WEBHOOK_ALLOW does not list it"
	case errors.As(err, &name):
		return "the name of the host could not be resolved"
	case errors.As(err, &certificate):
		return "the certificate of the host is not valid"
	case errors.As(err, &record):
		return "the host does not speak TLS"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE),
		errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed before an answer came"
	case errors.Is(err, context.Canceled):
		return "stopped before an answer came"
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %d s", sendTimeout/time.Second)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "the host is unreachable"
	}
	return "the request failed"
}
