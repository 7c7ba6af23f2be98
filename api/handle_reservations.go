package api

import (
	"errors"
	"net/http"
	"regexp"
	"strconv"

	"github.com/labstack/echo/v4"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/limiter"
	"sluice/rules/field"
	"sluice/rules/match"
	"sluice/rules/tree"
)

// openReservation is one of the reservations that nobody has settled.
type openReservation struct {
	// RequestID is the request id of the reserve; null if it had none.
	RequestID *string `json:"request_id"`
	BeganMS   int64   `json:"began_ms"`
	ExpiresMS int64   `json:"expires_ms"`
	// OnExpirePercent of the estimate stay charged if nobody settles it.
	OnExpirePercent int64           `json:"on_expire_percent"`
	Limits          []reservedLimit `json:"limits"`
}

// reservedLimit is what a reservation holds of one limit.
type reservedLimit struct {
	// Rule is null for a limit that the caller sent.
	Rule  *string `json:"rule"`
	Key   string  `json:"key"`
	Units int64   `json:"units"`
}

// placeInList is the form of page tokens.
var placeInList = regexp.MustCompile(`^[0-9]{1,2}:[0-9]{1,16}:[A-Za-z0-9_.-]*$`)

func (s *Server) listReservations(c echo.Context) error {
	q, err := parseQuery(c, "older_than", "rule", "key", "page_size", "page_token")
	if err != nil {
		return err
	}
	want := decide.OpenWant{Before: s.deps.Now().UnixMilli(), Rule: q.values.Get("rule"), Key: q.values.Get("key"),
		After: q.values.Get("page_token"), Most: q.pageSize()}
	if text := q.values.Get("older_than"); text != "" {
		age, err := strconv.ParseInt(text, 10, 64)
		if err != nil || age < 0 || age > decide.MaxReservationTotal {
			q.wrong("older_than", "must be between 0 and "+strconv.Itoa(decide.MaxReservationTotal)+", in ms")
		}
		want.Before -= age
	}
	if want.After != "" && !placeInList.MatchString(want.After) {
		q.wrong("page_token", "must be the next_page_token of a response")
	}
	if err := q.err(); err != nil {
		return err
	}
	list, next, err := s.deps.Checker.ListReservations(c.Request().Context(), &want)
	if err != nil {
		return settleProblem(err)
	}
	page := struct {
		Reservations  []openReservation `json:"reservations"`
		NextPageToken string            `json:"next_page_token"`
	}{[]openReservation{}, next}
	for i := range list {
		page.Reservations = append(page.Reservations, openOf(&list[i]))
	}
	return writeJSON(c, http.StatusOK, page)
}

func openOf(r *decide.OpenReservation) openReservation {
	out := openReservation{BeganMS: r.Began, ExpiresMS: r.Expires, OnExpirePercent: r.Keeps, Limits: []reservedLimit{}}
	if r.RequestID != "" {
		out.RequestID = &r.RequestID
	}
	for _, l := range r.Limits {
		limit := reservedLimit{Key: match.DisplayKey(l.Key), Units: l.Units}
		if l.Rule != "" {
			limit.Rule = &l.Rule
		}
		out.Limits = append(out.Limits, limit)
	}
	return out
}

// readOnExpire reads keep, refund or {"percent": n}, what stays charged of the estimate.
func (in *checkInput) readOnExpire(s *scanner, depth int) error {
	keeps := &in.number[inOnExpire]
	if s.peek() == '{' {
		given := false
		err := in.pairs(s, "on_expire", depth, func(string) bool { return given }, func(name string) error {
			if name != "percent" {
				return s.fail("unknown member %s", strconv.Quote("on_expire."+clip(name)))
			}
			given = true
			return in.integer(s, "on_expire.percent", 0, 100, keeps, depth+1)
		})
		if err == nil && !given {
			in.wrong("on_expire.percent", "is required")
		}
		return err
	}
	var word string
	if err := in.string(s, "on_expire", maxText, &word, depth); err != nil {
		return err
	}
	switch word {
	case "keep":
		*keeps = 100
	case "refund":
	default:
		if !in.complained("on_expire") {
			in.wrong("on_expire", `must be keep, refund or {"percent": n}`)
		}
	}
	return nil
}

