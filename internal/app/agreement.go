package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/config"
	"sluice/internal/fleet"
	"sluice/internal/tick"
)

const (
	// compareWait is how long a start waits for Redis to compare settings.
	compareWait = 500 * time.Millisecond
	// compareInterval is how often a node compares its settings.
	compareInterval = 5 * time.Second
)

// The forms of key names, as Redis stores them beside the settings.
const (
	namesField  = "names"
	regionField = "region" // absent without regions
	namesPacked = "packed"
	namesPlain  = "plain"
)

// agreement compares the settings that decide which key counts a request with
// those that are stored beside the counters. The first node stores its own. The
// form of key names is no setting of a node: it takes over what is stored.
type agreement struct {
	client redis.UniversalClient
	prefix string
	log    *slog.Logger
	// plain is the form of key names in use; usePlain tells the store. usePlain is
	// nil on a cluster, whose names are always readable.
	plain    bool
	usePlain func(bool)
	own      []agreedSetting

	// agreed: this node has once had the settings that are stored.
	agreed bool
	// differ is how many settings differ now, -1 if the last comparison failed.
	differ  atomic.Int64
	failing bool   // the last comparison failed
	told    string // what was logged last of what differs
}

type agreedSetting struct{ field, flag, env, value string }

// command stores the setting of this node in Redis.
func (s *agreedSetting) command(key string) string {
	if s.value == "" {
		return "HDEL " + key + " " + s.field
	}
	return "HSET " + key + " " + s.field + " " + s.value
}

// errDiffers: this node must not count beside the others.
var errDiffers = errors.New("settings differ from those of the nodes that share the counters")

func newAgreement(cfg *config.Serve, client redis.UniversalClient, usePlain func(bool), log *slog.Logger) *agreement {
	a := &agreement{client: client, prefix: cfg.KeyPrefix, log: log, usePlain: usePlain, own: []agreedSetting{
		{"ipv4_prefix", "ipv4-prefix", "SLUICE_IPV4_PREFIX", strconv.Itoa(cfg.IPv4Prefix)},
		{"ipv6_prefix", "ipv6-prefix", "SLUICE_IPV6_PREFIX", strconv.Itoa(cfg.IPv6Prefix)},
		{"nat64_prefixes", "nat64-prefixes", "SLUICE_NAT64_PREFIXES", cfg.Addresses().NAT64Words()},
	}}
	a.own = append(a.own, agreedSetting{regionField, "region", "SLUICE_REGION", cfg.Region})
	if _, clustered := client.(*redis.ClusterClient); clustered {
		a.usePlain = nil
	}
	return a
}

// first compares at start. Redis may be unreachable: run compares later.
func (a *agreement) first(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, compareWait)
	defer cancel()
	err := a.compare(ctx)
	if err != nil && !errors.Is(err, errDiffers) {
		a.notCompared(err)
		return nil
	}
	return err
}

// notCompared logs the first error of a row of failed comparisons.
func (a *agreement) notCompared(err error) {
	a.differ.Store(-1)
	if !a.failing {
		a.failing = true
		a.log.Warn("the settings that nodes share could not be compared; the node keeps its own and tries again",
			"key", fleet.SettingsKey(a.prefix), "error", err)
	}
}

// run compares until ctx ends. A node that differs and never agreed is told to
// fatal; one that agreed before goes on, so that the settings of a fleet can be
// changed node by node.
func (a *agreement) run(ctx context.Context, fatal func(error)) {
	for range tick.Every(ctx, compareInterval) {
		err := a.compare(ctx)
		switch {
		case errors.Is(err, errDiffers) && !a.agreed:
			fatal(err)
			return
		case err != nil && !errors.Is(err, errDiffers) && ctx.Err() == nil:
			a.notCompared(err)
		}
	}
}

// compare reports what differs as errDiffers.
func (a *agreement) compare(ctx context.Context) error {
	own := map[string]string{}
	for _, s := range a.own {
		if s.value != "" { // without regions there is nothing to store
			own[s.field] = s.value
		}
	}
	if a.usePlain != nil {
		own[namesField] = namesPacked
		if a.plain {
			own[namesField] = namesPlain
		}
	}
	stored, err := fleet.CompareSettings(ctx, a.client, a.prefix, own)
	if err != nil {
		return err
	}
	a.failing = false
	var differing []error
	for _, s := range a.own {
		if stored[s.field] != s.value {
			differing = append(differing, fmt.Errorf(
				"--%s (%s) is %q, but the nodes that share these counters use %q: set it to that. "+
					"To change it on every node, run '%s' in Redis first",
				s.flag, s.env, s.value, stored[s.field], s.command(fleet.SettingsKey(a.prefix))))
		}
	}
	if a.usePlain != nil {
		if err := a.follow(stored[namesField]); err != nil {
			differing = append(differing, err)
		}
	}
	a.differ.Store(int64(len(differing)))
	if len(differing) == 0 {
		a.agreed, a.told = true, ""
		return nil
	}
	err = fmt.Errorf("%w: %w", errDiffers, errors.Join(differing...))
	if a.told != err.Error() {
		a.told = err.Error()
		a.log.Error("this node does not agree with the settings stored in Redis", "error", err)
	}
	return err
}

// follow takes over the form of key names.
func (a *agreement) follow(names string) error {
	if names != namesPlain && names != namesPacked {
		return fmt.Errorf("the field %s of %s in Redis is %q: set it to %s or %s",
			namesField, fleet.SettingsKey(a.prefix), names, namesPacked, namesPlain)
	}
	if plain := names == namesPlain; plain != a.plain {
		a.plain = plain
		a.usePlain(plain)
		a.log.Info("key names follow Redis", "names", names)
	}
	return nil
}
