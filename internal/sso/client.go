package sso

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// maxResponse is the maximum size of a response of the provider, in bytes.
const maxResponse = 512 << 10

// errNoResponse is wrapped by every error of a request without a valid response.
var errNoResponse = errors.New("no response")

// newClient returns the client for requests to a provider. It keeps no connection open,
// follows no redirect, and uses https, or http if the provider has a loopback address.
func newClient(loopback bool) *http.Client {
	return &http.Client{
		Timeout: requestTimeout,
		Transport: strictTransport{loopback, &http.Transport{
			Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: requestTimeout, ResponseHeaderTimeout: requestTimeout, MaxResponseHeaderBytes: 64 << 10,
			IdleConnTimeout: time.Second,
		}},
	}
}

// strictTransport sends requests only over secure connections, limits the size of
// responses, and returns an error for responses that are not from a provider.
type strictTransport struct {
	loopback bool
	next     http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c strictTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !secure(r.URL, c.loopback) {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, fmt.Errorf("%w: not an https address", errNoResponse)
	}
	res, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoResponse, err)
	}
	if s := res.StatusCode; s >= http.StatusInternalServerError || s == http.StatusTooManyRequests || s/100 == 3 {
		res.Body.Close()
		return nil, fmt.Errorf("%w: status %s", errNoResponse, res.Status)
	}
	res.Body = http.MaxBytesReader(nil, res.Body, maxResponse)
	return res, nil
}

// secure reports whether a connection to u is encrypted or local.
func secure(u *url.URL, loopback bool) bool {
	return u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && loopback && onLoopback(u.Hostname()))
}

// Loopback reports whether a host is a loopback name or address.
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
