package api

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/limiter"
	"sluice/rules/field"
	"sluice/rules/tree"
)

// reserve handles a check whose weight is an estimate, to be settled later.
func (s *Server) reserve(c echo.Context) error {
	x, _ := s.buffers.Get().(*buffers)
	defer s.putBack(x)
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	ttl, err := decodeReserve(body, &x.q)
	if err != nil {
		return err
	}
	traced(c.Request(), &x.q)
	if err := s.deps.Checker.Reserve(c.Request().Context(), &x.q, ttl, &x.a); err != nil {
		return err
	}
	x.out = append(x.enc.append(x.out[:0], &x.a), '\n')
	return write(c, http.StatusOK, jsonType, x.out)
}

// decodeReserve reads a check with ttl_ms, times and least.
func decodeReserve(body []byte, q *decide.Question) (ttl int64, err error) {
	var sc scanner
	if err := sc.start(body); err != nil {
		return 0, err
	}
	in := checkInput{reserve: true}
	if err := in.read(&sc, 0); err != nil {
		return 0, err
	}
	if err := sc.end(); err != nil {
		return 0, err
	}
	ttl = in.reservation(q)
	if len(in.errs) > 0 {
		return 0, &field.ValidationError{Fields: in.errs}
	}
	return ttl, nil
}

// reservation converts a reserve and returns its ttl_ms.
func (in *checkInput) reservation(q *decide.Question) (ttl int64) {
	in.question(limiter.OpTake, q)
	ttl = decide.DefaultReservationLife
	if in.given(inTTL) {
		ttl = in.number[inTTL]
		if (ttl < decide.MinReservationLife || ttl > decide.MaxReservationLife) && !in.complained("ttl_ms") {
			in.wrong("ttl_ms", "must be between %d and %d", decide.MinReservationLife, decide.MaxReservationLife)
		}
	}
	in.grant(q)
	if in.given(inOnExpire) {
		if q.Returns = 100 - in.number[inOnExpire]; q.Times > 0 && q.Returns > 0 {
			in.wrong("on_expire", "must be keep with times")
		}
	}
	return ttl
}

// grant reads how many requests a reserve is for.
func (in *checkInput) grant(q *decide.Question) {
	if !in.given(inTimes) {
		if in.given(inLeast) {
			in.wrong("least", "requires times")
		}
		return
	}
	times, least := in.number[inTimes], int64(1)
	if (times < 1 || times > decide.MaxTimes) && !in.complained("times") {
		in.wrong("times", "must be between 1 and %d", decide.MaxTimes)
	}
	if in.given(inLeast) {
		if least = in.number[inLeast]; (least < 1 || least > times) && !in.complained("least") {
			in.wrong("least", "must be between 1 and times")
		}
	}
	heaviest := q.Weight
	for _, v := range in.fields {
		heaviest = max(heaviest, v)
	}
	if len(in.errs) == 0 && heaviest > limiter.MaxExact/times {
		in.wrong("times", "times the weight or a field must be at most %d", limiter.MaxExact)
	}
	q.Times, q.Least = times, least
}

func (s *Server) settle(c echo.Context) error {
	x, _ := s.buffers.Get().(*buffers)
	defer s.putBack(x)
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	want, err := decodeSettlement(body)
	if err != nil {
		return err
	}
	if err := s.deps.Checker.SettleReservation(c.Request().Context(), want, &x.a); err != nil {
		return settleProblem(err)
	}
	x.out = append(x.enc.append(x.out[:0], &x.a), '\n')
	return write(c, http.StatusOK, jsonType, x.out)
}

