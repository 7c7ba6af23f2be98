// Package echolimit is the middleware of package httplimit for Echo v4.
//
//	limit, err := echolimit.New(c, httplimit.Options{})
//	if err != nil {
//		return err
//	}
//	e.Use(limit)
//
// The route of a request is the path it was registered with: /users/:id is checked as /users/{id}.
package echolimit

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"sluice/api/client"
	"sluice/api/client/httplimit"
)

// New returns a middleware that checks requests with c. Add it with Use. If it is added with Pre, before Echo has found
// the route, it uses the routes of the profile.
func New(c *client.Client, opt httplimit.Options) (echo.MiddlewareFunc, error) {
	limit, err := httplimit.New(c, opt)
	if err != nil {
		return nil, err
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(ec echo.Context) (err error) {
			limit.Serve(ec.Response(), ec.Request(), routeOf(ec.Path()), func(r *http.Request) {
				ec.SetRequest(r)
				err = next(ec)
			})
			return err
		}
	}, nil
}

// routeOf returns the route of a path of Echo: :id becomes {id}, and a final * matches what follows.
func routeOf(path string) string {
	if !strings.ContainsAny(path, ":*") {
		return path
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if name, ok := strings.CutPrefix(s, ":"); ok && name != "" {
			segments[i] = "{" + name + "}"
		}
	}
	return strings.Join(segments, "/")
}
