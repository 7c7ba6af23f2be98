package web

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"sluice/internal/access"
)

// Route is one row of the table of everything the console serves. Tests try
// every row as everyone.
type Route struct {
	Method string
	// Path is in Echo's notation.
	Path string
	// Role is who may; "" means everyone, signed in or not.
	Role access.Role
	// Reauth asks for the password once more when it was not given lately. It is
	// for what cannot be undone: deleting, resetting, tokens and people.
	Reauth bool
	// Body is the most bytes of a posted form; 0 means maxForm.
	Body int64

	handle func(*Server, *visit) error
}

// Paths that other pages lead to.
const (
	pathHome    = "/console"
	pathEvents  = "/console/events"
	pathSignIn  = "/console/sign-in"
	pathSignOut = "/console/sign-out"
	pathWelcome = "/console/welcome"
	pathTheme   = "/console/theme"

	pathSSOStart    = "/console/sso/start"
	pathSSOGo       = "/console/sso/go"
	pathSSOCallback = "/console/sso/callback"

	pathRules   = "/console/rules"
	pathRule    = "/console/rules/:id"
	pathNewRule = "/console/rules/new"

	pathFailModes = "/console/fail-modes"
	pathExplain   = "/console/explain"
	pathDenials   = "/console/denials"
	pathKeys      = "/console/keys"

	pathPeople   = "/console/people"
	pathInvite   = "/console/invite"
	pathAccount  = "/console/account"
	pathTokens   = "/console/tokens"
	pathAudit    = "/console/audit"
	pathImport   = "/console/import"
	pathSettings = "/console/settings"
)

