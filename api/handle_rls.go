package api

import "github.com/labstack/echo/v4"

// rls answers a call of Envoy's RateLimitService as JSON. Package envoy reads the body, because it has the form of
// proto3 and not of this API.
func (s *Server) rls(c echo.Context) error {
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	status, answer, err := s.deps.RLS(c.Request().Context(), body)
	if err != nil {
		return err
	}
	return write(c, status, jsonType, answer)
}
