package api

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/limiter"
	"sluice/rules/field"
	"sluice/rules/tree"
)

// Limits of a load report.
const (
	maxUtilization = 100 // a hundred times the capacity
	wholePool      = 1_000_000
	minLoadTTL     = 100
	maxLoadTTL     = 600_000
)

// loadInput is the body of PUT /ratelimit/pools/{name}/load.
type loadInput struct {
	millionths int64
	ttl        time.Duration
	errs       []field.Problem
}

func (in *loadInput) wrong(member, message string) {
	in.errs = append(in.errs, field.Problem{Field: member, Message: message})
}

// decodeLoad reads {"utilization": 0.42, "ttl_ms": 5000}.
func decodeLoad(body []byte) (loadInput, error) {
	var in loadInput
	v, err := parseJSON(body)
	if err != nil {
		return in, err
	}
	for i := range v.Members {
		name := v.Members[i].Name
		if name != "utilization" && name != "ttl_ms" {
			return in, unknownMember(name)
		}
	}
	in.utilization(v.Member("utilization"))
	in.lifetime(v.Member("ttl_ms"))
	if len(in.errs) > 0 {
		return in, &field.ValidationError{Fields: in.errs}
	}
	return in, nil
}

func (in *loadInput) utilization(v *tree.Value) {
	const rangeText = "must be a number from 0 to 100, where 1 is the whole pool"
	if v == nil {
		in.wrong("utilization", "is required")
		return
	}
	u, err := strconv.ParseFloat(v.Text, 64)
	if !v.IsNumber() || err != nil || u < 0 || u > maxUtilization {
		in.wrong("utilization", rangeText)
		return
	}
	in.millionths = int64(math.Round(u * wholePool))
}

func (in *loadInput) lifetime(v *tree.Value) {
	const rangeText = "must be a whole number of milliseconds from 100 to 600000"
	if v == nil {
		in.wrong("ttl_ms", "is required")
		return
	}
	ms, err := strconv.ParseInt(v.Text, 10, 64)
	if !v.IsNumber() || err != nil || ms < minLoadTTL || ms > maxLoadTTL {
		in.wrong("ttl_ms", rangeText)
		return
	}
	in.ttl = time.Duration(ms) * time.Millisecond
}

// reportLoad stores a load report of a pool.
func (s *Server) reportLoad(c echo.Context) error {
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	in, err := decodeLoad(body)
	if err != nil {
		return err
	}
	set := s.deps.Checker.Set()
	if set == nil {
		return decide.ErrNoSet
	}
	if set.Pool(c.Param("name")) == nil {
		return reply.NotFound.Problem("The pool does not exist.")
	}
	err = s.deps.Checker.ReportLoad(c.Request().Context(), c.Param("name"), in.millionths, in.ttl)
	var store *limiter.StoreError
	switch {
	case errors.As(err, &store):
		return reply.StoreUnavailable.Problem(loadDetail(store)).With("Retry-After", "1")
	case err != nil:
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// loadDetail describes an error of a load report. The last report counts, so that it is
// always safe to repeat one.
func loadDetail(e *limiter.StoreError) string {
	if e.Unknown {
		return "The report may have been applied nevertheless (" + string(e.Cause) +
			"). You can send it again; the last report counts."
	}
	return "The report was not applied (" + string(e.Cause) + "). You can send it again."
}
