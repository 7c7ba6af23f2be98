package api

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/field"
)

// historyPage is the response to GET …/{id}/history, newest first.
type historyPage struct {
	History       []rules.Revision `json:"history"`
	NextPageToken string           `json:"next_page_token"`
}

func (s *Server) ruleHistory(c echo.Context) error {
	id, err := ruleID(c)
	if err != nil {
		return err
	}
	q, err := parseQuery(c, "page_size", "page_token")
	if err != nil {
		return err
	}
	size, before := q.pageSize(), q.pageToken()
	if err := q.err(); err != nil {
		return err
	}
	revisions, err := s.deps.History.RuleHistory(c.Request().Context(), id, size, before)
	if err != nil {
		return err
	}
	if len(revisions) == 0 && before == 0 {
		return rules.ErrNotFound
	}
	page := historyPage{History: revisions}
	if n := len(revisions); n == size && revisions[n-1].Version > 1 { // versions count from 1 without gaps
		page.NextPageToken = pageToken(revisions[n-1].Version)
	}
	for i := range page.History {
		if page.History[i].Changes == nil {
			page.History[i].Changes = []field.Change{}
		}
	}
	if page.History == nil {
		page.History = []rules.Revision{}
	}
	return writeJSON(c, http.StatusOK, page)
}

func (s *Server) rollbackRule(c echo.Context) error {
	id, err := ruleID(c)
	if err != nil {
		return err
	}
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	to, err := decodeRollback(body)
	if err != nil {
		return err
	}
	version, err := s.checkRuleVersion(c, id)
	if err != nil {
		return err
	}
	r, err := s.deps.History.RollbackRule(c.Request().Context(), actor(c), id, to, version)
	return s.wrote(c, &r, r.Version, err)
}

// decodeRollback reads {"version": n}.
func decodeRollback(body []byte) (int64, error) {
	v, err := parseJSON(body)
	if err != nil {
		return 0, err
	}
	for i := range v.Members {
		name := v.Members[i].Name
		if name != "version" {
			return 0, unknownMember(name)
		}
	}
	invalid := func(message string) (int64, error) {
		return 0, &field.ValidationError{Fields: []field.Problem{{Field: "version", Message: message}}}
	}
	m := v.Member("version")
	if m == nil {
		return invalid("is required")
	}
	if !m.IsNumber() {
		return invalid("must be an integer")
	}
	n, kind := parseInteger([]byte(m.Text))
	if kind == notInteger {
		return invalid("must be an integer, written without a decimal point or exponent")
	}
	if kind == outOfRange || n < 1 {
		return invalid("must be between 1 and " + strconv.FormatInt(limiter.MaxExact, 10))
	}
	return n, nil
}
