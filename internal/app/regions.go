package app

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"sluice/api"
	"sluice/api/decide"
	"sluice/internal/config"
	"sluice/internal/region/exchange"
	"sluice/internal/secretfile"
	"sluice/internal/telemetry"
	"sluice/rules"
)

const (
	// Connections to other regions are kept for a while after their last message, and given up if they are not there soon.
	regionIdle, regionDial = time.Minute, time.Second
	regionConnections      = 8
)

// regions is the part of this node in the exchange between regions, nil without regions.
type regions struct{ exchange *exchange.Exchange }

// openRegions starts the exchange. token is the file with the credential for the others, or nil.
func openRegions(cfg *config.Serve, host *Host, token *secretfile.File, c *counters, sets *rules.Current,
	metrics *telemetry.Metrics, stops *stops) (*regions, error) {
	list, err := cfg.RegionList()
	if err != nil || len(list) == 0 {
		return nil, err
	}
	opt := exchange.Options{
		Self: cfg.Region, Interval: cfg.RegionInterval, Prefix: cfg.KeyPrefix, Store: c.sums, Apply: c.store, News: c.news,
		Sets: sets, Client: regionClient(), Now: host.Now, Log: host.Log,
		Token: func() string { return cfg.RegionToken },
	}
	if token != nil {
		opt.Token = token.Value
	}
	for _, r := range list {
		if r.Name != cfg.Region {
			opt.Peers = append(opt.Peers, exchange.Peer{Name: r.Name, Addresses: r.Addresses})
		}
	}
	x, err := exchange.New(opt)
	if err != nil {
		return nil, err
	}
	metrics.Regions(x.Overview)
	stops.add("regions", task(x.Run))
	host.Log.Info("limits can span regions", "region", cfg.Region, "regions", len(list), "interval", cfg.RegionInterval)
	return &regions{exchange: x}, nil
}

// regionClient returns the client for messages to other regions. It has no HTTP/2: a message that is not answered takes
// its connection with it, so that the next one goes over another.
func regionClient() *http.Client {
	dialer := &net.Dialer{Timeout: regionDial}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: regionDial, IdleConnTimeout: regionIdle,
			MaxIdleConnsPerHost: regionConnections, MaxConnsPerHost: regionConnections, ForceAttemptHTTP2: false,
			TLSNextProto:    map[string]func(string, *tls.Conn) http.RoundTripper{},
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		},
		// A redirect would send the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// regionCount is the number of regions, 0 without.
func regionCount(cfg *config.Serve) int {
	list, err := cfg.RegionList()
	if err != nil {
		return 0 // Validate has refused it
	}
	return len(list)
}

// decides is what a check asks, nil without regions.
func (r *regions) decides() decide.Regions {
	if r == nil {
		return nil
	}
	return r.exchange
}

// api is what serves other regions, nil without regions.
func (r *regions) api() api.Regions {
	if r == nil {
		return nil
	}
	return r.exchange
}

// shown is what the console shows, nil without regions.
func (r *regions) shown() func() exchange.Overview {
	if r == nil {
		return nil
	}
	return r.exchange.Overview
}
