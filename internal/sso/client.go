package sso

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// maxAnswer bounds one answer of the provider, in bytes.
const maxAnswer = 512 << 10

// errNoAnswer is what every failure to be answered wraps.
var errNoAnswer = errors.New("no response")

// newClient makes the client for everything that is asked of a provider. It leaves
// no connection open, follows no redirect, and speaks https, or http to a loopback
// address if the provider is at one.
func newClient(loopback bool) *http.Client {
	return &http.Client{
		Timeout: patience,
		Transport: careful{loopback, &http.Transport{
			Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: patience, ResponseHeaderTimeout: patience, MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: time.Second,
		}},
	}
}

// careful asks only where it is safe, reads only so much, and takes whatever is no
// answer of a provider for its absence.
type careful struct {
	loopback bool
	next     http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c careful) RoundTrip(r *http.Request) (*http.Response, error) {
	if !private(r.URL, c.loopback) {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, fmt.Errorf("%w: not an https address", errNoAnswer)
	}
	res, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	if s := res.StatusCode; s >= http.StatusInternalServerError || s == http.StatusTooManyRequests || s/100 == 3 {
		res.Body.Close()
		return nil, fmt.Errorf("%w: status %s", errNoAnswer, res.Status)
	}
	res.Body = http.MaxBytesReader(nil, res.Body, maxAnswer)
	return res, nil
}

// private reports whether nobody between can read or change what goes to u.
func private(u *url.URL, loopback bool) bool {
	return u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && loopback && onLoopback(u.Hostname()))
}

// Loopback reports whether an address is one of this machine.
func Loopback(address string) bool {
	u, err := url.Parse(address)
	return err == nil && onLoopback(u.Hostname())
}

func onLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
