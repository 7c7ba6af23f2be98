package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sluice/internal/capacity"
)

type planCmd struct {
	RPS       float64 `name:"rps" placeholder:"N" help:"Checks per second at the peak."`
	Daily     float64 `name:"daily" placeholder:"N" help:"Checks per day, instead of --rps. The peak is --peak times the average."`
	Peak      float64 `name:"peak" default:"3" placeholder:"X" help:"Ratio of the daily peak to the daily average; 1 to 1000."`
	Keys      float64 `name:"keys" placeholder:"N" help:"Number of live buckets of all rules together."`
	Rules     int     `name:"rules" default:"1" placeholder:"N" help:"Number of rules that apply to each check; 1 to 100."`
	Algorithm string  `name:"algorithm" default:"sliding_window_counter" placeholder:"NAME" help:"Algorithm of the rules."`
	Entries   *int64  `name:"entries" placeholder:"N" help:"Entries in each log of sliding_window_log; equals --limit if not set, or 100 without --limit."`
	Limit     *int64  `name:"limit" placeholder:"N" help:"Limit of the rules. A log of sliding_window_log has up to that many entries."`
	Batch     bool    `name:"batch" help:"Checks arrive in batches of about 100."`
	Busy      float64 `name:"busy" default:"0.6" placeholder:"SHARE" help:"Highest acceptable CPU utilization at the peak; 0.05 to 1."`
	NodeCores int     `name:"node-cores" default:"4" placeholder:"N" help:"CPU cores per node."`
	ShardGiB  float64 `name:"shard-gib" default:"12" placeholder:"N" help:"Memory that each Redis shard may use, in GiB."`
	NodeHour  float64 `name:"node-hour" placeholder:"PRICE" help:"Price of a node per hour, in any currency."`
	RedisHour float64 `name:"redis-hour" placeholder:"PRICE" help:"Price of a Redis server per hour."`
	JSON      bool    `name:"json" help:"Print JSON."`

	Regions     int           `name:"regions" default:"1" placeholder:"N" help:"Number of regions. Checks and keys are those of all together, divided evenly. Nodes and Redis are planned for each region, for when one is lost. 1 to 50."`
	Span        string        `name:"span" default:"region" placeholder:"SPAN" help:"Span of the rules: region, global, local_then_global or global_exact. With --regions."`
	Window      time.Duration `name:"window" default:"1m" placeholder:"TIME" help:"Window of the rules. With --regions."`
	KeyRPS      float64       `name:"key-rps" placeholder:"N" help:"Checks per second of the busiest key in all regions together: what span global lets through beyond the limit depends on it. With --regions."`
	RegionDelay time.Duration `name:"region-delay" default:"80ms" placeholder:"TIME" help:"Time from one region to another, one way; 1ms to 5s. With --regions."`
}

// regions returns how the load is spread over regions, nil for one region.
func (c *planCmd) regions() (*capacity.Regions, error) {
	switch {
	case c.Regions < 1 || c.Regions > capacity.MaxRegions:
		return nil, fmt.Errorf("--regions must be between 1 and %d, not %d", capacity.MaxRegions, c.Regions)
	case c.Regions == 1 && c.Span != capacity.SpanRegion:
		return nil, fmt.Errorf("--span %s requires --regions of at least 2", c.Span)
	case c.Regions == 1 && c.KeyRPS != 0:
		return nil, errors.New("--key-rps requires --regions of at least 2")
	case c.Regions == 1:
		return nil, nil
	}
	r := &capacity.Regions{Count: c.Regions, Span: c.Span, DelayMS: float64(c.RegionDelay) / float64(time.Millisecond),
		WindowMS: c.Window.Milliseconds(), KeyPerSecond: c.KeyRPS}
	if c.Limit != nil {
		r.Limit = *c.Limit
	}
	return r, nil
}

const secondsADay = 86400

// Run prints the estimate.
func (c *planCmd) Run(p *process) error {
	perSecond := c.RPS
	switch {
	case (c.RPS != 0) == (c.Daily != 0):
		return errors.New("set either --rps or --daily")
	case !(c.Peak >= 1 && c.Peak <= 1000):
		return fmt.Errorf("--peak must be between 1 and 1000, not %g", c.Peak)
	case c.Daily != 0:
		perSecond = c.Daily / secondsADay * c.Peak
	}
	entries := c.Entries
	if entries == nil {
		entries = c.Limit
	}
	regions, err := c.regions()
	if err != nil {
		return err
	}
	plan, err := capacity.Measured.Make(
		capacity.Load{PerSecond: perSecond, Keys: c.Keys, Rules: c.Rules, Algorithm: c.Algorithm, Entries: entries,
			Batch: c.Batch, Regions: regions},
		capacity.Sizing{Busy: c.Busy, NodeCores: c.NodeCores, ShardBytes: c.ShardGiB * (1 << 30), NodePrice: c.NodeHour,
			ShardPrice: c.RedisHour},
	)
	if err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(p.out)
		e.SetIndent("", "  ")
		return e.Encode(plan)
	}
	_, err = fmt.Fprint(p.out, plan)
	return err
}
