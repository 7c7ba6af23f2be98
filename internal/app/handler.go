package app

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"sluice/api"
)

// index is what / answers where there is no console to send people to.
const index = `sluice, a rate-limit service

POST /ratelimit/check          check one request
POST /ratelimit/check/batch    check up to 1,000 requests
     /ratelimit/rules          list, create, update and delete rules
POST /ratelimit/explain        which rules apply to a request, and why
GET  /openapi.yaml             API reference
GET  /metrics                  Prometheus metrics
GET  /livez, /readyz           health checks
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
