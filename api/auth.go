package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"sluice/internal/access"
	"sluice/rules"
)

// Where the echo context keeps who is asking: the actor of a write, and the token
// where the handler decides by it.
const (
	actorKey = "sluice.actor"
	tokenKey = "sluice.token"
)

// headerReason is the header that says why rules are changed.
const headerReason = "Sluice-Reason"

// forwarding are the headers by which proxies say that they passed a request on.
var forwarding = [...]string{"X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Forwarded", "Via"}

// authorize lets a request through to a route that needs one of the scopes, or
// returns the error that refuses it. It notes the actor for writes.
func (s *Server) authorize(c echo.Context, r *Route, want []access.Scope) error {
	req := c.Request()
	call := access.Call{Authorization: req.Header["Authorization"], Host: req.Host}
	if len(call.Authorization) == 0 {
		call.Forwarded, call.OtherSite = forwarded(req.Header), fromOtherSite(req)
	}
	token, err := s.gate.Admit(call, want...)
	if err != nil {
		return err
	}
	if r.Scope == access.ScopeRulesWrite {
		by := rules.Actor{Kind: "token", Name: token.Name, Reason: req.Header.Get(headerReason)}
		if token.ID == 0 {
			by.Kind, by.Name = "system", "API without token"
		}
		c.Set(actorKey, by)
	}
	if r.Path == refundPath {
		c.Set(tokenKey, token)
	}
	return nil
}

// permit refuses a request whose token lacks a scope that only its body shows to
// be needed.
func permit(c echo.Context, want access.Scope) error {
	if token, _ := c.Get(tokenKey).(access.Token); !token.Permits(want) {
		return access.Lacks(want)
	}
	return nil
}

func forwarded(h http.Header) bool {
	for _, name := range forwarding {
		if len(h[name]) > 0 {
			return true
		}
	}
	return false
}

// crossOrigin refuses what a browser sends on behalf of another site.
var crossOrigin = http.NewCrossOriginProtection()

// fromOtherSite: a browser sent this on behalf of another site. A GET counts too,
// because releasing deferred requests is one.
func fromOtherSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return crossOrigin.Check(r) != nil
	}
	return true
}

// actor is who makes a change; authorize has noted it.
func actor(c echo.Context) rules.Actor {
	a, _ := c.Get(actorKey).(rules.Actor)
	return a
}
