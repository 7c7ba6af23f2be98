package api

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
	"sluice/internal/region"
	"sluice/internal/region/home"
	"sluice/internal/region/share"
	"sluice/internal/region/updates"
	"sluice/limiter"
	"sluice/rules/field"
)

// Regions takes the messages of other regions, and knows how they go.
type Regions interface {
	// Receive carries out a message of a media type of package updates, home or share. An answer that is a []byte has
	// the same type, others are JSON.
	Receive(ctx context.Context, kind string, body []byte) (answer any, err error)
	Overview() region.Overview
}

// exchangeRegions takes the messages of other regions. The media type says of which kind one is.
func (s *Server) exchangeRegions(c echo.Context) error {
	if err := contentType(c, updates.MediaType, updates.RecallType, home.MediaType, share.MediaType); err != nil {
		return err
	}
	kind, _, err := mime.ParseMediaType(c.Request().Header.Get("Content-Type"))
	if err != nil {
		return err // contentType has accepted it
	}
	body, err := readBody(c, region.MaxMessage, nil)
	if err != nil {
		return err
	}
	answer, err := s.deps.Regions.Receive(c.Request().Context(), kind, body)
	if err != nil {
		return regionProblem(err)
	}
	if b, ok := answer.([]byte); ok {
		return c.Blob(http.StatusOK, kind, b)
	}
	return writeJSON(c, http.StatusOK, answer)
}

// regionProblem is the answer to a message that was not carried out, or not whole.
func regionProblem(err error) error {
	var refused *region.RefusedError
	var store *limiter.StoreError
	switch {
	case errors.Is(err, region.ErrMessage):
		return reply.Malformed.Problem("The body is " + err.Error() + ".")
	case errors.As(err, &refused):
		return &field.ValidationError{Fields: []field.Problem{{Field: refused.Field, Message: refused.Message}}}
	case errors.Is(err, region.ErrBusy):
		return reply.StoreUnavailable.Problem("Nothing was carried out: "+err.Error()+". Send the message again.").
			With("Retry-After", "1")
	case errors.As(err, &store):
		return reply.StoreUnavailable.Problem("Send the message again: the counter store of this region could not carry "+
			"it out, or not whole ("+string(store.Cause)+").").With("Retry-After", "1")
	}
	return err
}

// regionPage is the response to GET /ratelimit/regions.
type regionPage struct {
	// Enabled: this server has regions. Without them there is nothing else.
	Enabled      bool           `json:"enabled"`
	Region       *string        `json:"region"`
	IntervalMS   int64          `json:"interval_ms"`
	CutOff       bool           `json:"cut_off"`
	SetVersion   int64          `json:"set_version"`
	StoreFailing bool           `json:"store_failing"`
	Exported     int64          `json:"exported"`
	Waiting      int64          `json:"waiting"`
	NoRoom       int64          `json:"no_room"`
	Invalid      int64          `json:"invalid"`
	Regions      []regionState  `json:"regions"`
	Rules        []regionRule   `json:"rules"`
	Shares       *region.Shares `json:"shares"`
}

// regionState is another region, as this node sees it.
type regionState struct {
	Name          string     `json:"name"`
	CutOff        bool       `json:"cut_off"`
	CutOffMS      int64      `json:"cut_off_ms"`
	CutOffTotalMS int64      `json:"cut_off_total_ms"`
	LastNews      *time.Time `json:"last_news"`
	SetVersion    int64      `json:"set_version"`
	LagMS         *int64     `json:"lag_ms"`
	LagP99MS      *int64     `json:"lag_p99_ms"`
	ClockAheadMS  *int64     `json:"clock_ahead_ms"`
	ClocksApart   bool       `json:"clocks_apart"`
	SentBytes     int64      `json:"sent_bytes"`
	ReceivedBytes int64      `json:"received_bytes"`
	Messages      int64      `json:"messages"`
	Failures      int64      `json:"failures"`
	Failure       *string    `json:"failure"`
	FailingSince  *time.Time `json:"failing_since"`
	Sent          int64      `json:"sent"`
	Applied       int        `json:"applied"`
	Repeated      int        `json:"repeated"`
	Shrunk        int        `json:"shrunk"`
	Unknown       int        `json:"unknown"`
	Refused       *string    `json:"refused"`
	RefusedAt     *time.Time `json:"refused_at"`
	Calls         callsState `json:"calls"`
}

// callsState counts the results of the decisions for which another region was asked.
type callsState struct {
	Decided int64      `json:"decided"`
	Failed  int64      `json:"failed"`
	Failing *string    `json:"failing"`
	Since   *time.Time `json:"since"`
}

type regionRule struct {
	Rule           string  `json:"rule"`
	OverPercent    float64 `json:"over_percent"`
	MaxOverPercent int64   `json:"max_over_percent"`
}

// regions describes the exchange between regions, as this node sees it.
func (s *Server) regions(c echo.Context) error {
	if q, err := parseQuery(c); err != nil {
		return err
	} else if err := q.err(); err != nil {
		return err
	}
	page := regionPage{Regions: []regionState{}, Rules: []regionRule{}}
	if set := s.deps.Checker.Set(); set != nil {
		page.SetVersion = set.Version()
	}
	if s.deps.Regions == nil {
		return writeJSON(c, http.StatusOK, page)
	}
	o := s.deps.Regions.Overview()
	page.Enabled, page.Region, page.IntervalMS, page.StoreFailing = true, &o.Self, o.Interval.Milliseconds(), o.Failing
	page.Exported, page.Waiting, page.NoRoom, page.Invalid = o.Exported, o.Waiting, o.Refused, o.Invalid
	for i := range o.Peers {
		page.CutOff = page.CutOff || o.Peers[i].CutOff
		page.Regions = append(page.Regions, regionStateOf(&o.Peers[i]))
	}
	for _, r := range o.Rules {
		page.Rules = append(page.Rules, regionRule(r))
	}
	page.Shares = &o.Shares
	return writeJSON(c, http.StatusOK, page)
}

func regionStateOf(p *region.Status) regionState {
	s := regionState{
		Name: p.Name, CutOff: p.CutOff, CutOffMS: p.CutFor.Milliseconds(), CutOffTotalMS: p.CutTotal.Milliseconds(),
		LastNews: timeOrNull(p.LastUpdate), SetVersion: p.Set, SentBytes: p.Sent, ReceivedBytes: p.Received,
		Messages: p.Messages, Failures: p.Failures, Failure: textOf(p.Failure), Sent: p.Accepted,
		FailingSince: timeOrNull(p.FailingSince),
		Applied:      p.Here.Applied, Repeated: p.Here.Repeated, Shrunk: p.Here.Shrunk, Unknown: p.Here.Unknown,
		Refused: textOf(p.Refusal), RefusedAt: timeOrNull(p.RefusedAt), ClocksApart: p.ClocksApart(),
		Calls: callsState{p.Calls.Decided, p.Calls.Failed, textOf(p.Calls.Failing), timeOrNull(p.Calls.Since)},
	}
	if p.Lags > 0 {
		s.LagMS, s.LagP99MS = new(p.LagNow.Milliseconds()), new(p.LagP99.Milliseconds())
	}
	if p.SkewKnown {
		s.ClockAheadMS = new(p.Skew.Milliseconds())
	}
	return s
}

// timeOrNull returns a time for JSON, nil for the zero time.
func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC().Truncate(time.Millisecond))
}

// textOf returns a text for JSON, nil for "".
func textOf(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
