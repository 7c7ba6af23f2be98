package main

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"sluice/internal/config"
	"sluice/internal/deferred/runner"
	"sluice/internal/telemetry"
)

type deferredCmd struct {
	Run deferredRunCmd `cmd:"" help:"Deliver deferred requests at their rule's rate until stopped."`
}

type deferredRunCmd struct {
	config.Client `embed:""`
	config.Log    `embed:"" group:"Logging"`

	Rule        string        `name:"rule" required:"" placeholder:"NAME" help:"Name or id of the rule whose requests to deliver."`
	To          string        `name:"to" required:"" placeholder:"URL" help:"URL that each payload is posted to. A 2xx response confirms the delivery."`
	ContentType string        `name:"content-type" default:"application/octet-stream" placeholder:"TYPE" help:"Content type of the payloads."`
	Max         int           `name:"max" default:"10" placeholder:"N" help:"Maximum number of requests fetched at once; 1 to 100."`
	Timeout     time.Duration `name:"timeout" default:"10s" placeholder:"TIME" help:"Timeout of one delivery; at most half of --hold."`
	Hold        time.Duration `name:"hold" default:"30s" placeholder:"TIME" help:"Time after which an unacknowledged request returns to the queue; 1s to 1h."`
	Once        bool          `name:"once" help:"Exit when the queue is empty."`
}

func (c *deferredRunCmd) validate() error {
	to, err := url.Parse(c.To)
	switch {
	case err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "":
		return errors.New("--to must be a URL such as http://127.0.0.1:9000/jobs")
	case c.Max < 1 || c.Max > 100:
		return errors.New("--max must be between 1 and 100")
	case c.Hold < time.Second || c.Hold > time.Hour:
		return errors.New("--hold must be between 1s and 1h")
	case c.Timeout < time.Millisecond || c.Timeout > c.Hold/2:
		return errors.New("--timeout must be between 1ms and half of --hold")
	}
	return nil
}

// Run delivers requests until a signal stops it.
func (c *deferredRunCmd) Run(p *process) error {
	if err := c.validate(); err != nil {
		return err
	}
	server, err := connectTo(p.ctx, &c.Client, callTimeout)
	if err != nil {
		return err
	}
	defer server.Close()
	done, err := runner.Run(p.ctx, runner.Options{
		Server: server, Rule: c.Rule, To: c.To, ContentType: c.ContentType,
		Max: c.Max, Timeout: c.Timeout, Hold: c.Hold, Once: c.Once,
		Now: p.now, Log: telemetry.Log(p.errs, c.LogLevel, c.LogFormat),
	})
	fmt.Fprintf(p.out, "delivered %d, failed attempts %d, unacknowledged %d\n", done.Delivered, done.Failed,
		done.Unacknowledged)
	return err
}
