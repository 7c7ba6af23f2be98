package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/internal/region"
	"sluice/limiter"
)

// Route is one route of this package. Tests compare the table of routes with
// openapi.yaml and try every route with every kind of credential.
type Route struct {
	Method string
	// Path has the notation of Echo.
	Path string
	// Scope is the scope that a token must have; "" means that the route is public.
	Scope access.Scope

	handle func(*Server, echo.Context) error
}

const (
	// overridesPath is the path of the overrides of a rule.
	overridesPath = "/ratelimit/rules/:id/overrides"
	// webhooksPath is the path of the webhooks that get alerts.
	webhooksPath = "/ratelimit/webhooks"
	// checkPath is the path of a check.
	checkPath = "/ratelimit/check"
	// refundPath is the one route whose scope depends on the body; see requireScope.
	refundPath = "/ratelimit/refund"
	// refundEndpoint is its Endpoint.
	refundEndpoint = "refund"
	// reservePath is the path of a reserve, and reserveBatchPath the path of several reserves with settlements.
	reservePath, reserveBatchPath = "/ratelimit/reserve", "/ratelimit/reserve/batch"
	// rlsPath is the path of Envoy's RateLimitService as JSON.
	rlsPath = "/ratelimit/rls"
)

// Scopes are the scopes of which a token must have at least one; none means that the
// route is public.
func (r *Route) Scopes() []access.Scope {
	switch {
	case r.Scope == "":
		return nil
	case r.Path == refundPath:
		return []access.Scope{r.Scope, access.ScopeCounters}
	}
	return []access.Scope{r.Scope}
}

// Endpoint is a name of the route, or of several that belong together, for metrics and logs: its path up to the first
// parameter without /ratelimit/, such as check, regions/exchange, or rules for every route of a single rule.
func (r *Route) Endpoint() string {
	fixed, _, _ := strings.Cut(r.Path, "/:")
	return strings.TrimPrefix(strings.TrimPrefix(fixed, "/"), "ratelimit/")
}

