package app

import (
	"crypto/tls"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/config"
	"sluice/internal/region"
	"sluice/internal/region/home"
	"sluice/internal/region/updates"
	"sluice/internal/secretfile"
	"sluice/limiter"
	"sluice/rules/match"
)

// homeConnections is the number of connections to a node of another region for keys that are at home there.
const homeConnections = 32

// homeStore is the store that asks other regions, and the exchange, which starts after it and knows which regions are
// cut off.
type homeStore struct {
	*home.Store

	exchange atomic.Pointer[updates.Exchange]
	dial     func() *tls.Config // the configuration of a new connection to another region
}

// openHome returns the store in front of the store of this region, nil without regions. token is the file with the
// credential for the others, or nil.
func openHome(cfg *config.Serve, host *Host, token *secretfile.File, sets *match.Current, store limiter.Store,
	metrics prometheus.Registerer, stops *stops) (*homeStore, error) {
	peers, names, err := otherRegions(cfg)
	if err != nil || len(peers) == 0 {
		return nil, err
	}
	h := &homeStore{}
	if h.dial, err = regionTLS(cfg, host, metrics, stops); err != nil {
		return nil, err
	}
	opt := home.Options{
		Self: cfg.Region, Peers: peers, Prefix: cfg.KeyPrefix, Store: store, Sets: sets,
		Client: regionClient(h.dial, homeConnections), Token: current(cfg.RegionToken, token), Timeout: cfg.RegionTimeout,
		Local: cfg.StoreTimeout, Now: host.Now, Trouble: host.trouble,
		CutOff: func(region string) bool {
			x := h.exchange.Load()
			return x != nil && x.CutOffFrom(region)
		},
	}
	opt.Observe = home.CountCalls(metrics, names)
	if h.Store, err = home.New(opt); err != nil {
		return nil, err
	}
	h.Register(metrics)
	stops.add("calls to other regions", h.Close)
	return h, nil
}

// overview is what the exchange knows of the other regions, false before it has begun.
func (h *homeStore) overview() (region.Overview, bool) {
	x := h.exchange.Load()
	if x == nil {
		return region.Overview{}, false
	}
	return x.Overview(), true
}

// openReceiver returns what answers other regions about keys that are at home here.
func openReceiver(cfg *config.Serve, host *Host, c *counters, sets *match.Current, metrics prometheus.Registerer) (
	*home.Receiver, error) {
	_, names, err := otherRegions(cfg)
	if err != nil {
		return nil, err
	}
	r, err := home.NewReceiver(home.ReceiverOptions{Self: cfg.Region, Others: names, Prefix: cfg.KeyPrefix, Store: c.store,
		Sets: sets, Timeout: cfg.StoreTimeout, Now: host.Now})
	if err != nil {
		return nil, err
	}
	r.Register(metrics)
	return r, nil
}

// otherRegions returns all regions but this one, and their names.
func otherRegions(cfg *config.Serve) (peers []region.Peer, names []string, err error) {
	list, err := cfg.RegionList()
	for _, r := range list {
		if r.Name != cfg.Region {
			peers, names = append(peers, region.Peer(r)), append(names, r.Name)
		}
	}
	return peers, names, err
}
