package main

import (
	"os"

	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/demo"
	"sluice/internal/telemetry"
)

type serveCmd struct {
	config.Serve `embed:""`
}

// Run serves until a signal stops it.
func (c *serveCmd) Run(p *process) error {
	host := host(p, c.Log)
	for _, unknown := range config.Unknown(os.Environ()) {
		host.Log.Warn("a variable of the environment is no setting", "problem", unknown)
	}
	return app.Run(p.ctx, c.Serve, host)
}

type demoCmd struct {
	config.Listener `embed:"" group:"Listening"`
	config.Log      `embed:"" group:"Logging"`
}

// Run runs the demo until a signal stops it.
func (c *demoCmd) Run(p *process) error {
	d := demo.Demo{Listener: c.Listener, Log: c.Log, FirstFlood: demo.FirstFlood}
	return d.Run(p.ctx, host(p, c.Log))
}

func host(p *process, log config.Log) app.Host {
	return app.Host{Out: p.out, Log: telemetry.Log(p.errs, log.LogLevel, log.LogFormat), Now: p.now}
}
