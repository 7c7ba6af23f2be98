package app

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/api/decide"
	"sluice/internal/certificate"
	"sluice/internal/config"
	"sluice/internal/region"
	"sluice/internal/region/home"
	"sluice/internal/region/share"
	"sluice/internal/region/updates"
	"sluice/internal/secretfile"
	"sluice/rules/match"
)

const (
	// Connections to other regions are kept for a while after their last message, and given up if they do not open
	// soon.
	regionIdle, regionDial = time.Minute, time.Second
	regionConnections      = 8
)

// regions contains the parts of this node for the exchange between regions, nil without regions.
type regions struct {
	exchange *updates.Exchange
	receiver *home.Receiver
	shares   *share.Shares
	// calls returns the results of the decisions that another region was asked for.
	calls func(to string) region.Calls
}

// Receive carries out a message of another region. The exchange shows which ones were refused, whatever their kind;
// other errors say nothing about a message.
func (r *regions) Receive(ctx context.Context, kind string, body []byte) (answer any, err error) {
	switch kind {
	case home.MediaType:
		answer, err = r.receiver.Receive(ctx, body)
	case updates.RecallType:
		return r.exchange.Recall(ctx, body)
	case share.MediaType:
		answer, err = r.shares.Receive(ctx, body)
	default:
		return r.exchange.Receive(ctx, body)
	}
	var refused *region.RefusedError
	if errors.As(err, &refused) || errors.Is(err, region.ErrMessage) {
		r.exchange.Refused(err)
	}
	return answer, err
}

// Overview is what people and the API are shown of the other regions.
func (r *regions) Overview() region.Overview {
	o := r.exchange.Overview()
	o.Shares = r.shares.Overview()
	for i := range o.Peers {
		p := &o.Peers[i]
		p.Calls = r.calls(p.Name)
		if p.Failure == "" {
			p.Failure, p.FailingSince = r.shares.Failure(p.Name)
		}
	}
	return o
}

// shareSkew is the largest difference of the clocks of regions, and the largest step of the clock of a Redis, with
// which no unit is spent twice.
var shareSkew = 10 * time.Second // shorter in tests

// openRegions starts the exchange. token is the file with the credential for the others, or nil.
func openRegions(cfg *config.Serve, host *Host, token *secretfile.File, c *counters, sets *match.Current,
	metrics prometheus.Registerer, stops *stops) (*regions, error) {
	peers, _, err := otherRegions(cfg)
	if err != nil || len(peers) == 0 {
		return nil, err
	}
	opt := updates.Options{
		Self: cfg.Region, Peers: peers, Interval: cfg.RegionInterval, Prefix: cfg.KeyPrefix, Store: c.sums, Apply: c.store,
		Arrivals: c.arrivals, Sets: sets, Client: regionClient(c.home.dial, regionConnections), Now: host.Now, Log: host.Log,
		Trouble: host.trouble, Token: current(cfg.RegionToken, token),
	}
	x, err := updates.New(opt)
	if err != nil {
		return nil, err
	}
	c.home.exchange.Store(x)
	receiver, err := openReceiver(cfg, host, c, sets, metrics)
	if err != nil {
		return nil, err
	}
	shares, err := share.New(share.Options{
		Self: opt.Self, Peers: opt.Peers, Prefix: opt.Prefix, Interval: cfg.RegionShareInterval, Skew: shareSkew,
		Book: c.shares, Marks: c.sums, Sets: sets, Token: opt.Token, Client: opt.Client, Now: opt.Now, Log: opt.Log,
		Trouble: host.trouble,
	})
	if err != nil {
		return nil, err
	}
	x.Register(metrics)
	shares.Register(metrics)
	stops.add("regions", task(x.Run))
	stops.add("shares of regions", task(shares.Run))
	stops.add("incidents of regions", task(func(ctx context.Context) { noteCuts(ctx, host, x.Overview) }))
	host.Log.Info("limits can span regions", "region", cfg.Region, "regions", len(peers)+1, "interval", cfg.RegionInterval)
	return &regions{exchange: x, receiver: receiver, shares: shares, calls: c.home.Calls}, nil
}

// regionTLS returns the TLS configuration of a new connection to another region, with the files as they are then.
func regionTLS(cfg *config.Serve, host *Host, metrics prometheus.Registerer, stops *stops) (func() *tls.Config, error) {
	files := certificate.Files{Settings: certificate.Region, Cert: cfg.RegionCertFile, Key: cfg.RegionKeyFile,
		CA: cfg.RegionCAFile, Trouble: host.trouble}
	if files.Cert == "" && files.CA == "" {
		return func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }, nil
	}
	source, err := certificate.Open(files, host.Log, host.Now)
	if err != nil {
		return nil, err
	}
	publishSecretFile(metrics, "SLUICE_REGION_CERT_FILE", source.Failing)
	stops.add("TLS files of regions", task(source.Run))
	return source.ClientConfig, nil
}

// regionClient returns the client for messages to other regions. It has no HTTP/2: a message that is not answered takes
// its connection with it, so that the next one goes over another.
func regionClient(config func() *tls.Config, connections int) *http.Client {
	dialer := &net.Dialer{Timeout: regionDial}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, IdleConnTimeout: regionIdle,
			DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				ctx, cancel := context.WithTimeout(ctx, 2*regionDial)
				defer cancel()
				return (&tls.Dialer{NetDialer: dialer, Config: config()}).DialContext(ctx, network, address)
			},
			MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, ForceAttemptHTTP2: false,
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

// decides puts the store that knows the other regions in front of the counters of checks, if there are regions.
func (r *regions) decides(cfg *config.Serve, c *counters, sets *match.Current, opt *decide.CheckerOptions) {
	if r == nil {
		return
	}
	s := region.NewStore(region.StoreOptions{
		Self: cfg.Region, Store: opt.Store, Sets: sets, Spent: c.sums, Timeout: cfg.StoreTimeout,
		Regions: struct {
			*updates.Exchange
			*share.Shares
			*home.Store
		}{r.exchange, r.shares, c.home.Store},
	})
	opt.Store, opt.Regions = s, s
}
