package app

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/api"
	"sluice/api/decide"
	"sluice/internal/certificate"
	"sluice/internal/config"
	"sluice/internal/region"
	"sluice/internal/region/exchange"
	"sluice/internal/region/home"
	"sluice/internal/region/share"
	"sluice/internal/region/sharing"
	"sluice/internal/region/spanning"
	"sluice/internal/secretfile"
	"sluice/rules/match"
)

const (
	// Connections to other regions are kept for a while after their last message, and given up if they are not there soon.
	regionIdle, regionDial = time.Minute, time.Second
	regionConnections      = 8
)

// regions is the part of this node in the exchange between regions, nil without regions.
type regions struct {
	exchange *exchange.Exchange
	receiver *home.Receiver
	shares   *sharing.Shares
	// calls is what became of the decisions that another region was asked for.
	calls func(to string) region.Calls
}

// Receive passes on what another region tells.
func (r *regions) Receive(ctx context.Context, body []byte) (*exchange.Answer, error) {
	return r.exchange.Receive(ctx, body)
}

// Recall answers a region that has lost its data.
func (r *regions) Recall(ctx context.Context, body []byte) ([]byte, error) {
	return r.exchange.Recall(ctx, body)
}

// Overview is what people and the API are shown of the other regions.
func (r *regions) Overview() exchange.Overview {
	o := r.exchange.Overview()
	for i := range o.Peers {
		p := &o.Peers[i]
		p.Calls = r.calls(p.Name)
		if p.Failure == "" {
			p.Failure, p.FailingSince = r.shares.Failure(p.Name)
		}
	}
	return o
}

// shareSkew is by how much the clocks of regions may differ, and that of a Redis may step, without a unit too much.
var shareSkew = 10 * time.Second // shorter in tests

// openRegions starts the exchange. token is the file with the credential for the others, or nil.
func openRegions(cfg *config.Serve, host *Host, token *secretfile.File, c *counters, sets *match.Current,
	metrics prometheus.Registerer, stops *stops) (*regions, error) {
	peers, _, err := otherRegions(cfg)
	if err != nil || len(peers) == 0 {
		return nil, err
	}
	opt := exchange.Options{
		Self: cfg.Region, Peers: peers, Interval: cfg.RegionInterval, Prefix: cfg.KeyPrefix, Store: c.sums, Apply: c.store,
		News: c.news, Sets: sets, Client: regionClient(c.home.dial, regionConnections), Now: host.Now, Log: host.Log,
		Trouble: host.trouble, Token: current(cfg.RegionToken, token),
	}
	x, err := exchange.New(opt)
	if err != nil {
		return nil, err
	}
	c.home.exchange.Store(x)
	receiver, err := openReceiver(cfg, host, c, sets, metrics)
	if err != nil {
		return nil, err
	}
	shares, err := sharing.New(sharing.Options{
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
	s := spanning.New(spanning.Options{
		Self: cfg.Region, Store: opt.Store, Sets: sets, Spent: c.sums, Timeout: cfg.StoreTimeout,
		Regions: struct {
			*exchange.Exchange
			*sharing.Shares
			*home.Store
		}{r.exchange, r.shares, c.home.Store},
	})
	opt.Store, opt.Regions = s, s
}

// sharesAPI is what answers other regions about shares, nil without regions.
func (r *regions) sharesAPI() api.Shares {
	if r == nil {
		return nil
	}
	return notedShares{r.shares, r}
}

// notedShares and notedAsks show the messages that they refuse with those that the exchange refuses.
type (
	notedShares struct {
		*sharing.Shares
		regions *regions
	}
	notedAsks struct {
		*home.Receiver
		regions *regions
	}
)

// Receive passes a message on.
func (n notedShares) Receive(ctx context.Context, body []byte) (*share.Answer, error) {
	answer, err := n.Shares.Receive(ctx, body)
	n.regions.note(err)
	return answer, err
}

// Receive passes a message on.
func (n notedAsks) Receive(ctx context.Context, body []byte) ([]byte, error) {
	answer, err := n.Receiver.Receive(ctx, body)
	n.regions.note(err)
	return answer, err
}

// note notes an error with which a message was refused. Others say nothing about the message.
func (r *regions) note(err error) {
	var refused *region.RefusedError
	if errors.As(err, &refused) || errors.Is(err, region.ErrMessage) || errors.Is(err, share.ErrMessage) {
		r.exchange.Refused(err)
	}
}

// api is what serves other regions, nil without regions.
func (r *regions) api() api.Regions {
	if r == nil {
		return nil
	}
	return r
}

// sharesShown is what the console shows of shares, nil without regions.
func (r *regions) sharesShown() func() sharing.Overview {
	if r == nil {
		return nil
	}
	return r.shares.Overview
}

// shown is what the console shows, nil without regions.
func (r *regions) shown() func() exchange.Overview {
	if r == nil {
		return nil
	}
	return r.Overview
}
