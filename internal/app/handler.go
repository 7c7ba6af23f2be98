package app

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"sluice/api"
)

// index is what / answers until there is a console to send people to.
const index = `sluice, a rate-limit service

POST /ratelimit/check          may this request pass?
POST /ratelimit/check/batch    may these?
     /ratelimit/rules          the rules
POST /ratelimit/explain        which rules apply to a request, and why
GET  /openapi.yaml             the whole API
GET  /metrics                  Prometheus
GET  /livez, /readyz           health
`

// newHandler puts the decision surface and the index on one router.
func newHandler(d api.Deps) (http.Handler, error) {
	server, err := api.New(d)
	if err != nil {
		return nil, err
	}
	e := echo.New()
	server.Routes(e)
	root := func(c echo.Context) error {
		c.Response().Header().Set("X-Content-Type-Options", "nosniff")
		return c.String(http.StatusOK, index)
	}
	e.GET("/", root)
	e.HEAD("/", root)
	return e, nil
}