// table lists every route, an area a paragraph.
var table = []Route{
	{Method: http.MethodGet, Path: pathSignIn, handle: (*Server).signInForm},
	{Method: http.MethodPost, Path: pathSignIn, handle: (*Server).signIn},
	{Method: http.MethodPost, Path: pathSignOut, handle: (*Server).signOut},
	{Method: http.MethodGet, Path: pathWelcome, handle: (*Server).welcomeForm},
	{Method: http.MethodPost, Path: pathWelcome, handle: (*Server).welcome},
	{Method: http.MethodPost, Path: pathTheme, handle: (*Server).theme},
	{Method: http.MethodPost, Path: pathSSOStart, handle: (*Server).ssoStart},
	{Method: http.MethodGet, Path: pathSSOGo, handle: (*Server).ssoGo},
	{Method: http.MethodGet, Path: pathSSOCallback, handle: (*Server).ssoCallback},

	{Method: http.MethodGet, Path: pathHome, Role: access.RoleViewer, handle: (*Server).overview},
	{Method: http.MethodGet, Path: pathEvents, Role: access.RoleViewer, handle: (*Server).events},

	{Method: http.MethodGet, Path: pathRules, Role: access.RoleViewer, handle: (*Server).listRules},
	{Method: http.MethodGet, Path: pathNewRule, Role: access.RoleEditor, handle: (*Server).newRule},
	{Method: http.MethodPost, Path: pathRules, Role: access.RoleEditor, handle: (*Server).createRule},
	{Method: http.MethodPost, Path: "/console/rules/preview", Role: access.RoleEditor, handle: (*Server).previewRule},
	{Method: http.MethodPost, Path: "/console/rules/bulk", Role: access.RoleEditor, handle: (*Server).bulkRules},
	{Method: http.MethodGet, Path: "/console/rules/:id/edit", Role: access.RoleEditor, handle: (*Server).editRule},
	{Method: http.MethodPost, Path: "/console/rules/:id", Role: access.RoleEditor, handle: (*Server).updateRule},
	{Method: http.MethodPost, Path: "/console/rules/:id/delete", Role: access.RoleEditor, Reauth: true, handle: (*Server).deleteRule},

	{Method: http.MethodGet, Path: pathRule, Role: access.RoleViewer, handle: (*Server).rulePage},
	{Method: http.MethodGet, Path: pathRule + "/turn", Role: access.RoleEditor, handle: (*Server).askTurn},
	{Method: http.MethodPost, Path: pathRule + "/state", Role: access.RoleEditor, handle: (*Server).switchRule},
	{Method: http.MethodPost, Path: pathRule + "/promote", Role: access.RoleEditor, handle: (*Server).promoteRule},
	{Method: http.MethodGet, Path: pathRule + "/rollback", Role: access.RoleEditor, handle: (*Server).rollbackForm},
	{Method: http.MethodPost, Path: pathRule + "/rollback", Role: access.RoleEditor, handle: (*Server).rollbackRule},
	{Method: http.MethodGet, Path: pathRule + "/overrides", Role: access.RoleViewer, handle: (*Server).listOverrides},
	{Method: http.MethodPost, Path: pathRule + "/overrides", Role: access.RoleEditor, handle: (*Server).saveOverride},
	{Method: http.MethodGet, Path: pathRule + "/overrides/new", Role: access.RoleEditor, handle: (*Server).newOverride},
	{Method: http.MethodGet, Path: pathRule + "/overrides/import", Role: access.RoleEditor, handle: (*Server).importForm},
	{Method: http.MethodPost, Path: pathRule + "/overrides/import", Role: access.RoleEditor, Body: maxOverrides, handle: (*Server).importOverrides},
	{Method: http.MethodGet, Path: pathRule + "/overrides/:oid/edit", Role: access.RoleEditor, handle: (*Server).editOverride},
	{Method: http.MethodPost, Path: pathRule + "/overrides/:oid", Role: access.RoleEditor, handle: (*Server).saveOverride},
	{Method: http.MethodPost, Path: pathRule + "/overrides/:oid/delete", Role: access.RoleEditor, Reauth: true, handle: (*Server).deleteOverride},

	{Method: http.MethodGet, Path: pathPools, Role: access.RoleViewer, handle: (*Server).listPools},
	{Method: http.MethodPost, Path: pathPools, Role: access.RoleEditor, handle: (*Server).savePool},
	{Method: http.MethodGet, Path: pathPools + "/new", Role: access.RoleEditor, handle: (*Server).newPool},
	{Method: http.MethodGet, Path: pathPools + "/:name/edit", Role: access.RoleEditor, handle: (*Server).editPool},
	{Method: http.MethodPost, Path: pathPools + "/:name", Role: access.RoleEditor, handle: (*Server).savePool},
	{Method: http.MethodPost, Path: pathPools + "/:name/delete", Role: access.RoleEditor, Reauth: true, handle: (*Server).deletePool},
	{Method: http.MethodGet, Path: pathHotKeys, Role: access.RoleViewer, handle: (*Server).hotKeys},

	{Method: http.MethodGet, Path: pathDenials, Role: access.RoleViewer, handle: (*Server).listDenials},

	{Method: http.MethodGet, Path: pathPeople, Role: access.RoleViewer, handle: (*Server).listPeople},
	{Method: http.MethodGet, Path: pathPeople + "/new", Role: access.RoleAdmin, handle: (*Server).newPerson},
	{Method: http.MethodPost, Path: pathPeople + "/new", Role: access.RoleAdmin, Reauth: true, handle: (*Server).createPerson},
	{Method: http.MethodGet, Path: pathPeople + "/:id", Role: access.RoleAdmin, handle: (*Server).person},
	{Method: http.MethodPost, Path: pathPeople + "/:id/role", Role: access.RoleAdmin, Reauth: true, handle: (*Server).changeRole},
	{Method: http.MethodPost, Path: pathPeople + "/:id/state", Role: access.RoleAdmin, Reauth: true, handle: (*Server).changeState},
	{Method: http.MethodPost, Path: pathPeople + "/:id/link", Role: access.RoleAdmin, Reauth: true, handle: (*Server).newLink},
	{Method: http.MethodPost, Path: pathPeople + "/:id/sign-out", Role: access.RoleAdmin, Reauth: true, handle: (*Server).signOutPerson},
	{Method: http.MethodGet, Path: pathInvite, handle: (*Server).inviteForm},
	{Method: http.MethodPost, Path: pathInvite, handle: (*Server).acceptInvite},
	{Method: http.MethodGet, Path: pathAccount, Role: access.RoleViewer, handle: (*Server).account},
	{Method: http.MethodPost, Path: pathAccount + "/password", Role: access.RoleViewer, handle: (*Server).changePassword},
	{Method: http.MethodPost, Path: pathAccount + "/sessions", Role: access.RoleViewer, handle: (*Server).endSessions},

	{Method: http.MethodGet, Path: pathTokens, Role: access.RoleViewer, handle: (*Server).listTokens},
	{Method: http.MethodGet, Path: pathTokens + "/new", Role: access.RoleAdmin, handle: (*Server).newToken},
	{Method: http.MethodPost, Path: pathTokens + "/new", Role: access.RoleAdmin, Reauth: true, handle: (*Server).createToken},
	{Method: http.MethodPost, Path: pathTokens + "/:id/revoke", Role: access.RoleAdmin, Reauth: true, handle: (*Server).revokeToken},

	{Method: http.MethodGet, Path: pathAudit, Role: access.RoleViewer, handle: (*Server).listAudit},
	{Method: http.MethodGet, Path: pathAudit + "/download", Role: access.RoleAdmin, handle: (*Server).downloadAudit},
	{Method: http.MethodGet, Path: "/console/export", Role: access.RoleViewer, handle: (*Server).export},
	{Method: http.MethodGet, Path: pathImport, Role: access.RoleViewer, handle: (*Server).transferForm},
	{Method: http.MethodPost, Path: pathImport, Role: access.RoleEditor, Body: maxImport, handle: (*Server).planImport},
	{Method: http.MethodPost, Path: pathImport + "/apply", Role: access.RoleEditor, Body: maxApply, Reauth: true, handle: (*Server).applyImport},

	{Method: http.MethodGet, Path: pathSettings, Role: access.RoleViewer, handle: (*Server).settings},

	{Method: http.MethodGet, Path: pathExplain, Role: access.RoleViewer, handle: (*Server).explainForm},
	{Method: http.MethodPost, Path: pathExplain, Role: access.RoleViewer, handle: (*Server).explain},
	{Method: http.MethodGet, Path: pathFailModes, Role: access.RoleViewer, handle: (*Server).failModes},
	{Method: http.MethodPost, Path: pathFailModes + "/:id", Role: access.RoleEditor, handle: (*Server).setFailMode},
	{Method: http.MethodGet, Path: pathKeys, Role: access.RoleViewer, handle: (*Server).keyPage},
	{Method: http.MethodPost, Path: pathKeys, Role: access.RoleViewer, handle: (*Server).findKey},
	{Method: http.MethodPost, Path: pathKeys + "/reset", Role: access.RoleEditor, Reauth: true, handle: (*Server).resetKey},
	{Method: http.MethodPost, Path: pathKeys + "/override", Role: access.RoleEditor, handle: (*Server).overrideKey},
	{Method: http.MethodPost, Path: pathKeys + "/lift", Role: access.RoleEditor, handle: (*Server).liftOverride},
}

// Table is a copy of the table of routes.
func Table() []Route { return slices.Clone(table) }

// Routes registers every route on e, HEAD beside every GET, with the assets, and
// answers every other path under /console with the console's own 404 page. It
// leaves e's error handler alone.
func (s *Server) Routes(e *echo.Echo) {
	add := func(method, path string, h echo.HandlerFunc) {
		e.Add(method, path, h)
		if method == http.MethodGet {
			e.HEAD(path, h)
		}
	}
	for i := range table {
		add(table[i].Method, table[i].Path, s.wrap(&table[i]))
	}
	add(http.MethodGet, "/", func(c echo.Context) error { return c.Redirect(http.StatusFound, pathHome) })
	add(http.MethodGet, "/console/static/*", s.asset)
	missing := s.wrap(&Route{Path: "/console/*", Role: access.RoleViewer, handle: (*Server).missing})
	e.Any("/console/*", missing)
	e.GET("/console/", func(c echo.Context) error { return c.Redirect(http.StatusFound, pathHome) })
}