// renewReservation handles a renewal of a reservation.
func (s *Server) renewReservation(c echo.Context, v *tree.Value, a *decide.Answer) error {
	n, err := decodeRenewal(v)
	if err != nil {
		return err
	}
	err = s.deps.Checker.RenewReservation(c.Request().Context(), n, a)
	var long *decide.TooLongError
	invalid := func(member, message string) error {
		return &field.ValidationError{Fields: []field.Problem{{Field: member, Message: message}}}
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &long) && long.Left < decide.MinReservationLife:
		return reply.ReservationEnded.Problem("The reservation has lived for 24 hours, which is the longest. Settle it.")
	case errors.As(err, &long):
		return invalid("ttl_ms", "must be at most "+strconv.FormatInt(long.Left, 10)+
			", because a reservation lives for 24 hours in all")
	case errors.Is(err, decide.ErrGrantRenewed):
		return invalid("reservation", "must not be of requests that its caller decides; settle it and reserve again")
	case errors.Is(err, decide.ErrTooMuchMore):
		return invalid("more", "was sent too often for this reservation; settle it and reserve again")
	}
	return settleProblem(err)
}

// decodeRenewal reads {"reservation": "…", "ttl_ms": n, "more": {"weight": n, "fields": {…}}}.
func decodeRenewal(v *tree.Value) (*decide.Renewal, error) {
	n := &decide.Renewal{TTL: decide.DefaultReservationLife, Origin: decide.Origin{Face: faceHTTP}}
	var d amountReader
	for i := range v.Members {
		name, m := v.Members[i].Name, &v.Members[i].Value
		switch name {
		case "reservation":
			if m.Kind != tree.Text || m.Text == "" {
				d.wrong("reservation", "must be a reservation from a response of this service")
			}
			n.Reservation = m.Text
		case "ttl_ms":
			if n.TTL = d.amount(name, m); len(d.errs) == 0 &&
				(n.TTL < decide.MinReservationLife || n.TTL > decide.MaxReservationLife) {
				d.wrong(name, "must be between "+strconv.Itoa(decide.MinReservationLife)+" and "+
					strconv.Itoa(decide.MaxReservationLife))
			}
		case "more":
			if m.Kind != tree.Object {
				d.wrong(name, "must be an object with weight or fields")
				continue
			}
			for k := range m.Members {
				switch member, value := m.Members[k].Name, &m.Members[k].Value; member {
				case "weight":
					n.Weight = d.amount("more.weight", value)
				case "fields":
					n.Fields = d.fields("more.fields", value)
				default:
					return nil, unknownMember("more." + member)
				}
			}
		default:
			return nil, unknownMember(name)
		}
	}
	return n, d.err()
}

// amountReader reads amounts and collects what is wrong with them.
type amountReader struct {
	under string // stands in front of the names of members, such as settlements[0].
	errs  []field.Problem
}

func (d *amountReader) wrong(member, message string) {
	if len(d.errs) < maxFieldErrors {
		d.errs = append(d.errs, field.Problem{Field: d.under + member, Message: message})
	}
}

func (d *amountReader) err() error {
	if len(d.errs) > 0 {
		return &field.ValidationError{Fields: d.errs}
	}
	return nil
}

// amount reads a number of units.
func (d *amountReader) amount(member string, v *tree.Value) int64 {
	if !v.IsNumber() {
		d.wrong(member, "must be an integer")
		return 0
	}
	n, kind := parseInteger([]byte(v.Text))
	switch {
	case kind == notInteger:
		d.wrong(member, "must be an integer, written without a decimal point or exponent")
	case kind == outOfRange || n < 0:
		d.wrong(member, "must be between 0 and "+strconv.FormatInt(limiter.MaxExact, 10))
	}
	return n
}

// fields reads amounts by name.
func (d *amountReader) fields(member string, v *tree.Value) map[string]int64 {
	if v.Kind != tree.Object || len(v.Members) > maxPairs {
		d.wrong(member, "must be an object of at most "+strconv.Itoa(maxPairs)+" members")
		return nil
	}
	out := make(map[string]int64, len(v.Members))
	for i := range v.Members {
		name := v.Members[i].Name
		out[name] = d.amount(member+"."+shownName(name), &v.Members[i].Value)
	}
	return out
}