// settleProblem converts the errors that only a settle can have.
func settleProblem(err error) error {
	var away *limiter.StoreError
	var exceeded *decide.GrantExceededError
	var ended *decide.ReservationEndedError
	switch {
	case errors.Is(err, decide.ErrNoDecisions):
		return &field.ValidationError{Fields: []field.Problem{
			{Field: "decisions", Message: "is allowed only for a reservation of requests that its caller decides"}}}
	case errors.Is(err, decide.ErrNothingCharged):
		return &field.ValidationError{Fields: []field.Problem{
			{Field: "reservation", Message: "is of a denied reserve, so only denied decisions are allowed with it"}}}
	case errors.As(err, &exceeded):
		return &field.ValidationError{Fields: []field.Problem{{Field: "decisions.allowed",
			Message: "must be at most " + strconv.FormatInt(exceeded.Granted, 10) + ", as many as were granted"}}}
	case errors.Is(err, decide.ErrBadReservation):
		return &field.ValidationError{Fields: []field.Problem{
			{Field: "reservation", Message: "must be a reservation from a response of this service"}}}
	case errors.Is(err, decide.ErrSeveralReservations):
		return &field.ValidationError{Fields: []field.Problem{{Field: "request_id",
			Message: "is that of several open reservations; send the reservation"}}}
	case errors.As(err, &ended) && ended.Keeps < 100:
		return reply.ReservationEnded.Problem("The charge is final: " + strconv.FormatInt(ended.Keeps, 10) +
			" percent of the estimate, as on_expire said, or the actual weight if the reservation was settled before.")
	case errors.Is(err, decide.ErrReservationEnded):
		return reply.ReservationEnded.Problem(
			"The charge is final: the estimate, or the actual weight if the reservation was settled before.")
	case errors.As(err, &away) && away.Cause == limiter.CauseOverload:
		return reply.Overloaded.Problem("Repeat the request. A repeated settle is safe and counts once.").
			With("Retry-After", "1")
	case errors.As(err, &away):
		return reply.StoreUnavailable.Problem("Repeat the request ("+string(away.Cause)+
			"). A repeated settle is safe and counts once.").With("Retry-After", "1")
	}
	return err
}

// decodeSettlement reads {"reservation" or "request_id": "…", "weight": n, "fields": {…}, "decisions": {"allowed": n,
// "denied": n}}.
func decodeSettlement(body []byte) (*decide.Settlement, error) {
	v, err := parseJSON(body)
	if err != nil {
		return nil, err
	}
	var d amountReader
	s, err := d.settlement(v)
	if err != nil {
		return nil, err
	}
	return s, d.err()
}

// settlement reads a settlement. An error names an unknown member.
func (d *amountReader) settlement(v *tree.Value) (*decide.Settlement, error) {
	s := &decide.Settlement{Weight: -1, Origin: decide.Origin{Face: faceHTTP}}
	for i := range v.Members {
		name, m := v.Members[i].Name, &v.Members[i].Value
		switch name {
		case "reservation":
			if m.Kind != tree.Text || m.Text == "" {
				d.wrong("reservation", "must be a reservation from a response of this service")
			}
			s.Reservation = m.Text
		case "weight":
			s.Weight = d.amount("weight", m)
		case "fields":
			s.Fields = d.fields("fields", m)
		case "request_id":
			if m.Kind != tree.Text || m.Text == "" || len(m.Text) > maxRequestID {
				d.wrong("request_id", "must be the request_id of a reserve")
			}
			s.RequestID = m.Text
		case "decisions":
			if m.Kind != tree.Object {
				d.wrong("decisions", "must be an object")
				continue
			}
			s.Decisions = &decide.Decisions{}
			for k := range m.Members {
				into := &s.Decisions.Allowed
				switch member := m.Members[k].Name; member {
				case "denied":
					into = &s.Decisions.Denied
				case "allowed":
				default:
					return nil, unknownMember("decisions." + member)
				}
				*into = d.amount("decisions."+m.Members[k].Name, &m.Members[k].Value)
			}
			if s.Decisions.Denied > decide.MaxDenied {
				d.wrong("decisions.denied", "must be between 0 and "+strconv.Itoa(decide.MaxDenied))
			}
		default:
			return nil, unknownMember(name)
		}
	}
	switch byID := v.Member("request_id") != nil; {
	case v.Member("reservation") == nil && !byID:
		d.wrong("reservation", "is required, or the request_id of the reserve")
	case v.Member("reservation") != nil && byID:
		d.wrong("request_id", "must be left out with a reservation")
	}
	if v.Member("weight") == nil && v.Member("fields") == nil && v.Member("decisions") == nil {
		d.wrong("weight", "is required unless fields contain the actual weights, or decisions are reported")
	}
	return s, nil
}
