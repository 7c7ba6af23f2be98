package web

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"sluice/internal/access"
	"sluice/web/alerts"
	"sluice/web/inspect"
	"sluice/web/kit"
	"sluice/web/overview"
	"sluice/web/people"
	"sluice/web/pools"
	"sluice/web/profiles"
	"sluice/web/replay"
	"sluice/web/ruleedit"
	"sluice/web/rulelist"
	"sluice/web/rulepage"
	"sluice/web/signin"
	"sluice/web/traffic"
	"sluice/web/transfer"
)

// Server is the console. It is safe for concurrent use and owns no goroutine.
type Server struct {
	kit      *kit.Kit
	signin   *signin.Pages
	overview *overview.Pages
	rulelist *rulelist.Pages
	rulepage *rulepage.Pages
	ruleedit *ruleedit.Pages
	replay   *replay.Pages
	pools    *pools.Pages
	inspect  *inspect.Pages
	people   *people.Pages
	profiles *profiles.Pages
	transfer *transfer.Pages
	traffic  *traffic.Pages
	alerts   *alerts.Pages
}

// New creates a Server. It fails only if something required is missing or the
// public URL cannot be an origin.
func New(d Deps) (*Server, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	board := d.Alerts.Board
	d.ActiveAlerts = func() (open, handled int, known bool) {
		open = board.Waiting()
		return open, max(0, len(board.Active())-open), !board.Since().IsZero()
	}
	k, err := kit.New(d.Deps)
	if err != nil {
		return nil, err
	}
	tries := &replay.Pages{Kit: k, Jobs: d.Replays}
	return &Server{
		kit:    k,
		signin: &signin.Pages{Kit: k, Welcome: d.Welcome},
		overview: &overview.Pages{Kit: k, Settings: d.Settings, Tokens: d.People.Tokens.ListTokens,
			DecisionLogs: d.DecisionLogs, Regions: d.Regions, Watching: d.Watching},
		rulelist: &rulelist.Pages{Kit: k},
		rulepage: &rulepage.Pages{Kit: k, Trials: d.Trials, Audit: d.People.Audit, Watching: d.Watching},
		ruleedit: &ruleedit.Pages{Kit: k, Headers: d.Headers, Replay: tries},
		replay:   tries,
		pools:    &pools.Pages{Kit: k, Deps: d.Pools},
		inspect:  &inspect.Pages{Kit: k, Deps: d.Inspect},
		people:   &people.Pages{Kit: k, Deps: d.People},
		profiles: &profiles.Pages{Kit: k, Deps: d.Profiles},
		transfer: &transfer.Pages{Kit: k, Store: d.Transfer},
		traffic:  &traffic.Pages{Kit: k},
		alerts:   &alerts.Pages{Kit: k, Deps: d.Alerts},
	}, nil
}

// Route is one row of the table of everything the console serves.
type Route = kit.Route

// Table lists every route, for tests and documentation.
func Table() []Route { return (&Server{}).routes() }

func (s *Server) routes() []Route {
	return slices.Concat(s.signin.Routes(), s.overview.Routes(), s.rulelist.Routes(), s.rulepage.Routes(),
		s.ruleedit.Routes(), s.replay.Routes(), s.pools.Routes(), s.inspect.Routes(), s.people.Routes(),
		s.profiles.Routes(), s.transfer.Routes(), s.traffic.Routes(), s.alerts.Routes(), s.kit.ViewRoutes(), []Route{
			{Method: http.MethodPost, Path: "/console/theme", Offline: true, Handle: kit.Theme},
			{Method: http.MethodPost, Path: "/console/tour", Role: access.RoleViewer, Offline: true, Handle: s.closeTour},
			{Method: http.MethodGet, Path: "/console/events", Role: access.RoleViewer, Stream: true, Handle: s.events},
		})
}

func (s *Server) closeTour(v *kit.Visit) error { return s.kit.CloseTour(v) }

// events is the stream of live data of a page: what the other parameters select if the parameter of is denials,
// requests, traffic, incidents, alerts, nodes, regions or gateway; else the page of a rule if the parameter rule is
// set; else the overview.
func (s *Server) events(v *kit.Visit) error {
	return v.Events(func(v *kit.Visit) kit.Feed {
		switch v.QueryParam("of") {
		case "denials", "requests":
			return s.inspect.Feed(v, v.QueryParam("of") == "requests")
		case "traffic":
			return s.traffic.Feed(v)
		case "incidents":
			return s.overview.IncidentFeed(v)
		case "alerts":
			return s.alerts.Feed(v)
		case "nodes":
			return s.overview.NodeFeed(v)
		case "regions":
			return s.overview.RegionFeed(v)
		case "gateway":
			return s.profiles.Feed(v)
		}
		if id, err := strconv.ParseInt(v.QueryParam("rule"), 10, 64); err == nil {
			return s.rulepage.Feed(v, id)
		}
		return s.overview.Feed(v)
	})
}

// Routes registers every route on e, HEAD for every GET, and the assets. Every other path under /console gets the
// console's own 404 page. The error handler of e is not changed.
func (s *Server) Routes(e *echo.Echo) {
	add := func(method, path string, h echo.HandlerFunc) {
		e.Add(method, path, h)
		if method == http.MethodGet {
			e.HEAD(path, h)
		}
	}
	for _, r := range s.routes() {
		add(r.Method, r.Path, s.kit.Wrap(&r))
	}
	home := func(c echo.Context) error { return c.Redirect(http.StatusFound, kit.PathHome) }
	add(http.MethodGet, "/", home)
	e.GET("/console/", home)
	add(http.MethodGet, "/console/static/*", s.kit.Asset)
	e.Any("/console/*", s.kit.Wrap(&Route{Path: "/console/*", Role: access.RoleViewer,
		Handle: func(*kit.Visit) error { return kit.ErrMissing }}))
}
