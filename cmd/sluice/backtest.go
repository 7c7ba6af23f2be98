package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"sluice/internal/app"
	"sluice/internal/backtest"
	"sluice/internal/config"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/rulefile"
)

type backtestCmd struct {
	Rules string   `name:"rules" required:"" placeholder:"FILE" help:"The rules to try: a rules file, YAML or JSON; - reads standard input."`
	Today string   `name:"today" xor:"today" placeholder:"FILE" help:"The rules to compare with. Without it, what the log says was decided."`
	Log   []string `name:"log" placeholder:"FILE" help:"Decision log: a file, compressed or not, or a directory of them. May be repeated."`
	From  string   `name:"from" placeholder:"TIME" help:"Leave out earlier events, such as 2026-11-21T08:00:00Z."`
	Until string   `name:"until" placeholder:"TIME" help:"Leave out later events."`
	SVG   string   `name:"svg" xor:"svg" placeholder:"FILE" help:"Write a picture of demand against limit over time."`
	JSON  bool     `name:"json" help:"Print the report as JSON."`

	Suggest  string   `name:"suggest" xor:"today,svg" placeholder:"RULE" help:"Instead of a comparison, suggest limits for this rule of --rules by the peak of each key."`
	Windows  []string `name:"windows" default:"1s,1m,1h" placeholder:"LIST" help:"Windows for --suggest."`
	Headroom float64  `name:"headroom" default:"1.2" placeholder:"X" help:"Factor by which suggested limits are above the peaks; 1 to 100."`

	IPv4Prefix int `name:"ipv4-prefix" env:"SLUICE_IPV4_PREFIX" default:"32" placeholder:"BITS" help:"Leading bits of an IPv4 address that name its bucket, as on the server. 1 to 32."`
	IPv6Prefix int `name:"ipv6-prefix" env:"SLUICE_IPV6_PREFIX" default:"64" placeholder:"BITS" help:"Leading bits of an IPv6 address that name its bucket, as on the server. 1 to 128."`

	NAT64Prefixes []string `name:"nat64-prefixes" env:"SLUICE_NAT64_PREFIXES" default:"64:ff9b::/96" placeholder:"CIDR" help:"Prefixes of NAT64, under which an address counts as the IPv4 address inside, as on the server. none: no prefix."`
	RouteCase     string   `name:"route-case" env:"SLUICE_ROUTE_CASE" default:"keep" enum:"keep,fold" placeholder:"CASE" help:"Whether routes that differ only in the case of ASCII letters are different, as on the server. keep or fold."`

	Kafka                  string   `name:"kafka" placeholder:"TOPIC" help:"Decision log in a topic of Kafka, instead of --log."`
	Brokers                []string `name:"brokers" placeholder:"LIST" help:"Some brokers for --kafka, as in kafka-1:9092,kafka-2:9092."`
	config.KafkaConnection `embed:""`
}

// Run replays a log and prints what would change.
func (c *backtestCmd) Run(p *process) (err error) {
	from, until, err := c.times()
	if err != nil {
		return err
	}
	if c.IPv4Prefix < 1 || c.IPv4Prefix > 32 || c.IPv6Prefix < 1 || c.IPv6Prefix > 128 {
		return errors.New("--ipv4-prefix must be between 1 and 32, and --ipv6-prefix between 1 and 128")
	}
	proposed, err := c.compile(p, "--rules", c.Rules)
	if err != nil {
		return err
	}
	var today *match.Set
	if c.Today != "" {
		if today, err = c.compile(p, "--today", c.Today); err != nil {
			return err
		}
	}
	log, closeLog, err := c.open(p.ctx, from)
	if err != nil {
		return err
	}
	defer closeLog()
	span := backtest.Span{Log: log, From: from, Until: until}
	if c.Suggest != "" {
		return c.suggest(p, span, proposed)
	}
	report, err := backtest.Run(p.ctx, backtest.Options{Span: span, Today: today, Proposed: proposed})
	if err != nil {
		return err
	}
	if c.SVG != "" {
		if err := writeTo(c.SVG, report.WriteSVG); err != nil {
			return err
		}
	}
	if c.JSON {
		return printJSON(p, report)
	}
	_, err = fmt.Fprint(p.out, report)
	return err
}

// suggest prints suggested limits.
func (c *backtestCmd) suggest(p *process, span backtest.Span, set *match.Set) error {
	var windows []time.Duration
	for _, text := range c.Windows {
		w, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("--windows: %q is not a duration such as 10s, 1m or 24h", text)
		}
		windows = append(windows, w)
	}
	s, err := backtest.Suggest(p.ctx, backtest.SuggestOptions{Span: span, Rules: set, Rule: c.Suggest, Windows: windows,
		Headroom: c.Headroom})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(p, s)
	}
	_, err = fmt.Fprint(p.out, s)
	return err
}

// times reads --from and --until as ms since the epoch, 0 for none.
func (c *backtestCmd) times() (from, until int64, err error) {
	for _, t := range []struct {
		flag, text string
		to         *int64
	}{{"--from", c.From, &from}, {"--until", c.Until, &until}} {
		if t.text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, t.text)
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %q is not a time such as 2026-11-21T08:00:00Z", t.flag, t.text)
		}
		*t.to = at.UnixMilli()
	}
	return from, until, nil
}

// compile reads a rules file and compiles it as a server would.
func (c *backtestCmd) compile(p *process, flag, name string) (*match.Set, error) {
	data, err := readFile(p, flag, name)
	if err != nil {
		return nil, err
	}
	file, err := rulefile.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for i := range file.Rules {
		file.Rules[i].ID = int64(i + 1)
	}
	nat64, err := match.ParseNAT64(c.NAT64Prefixes)
	if err != nil {
		return nil, fmt.Errorf("--nat64-prefixes %w", err)
	}
	set, err := match.CompileSource(rules.Source{Rules: file.Rules, Pools: poolsFor(&file),
		Profiles: file.Profiles, Version: 1},
		match.Options{IPv4Prefix: c.IPv4Prefix, IPv6Prefix: c.IPv6Prefix, NAT64: nat64,
			FoldRoute: c.RouteCase == config.CaseFold})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return set, nil
}

// open opens the log: files, directories of files, or a topic.
func (c *backtestCmd) open(ctx context.Context, from int64) (*backtest.Log, func(), error) {
	switch {
	case (len(c.Log) > 0) == (c.Kafka != ""):
		return nil, nil, errors.New("set either --log or --kafka: which events shall be replayed?")
	case c.Kafka != "":
		return c.openKafka(ctx, from)
	}
	return backtest.OpenFiles(c.Log, 0)
}

// openKafka opens the topic, from an instant to its present end.
func (c *backtestCmd) openKafka(ctx context.Context, from int64) (*backtest.Log, func(), error) {
	if len(c.Brokers) == 0 {
		return nil, nil, errors.New("--kafka needs --brokers, as in --brokers kafka-1:9092")
	}
	connection, err := app.KafkaConnection(&c.KafkaConnection)
	if err != nil {
		return nil, nil, err
	}
	connection.Brokers, connection.Topic = c.Brokers, c.Kafka
	return app.OpenKafkaLog(ctx, connection, from)
}

// writeTo writes a file.
func writeTo(name string, write func(io.Writer) error) error {
	f, err := os.Create(name) //nolint:gosec // the user names it
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
