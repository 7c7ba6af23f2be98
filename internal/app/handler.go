package app

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"sluice/api"
)

// index is what / answers where there is no console to send people to.
const index = `sluice, a rate-limit service

POST /ratelimit/check          may this request pass?
POST /ratelimit/check/batch    may these?
     /ratelimit/rules          the rules
POST /ratelimit/explain        which rules apply to a request, and why
GET  /openapi.yaml             the whole API
GET  /metrics                  Prometheus
GET  /livez, /readyz           health
`

// newHandler puts the decision surface and the console on one router.
func newHandler(d api.Deps, c *console) (http.Handler, error) {
	server, err := api.New(d)
	if err != nil {
		return nil, err
	}
	e := echo.New()
	server.Routes(e)
	c.mount(e)
	return e, nil
}
