package api

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"

	"sluice/internal/access"
	"sluice/rules"
)

// actorKey is where the echo context keeps who is asking.
const actorKey = "sluice.actor"

// headerReason is the header that says why rules are changed.
const headerReason = "Sluice-Reason"

// authorize lets a request through to a route of the given scope, or gives the
// problem that refuses it. It notes the actor for writes.
func (s *Server) authorize(c echo.Context, want access.Scope) error {
	r := c.Request()
	ring := s.deps.Access.Load()
	header := r.Header["Authorization"]
	if len(header) == 0 && s.deps.OpenMode && ring.Open() {
		return s.authorizeOpen(c, want)
	}
	secret, err := bearer(header)
	if err != nil {
		return err
	}
	token, err := ring.Find(secret, s.deps.Now())
	switch {
	case errors.Is(err, access.ErrExpired):
		return badCredentials("The token has expired.")
	case errors.Is(err, access.ErrRevoked):
		return badCredentials("The token was revoked.")
	case err != nil:
		return badCredentials("The token is not known here.")
	case !token.Permits(want):
		return kindForbidden.problem("This needs a token with the scope "+string(want)+".").
			with("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+string(want)+`"`)
	}
	if want == access.ScopeRulesWrite {
		c.Set(actorKey, rules.Actor{Kind: "token", Name: token.Name, Reason: r.Header.Get(headerReason)})
	}
	return nil
}

// bearer takes the secret out of the Authorization header.
func bearer(header []string) (string, error) {
	if len(header) == 0 {
		return "", kindCredentials.problem("Send the header Authorization: Bearer and a token made by sluice token create.").
			with("WWW-Authenticate", "Bearer")
	}
	scheme, secret, ok := strings.Cut(header[0], " ")
	if len(header) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", badCredentials("The Authorization header must be Bearer and a token.")
	}
	return strings.TrimLeft(secret, " "), nil
}

func badCredentials(detail string) *Problem {
	return kindCredentials.problem(detail).with("WWW-Authenticate", `Bearer error="invalid_token"`)
}

// crossOrigin refuses what a browser sends on behalf of another site.
var crossOrigin = http.NewCrossOriginProtection()

// authorizeOpen lets requests through while there are no tokens. A page in the
// browser of this machine must not use that: its requests are recognised by
// their origin, and a name of the attacker's that resolves to this machine by
// the Host header.
func (s *Server) authorizeOpen(c echo.Context, want access.Scope) error {
	r := c.Request()
	if !isLoopbackHost(r.Host) {
		return kindForbidden.problem("While no token exists, only requests to localhost or a loopback address are served. Make a token with sluice token create.")
	}
	if fromOtherSite(r) {
		return kindForbidden.problem("While no token exists, requests from other web sites are refused.")
	}
	if want == access.ScopeRulesWrite {
		c.Set(actorKey, rules.Actor{Kind: "system", Name: "open mode", Reason: r.Header.Get(headerReason)})
	}
	return nil
}

// fromOtherSite: a browser sent this on behalf of another site. A GET counts too,
// because releasing deferred requests is one.
func fromOtherSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return crossOrigin.Check(r) != nil
	}
	return true
}

// isLoopbackHost: the Host header names this machine itself, with any port.
func isLoopbackHost(host string) bool {
	if port, ok := strings.CutPrefix(host, "127.0.0.1:"); ok {
		return strings.Trim(port, "0123456789") == ""
	}
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if strings.Trim(port, "0123456789") != "" {
			return false
		}
		name = h
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		name = host[1 : len(host)-1]
	}
	if strings.EqualFold(strings.TrimSuffix(name, "."), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}

// actor is who makes a change; authorize has noted it.
func actor(c echo.Context) rules.Actor {
	a, _ := c.Get(actorKey).(rules.Actor)
	return a
}