// Endpoints are the names of all routes that require a scope, without repetitions.
func Endpoints() []string {
	var names []string
	for i := range table {
		if name := table[i].Endpoint(); table[i].Scope != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// table lists every route. A route without a scope is public on purpose.
var table = []Route{
	{http.MethodGet, "/livez", "", (*Server).livez},
	{http.MethodGet, "/readyz", "", (*Server).readyz},
	{http.MethodGet, "/openapi.yaml", "", (*Server).openapi},
	{http.MethodGet, "/docs", "", (*Server).referencePage},
	{http.MethodGet, "/docs/:name", "", (*Server).referencePage},
	{http.MethodGet, reply.PagePath + ":name", "", (*Server).problemPage},
	{http.MethodGet, "/metrics", access.ScopeRulesRead, (*Server).metrics},

	{http.MethodPost, checkPath, access.ScopeCheck, single(limiter.OpTake)},
	{http.MethodPost, checkPath + "/batch", access.ScopeCheck, (*Server).checkBatch},
	{http.MethodPost, "/ratelimit/charge", access.ScopeCheck, single(limiter.OpCharge)},
	{http.MethodPost, refundPath, access.ScopeCheck, single(limiter.OpRefund)},
	{http.MethodPost, "/ratelimit/reset", access.ScopeCounters, single(limiter.OpReset)},
	{http.MethodPost, reservePath, access.ScopeCheck, (*Server).reserve},
	{http.MethodPost, reserveBatchPath, access.ScopeCheck, (*Server).reserveBatch},
	{http.MethodPost, "/ratelimit/settle", access.ScopeCheck, (*Server).settle},
	{http.MethodPost, "/ratelimit/release", access.ScopeCheck, (*Server).release},
	{http.MethodPost, "/ratelimit/renew", access.ScopeCheck, (*Server).renew},
	{http.MethodGet, "/ratelimit/reservations", access.ScopeRulesRead, (*Server).listReservations},
	{http.MethodPost, rlsPath, access.ScopeCheck, (*Server).rls},
	{http.MethodGet, "/ratelimit/deferred", access.ScopeRulesRead, (*Server).listDeferred},
	{http.MethodGet, "/ratelimit/deferred/:id", access.ScopeDeferred, (*Server).releaseDeferred},
	{http.MethodPost, "/ratelimit/deferred/:id/ack", access.ScopeDeferred, (*Server).ackDeferred},
	{http.MethodPost, "/ratelimit/explain", access.ScopeRulesRead, (*Server).explain},
	{http.MethodGet, "/ratelimit/hot", access.ScopeRulesRead, (*Server).hot},
	{http.MethodPost, region.Path, access.ScopeRegions, (*Server).exchangeRegions},
	{http.MethodPost, history.PathOfRows, access.ScopeRegions, (*Server).takeFigures},
	{http.MethodGet, "/ratelimit/regions", access.ScopeRulesRead, (*Server).regions},
	{http.MethodGet, "/ratelimit/stats", access.ScopeRulesRead, (*Server).figures},
	{http.MethodGet, "/ratelimit/doctor", access.ScopeRulesRead, (*Server).examine},
	{http.MethodGet, "/ratelimit/incidents", access.ScopeRulesRead, (*Server).listIncidents},

	{http.MethodPut, "/ratelimit/pools/:name/load", access.ScopeCheck, (*Server).reportLoad},

	{http.MethodGet, "/ratelimit/rules", access.ScopeRulesRead, (*Server).listRules},
	{http.MethodPost, "/ratelimit/rules", access.ScopeRulesWrite, (*Server).createRule},
	{http.MethodGet, "/ratelimit/rules/export", access.ScopeRulesRead, (*Server).exportRules},
	{http.MethodPost, "/ratelimit/rules/import", access.ScopeRulesWrite, (*Server).importRules},
	{http.MethodGet, "/ratelimit/rules/:id", access.ScopeRulesRead, (*Server).getRule},
	{http.MethodPut, "/ratelimit/rules/:id", access.ScopeRulesWrite, (*Server).putRule},
	{http.MethodPatch, "/ratelimit/rules/:id", access.ScopeRulesWrite, (*Server).patchRule},
	{http.MethodDelete, "/ratelimit/rules/:id", access.ScopeRulesWrite, (*Server).deleteRule},
	{http.MethodGet, "/ratelimit/rules/:id/history", access.ScopeRulesRead, (*Server).ruleHistory},
	{http.MethodPost, "/ratelimit/rules/:id/rollback", access.ScopeRulesWrite, (*Server).rollbackRule},
	{http.MethodPost, "/ratelimit/rules/:id/promote", access.ScopeRulesWrite, (*Server).promoteRule},

	{http.MethodGet, "/ratelimit/pools", access.ScopeRulesRead, pools.list},
	{http.MethodPost, "/ratelimit/pools", access.ScopeRulesWrite, pools.create},
	{http.MethodGet, "/ratelimit/pools/:name", access.ScopeRulesRead, pools.get},
	{http.MethodPut, "/ratelimit/pools/:name", access.ScopeRulesWrite, pools.put},
	{http.MethodDelete, "/ratelimit/pools/:name", access.ScopeRulesWrite, pools.delete},

	{http.MethodGet, "/ratelimit/profiles", access.ScopeRulesRead, profiles.list},
	{http.MethodPost, "/ratelimit/profiles", access.ScopeRulesWrite, profiles.create},
	{http.MethodGet, "/ratelimit/profiles/:name", access.ScopeRulesRead, profiles.get},
	{http.MethodPut, "/ratelimit/profiles/:name", access.ScopeRulesWrite, profiles.put},
	{http.MethodDelete, "/ratelimit/profiles/:name", access.ScopeRulesWrite, profiles.delete},

	{http.MethodGet, webhooksPath, access.ScopeAdmin, webhooks.list},
	{http.MethodPost, webhooksPath, access.ScopeAdmin, webhooks.create},
	{http.MethodGet, webhooksPath + "/:name", access.ScopeAdmin, webhooks.get},
	{http.MethodPut, webhooksPath + "/:name", access.ScopeAdmin, webhooks.put},
	{http.MethodDelete, webhooksPath + "/:name", access.ScopeAdmin, webhooks.delete},
	{http.MethodPost, webhooksPath + "/:name/rotate", access.ScopeAdmin, (*Server).rotateWebhook},
	{http.MethodPost, webhooksPath + "/:name/test", access.ScopeAdmin, (*Server).testWebhook},
	{http.MethodGet, webhooksPath + "/:name/deliveries", access.ScopeAdmin, (*Server).listDeliveries},

	{http.MethodGet, alertsPath, access.ScopeRulesRead, (*Server).listAlerts},
	{http.MethodGet, silencesPath, access.ScopeRulesRead, (*Server).listSilences},
	{http.MethodPost, silencesPath, access.ScopeRulesWrite, (*Server).createSilence},
	{http.MethodGet, silencesPath + "/:id", access.ScopeRulesRead, (*Server).getSilence},
	{http.MethodPut, silencesPath + "/:id", access.ScopeRulesWrite, (*Server).putSilence},
	{http.MethodDelete, silencesPath + "/:id", access.ScopeRulesWrite, (*Server).deleteSilence},

	{http.MethodGet, usagePath, access.ScopeRulesRead, (*Server).getUsage},
	{http.MethodPost, usageRestorePath, access.ScopeCounters, (*Server).restoreUsage},
	{http.MethodGet, overridesPath, access.ScopeRulesRead, (*Server).listOverrides},
	{http.MethodPost, overridesPath, access.ScopeRulesWrite, (*Server).createOverride},
	{http.MethodGet, overridesPath + "/export", access.ScopeRulesRead, (*Server).exportOverrides},
	{http.MethodPost, overridesPath + "/import", access.ScopeRulesWrite, (*Server).importOverrides},
	{http.MethodGet, overridesPath + "/:oid", access.ScopeRulesRead, (*Server).getOverride},
	{http.MethodPut, overridesPath + "/:oid", access.ScopeRulesWrite, (*Server).putOverride},
	{http.MethodDelete, overridesPath + "/:oid", access.ScopeRulesWrite, (*Server).deleteOverride},
}

// Table returns a copy of the table of routes.
func Table() []Route { return append([]Route(nil), table...) }

// Routes registers every route on e, with HEAD for every GET, and sets the error handler
// and the IP extractor of e.
func (s *Server) Routes(e *echo.Echo) {
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.fail
	e.IPExtractor = ipExtractor(s.deps.TrustedProxies)
	for _, r := range table {
		if r.Path == "/metrics" && s.deps.Metrics == nil {
			continue
		}
		if r.Path == region.Path && s.deps.Regions == nil {
			continue
		}
		if r.Path == history.PathOfRows && s.deps.Figures == nil {
			continue
		}
		if r.Path == usagePath && s.deps.Usage == nil || r.Path == usageRestorePath && s.deps.UsageRestorer == nil {
			continue
		}
		if r.Path == rlsPath && s.deps.RLS == nil {
			continue
		}
		if strings.HasPrefix(r.Path, overridesPath) && (s.deps.Overrides == nil || s.deps.OverrideWriter == nil) {
			continue
		}
		if strings.HasPrefix(r.Path, webhooksPath) && s.deps.Webhooks == nil {
			continue
		}
		if (r.Path == alertsPath || strings.HasPrefix(r.Path, silencesPath)) && s.deps.Silences == nil {
			continue
		}
		h := s.wrap(r)
		e.Add(r.Method, r.Path, h)
		if r.Method == http.MethodGet {
			e.HEAD(r.Path, h)
		}
	}
}
