package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"sluice/internal/config"
	"sluice/internal/fleet"
	"sluice/internal/tick"
	"sluice/internal/trouble"
)

const (
	// compareWait is how long a start waits for Redis to compare settings.
	compareWait = 500 * time.Millisecond
	// compareInterval is how often a node compares its settings and confirms that it is live.
	compareInterval = 2 * time.Second
	// claimLife is how long a node of a rules database counts as live: several times compareInterval, so that one late
	// confirmation does not let nodes of another database in.
	claimLife = 10 * time.Second
)

// The forms of key names, as Redis stores them with the settings.
const (
	namesField  = "names"
	regionField = "region" // absent without regions
	namesPacked = "packed"
	namesPlain  = "plain"
)

// agreement compares the settings that decide which key counts a request, and the rules database, with the values that
// are stored with the counters. The first node stores its values. The form of key names is no setting of a node: the
// node uses the stored form. Its methods are not safe for concurrent use, except differ.
type agreement struct {
	client  redis.UniversalClient
	prefix  string
	log     *slog.Logger
	trouble *trouble.Registry // nil discards
	// plain is the form of key names in use; usePlain sets it in the store. usePlain is nil on a cluster, whose names
	// are always readable.
	plain    bool
	usePlain func(bool)
	own      []agreedSetting
	// node names this node among the nodes of its database.
	node string
	// readID returns the id of the rules database, and id is the last one that it returned. readID is nil until database
	// is called.
	readID func(context.Context) (string, error)
	id     string

	// agreed: the settings of this node were once equal to the stored ones.
	agreed bool
	// differ is how many settings differ now, -1 if the last comparison failed.
	differ atomic.Int64
}

type agreedSetting struct{ field, flag, env, value string }

// command stores the setting of this node in Redis.
func (s *agreedSetting) command(key string) string {
	if s.value == "" {
		return "HDEL " + key + " " + s.field
	}
	return "HSET " + key + " " + s.field + " " + s.value
}

// errDiffers: this node must not count together with the others.
var errDiffers = errors.New("settings differ from those of the nodes that share the counters")

func newAgreement(cfg *config.Serve, client redis.UniversalClient, usePlain func(bool), log *slog.Logger) *agreement {
	a := &agreement{client: client, prefix: cfg.KeyPrefix, log: log, usePlain: usePlain, node: rand.Text()}
	a.own = []agreedSetting{
		{"ipv4_prefix", "ipv4-prefix", "SLUICE_IPV4_PREFIX", strconv.Itoa(cfg.IPv4Prefix)},
		{"ipv6_prefix", "ipv6-prefix", "SLUICE_IPV6_PREFIX", strconv.Itoa(cfg.IPv6Prefix)},
		{"nat64_prefixes", "nat64-prefixes", "SLUICE_NAT64_PREFIXES", cfg.Options().NAT64Words()},
		{"route_case", "route-case", "SLUICE_ROUTE_CASE", cfg.RouteCase},
		{regionField, "region", "SLUICE_REGION", cfg.Region},
	}
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

// database makes the rules database part of what is compared, and compares at once, as first does. While the database
// does not answer, its id is unknown and the node starts without it.
func (a *agreement) database(ctx context.Context, readID func(context.Context) (string, error)) error {
	a.readID = readID
	a.findID(ctx)
	return a.first(ctx)
}

// findID reads the id of the rules database again, because another database may have taken its place. An error is that
// of an unavailable database, which is logged elsewhere; the id that was read before stays.
func (a *agreement) findID(ctx context.Context) {
	if a.readID == nil {
		return
	}
	reading := ctx
	if a.id != "" { // a database that does not answer must not keep this node from confirming that it is live
		var cancel context.CancelFunc
		reading, cancel = context.WithTimeout(ctx, compareWait)
		defer cancel()
	}
	id, err := a.readID(reading)
	if err != nil || id == a.id {
		return
	}
	if a.id != "" {
		a.log.Warn("the rules database was replaced by another one", "before", a.id, "database", id)
		a.leave(ctx) // this node keeps the counters for the former one no longer
	}
	a.id = id
}

// register registers the metric of settings that differ.
func (a *agreement) register(to prometheus.Registerer) {
	to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_settings_differ",
		Help: "Settings of this node, and its rules database, that differ from those stored beside the counters. Above 0: " +
			"it counts in other buckets. -1: they could not be compared."},
		func() float64 { return float64(a.differ.Load()) }))
}

