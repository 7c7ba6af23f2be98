package app

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/internal/access"
	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/tick"
	"sluice/web"
)

// sweepInterval is how often sessions that have expired are deleted.
const sweepInterval = 15 * time.Minute

// console is the pages, and what they need beside the API.
type console struct {
	server *web.Server
	// welcome is the path of the one-time link, "" if there is none.
	welcome string
}

// openConsole makes the console, or nil if the settings leave it out.
func openConsole(ctx context.Context, cfg *config.Serve, host *Host, d web.Deps, db *database.DB, f *figures, stops *stops) (*console, error) {
	if !cfg.Console.Console {
		return nil, nil //nolint:nilnil // there is no console, and that is no error
	}
	c := &console{}
	d.Rules, d.Overrides, d.Users, d.Sessions, d.Passwords = db, db, db, db, access.NewHasher()
	d.Guard, d.GuardLocal = f.counters.store, f.counters.local
	d.Fleet, d.Denials = f.reader, f.reader
	d.Settings = func() []web.SettingGroup { return settingsShown(cfg) }
	d.Node = func() web.Node { return consoleNode(cfg, f) }
	d.PublicURL, d.SessionIdle, d.SessionLife = cfg.ConsoleURL, cfg.SessionIdle, cfg.SessionLife
	var err error
	if d.TrustedProxies, err = cfg.TrustedNetworks(); err != nil {
		return nil, err
	}
	d.Logger, d.Now = host.Log, host.Now
	d.SSO = signOn(cfg, db, host)
	if cfg.Loopback() {
		c.welcome, d.Welcome = welcome(ctx, db, host)
	}
	if c.server, err = web.New(d); err != nil {
		return nil, err
	}
	stops.add("session cleanup", task(func(ctx context.Context) { sweepSessions(ctx, db, host.Log) }))
	return c, nil
}

// welcome makes the one-time link if there is no account. Without the database
// nobody knows, so there is none.
func welcome(ctx context.Context, db *database.DB, host *Host) (path string, w *web.Welcome) {
	if n, err := db.CountUsers(ctx); err != nil || n > 0 {
		return "", nil
	}
	w, secret := web.NewWelcome(host.Now())
	return web.WelcomePath(secret), w
}

// consoleNode is what the pages say of this node.
func consoleNode(cfg *config.Serve, f *figures) web.Node {
	n := web.Node{Status: f.status(), Embedded: !cfg.Postgres()}
	if s := f.ready.rules.Load(); s != nil && s.refused > 0 {
		n.Refused = s.refused
	}
	return n
}

func sweepSessions(ctx context.Context, db *database.DB, log *slog.Logger) {
	for range tick.Every(ctx, sweepInterval) {
		if _, err := db.SweepSessions(ctx); err != nil && ctx.Err() == nil {
			log.Warn("deleting expired sessions failed", "error", err)
		}
	}
}

// mount puts the console, or in its place a page of text, on e.
func (c *console) mount(e *echo.Echo) {
	if c != nil {
		c.server.Routes(e)
		return
	}
	root := func(c echo.Context) error {
		c.Response().Header().Set("X-Content-Type-Options", "nosniff")
		return c.String(http.StatusOK, index)
	}
	e.GET("/", root)
	e.HEAD("/", root)
}

// greet prints where the console is, and how to get in the first time.
func (c *console) greet(w io.Writer, cfg *config.Serve, addr net.Addr) {
	if c == nil {
		return
	}
	base := cfg.ConsoleURL
	if base == "" {
		base = "http://" + reachable(addr)
	}
	greetConsole(w, base, c.welcome)
}