var (
	notCompared = trouble.Declare(trouble.Condition{Code: "settings_not_compared",
		Advice: "see to Redis",
		Starts: "the settings that nodes share could not be compared; the node keeps its own and tries again",
		Ends:   "the settings that nodes share were compared"})
	settingsDiffer = trouble.Declare(trouble.Condition{Code: "settings_differ",
		Advice: "give all nodes the same settings; the attribute error names the one that differs", Severe: true,
		EachReason: true,
		Starts:     "this node does not agree with the settings stored in Redis",
		Ends:       "this node agrees with the settings stored in Redis again",
		Banner: "This node counts in other buckets than the others: its settings differ from those stored in Redis. " +
			"The log names them."})
)

// notCompared notes a comparison that failed.
func (a *agreement) notCompared(err error) {
	a.differ.Store(-1)
	a.trouble.Note(notCompared, "", err, "key", fleet.SettingsKey(a.prefix))
}

// run compares until ctx ends. A node whose settings differ and never agreed passes the error to fatal. A node that
// agreed before continues, so that the settings of a fleet can be changed node by node. A node that detects late that
// its rules database is another one also continues.
func (a *agreement) run(ctx context.Context, fatal func(error)) {
	for range tick.Every(ctx, compareInterval) {
		a.findID(ctx)
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
	differing, err := a.compareSettings(ctx)
	if err != nil {
		return err
	}
	if a.agreed = a.agreed || len(differing) == 0; a.agreed {
		// A node whose settings keep it from counting here claims nothing for its database.
		other, err := a.claim(ctx)
		if err != nil {
			return err
		}
		if other != nil {
			differing = append(differing, other)
		}
	}
	a.trouble.Clear(notCompared, "")
	a.differ.Store(int64(len(differing)))
	if len(differing) > 0 {
		err = fmt.Errorf("%w: %w", errDiffers, errors.Join(differing...))
	}
	a.trouble.Note(settingsDiffer, "", err)
	return err
}

// compareSettings returns an error for each setting that differs, and err if they could not be compared.
func (a *agreement) compareSettings(ctx context.Context) (differing []error, err error) {
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
		return nil, err
	}
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
	return differing, nil
}

// claim confirms that the counters belong to the rules database of this node. other says that they belong to another
// one.
func (a *agreement) claim(ctx context.Context) (other, err error) {
	if a.id == "" {
		return nil, nil //nolint:nilnil // nothing to compare yet
	}
	c, err := fleet.ClaimDatabase(ctx, a.client, a.prefix, a.node, a.id, claimLife)
	switch {
	case err != nil:
		return nil, err
	case c.Refused:
		return fmt.Errorf("the rules database has the id %q, but that of the nodes that share these counters has %q, so "+
			"that their limits would count apart: set --database-url (DATABASE_URL) to theirs, or give this node another "+
			"Redis or --key-prefix (SLUICE_KEY_PREFIX). To move the counters to this database, stop every node of the other "+
			"one first; a killed node counts as live for %s", a.id, c.Before, claimLife), nil
	case c.Before != "" && c.Before != a.id:
		a.log.Warn("the counters belonged to another rules database without a live node; from now on they belong to the "+
			"rules database of this node", "before", c.Before, "database", a.id)
	}
	return nil, nil //nolint:nilnil // as above
}

// leave lets nodes of another database have the counters once every node of this one has left. A failure has the effect
// that this node counts as live for claimLife.
func (a *agreement) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, compareWait)
	defer cancel()
	if err := fleet.LeaveDatabase(ctx, a.client, a.prefix, a.node); err != nil {
		a.log.Debug("the node could not leave the nodes of its rules database", "error", err)
	}
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
