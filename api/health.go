package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
)

// RuleState describes the rules in force on a node. It is public, so it contains no
// names of rules and no errors.
type RuleState struct {
	// Version is the version of the set in force.
	Version int64 `json:"version"`
	// Source is database, or copy if the node started with its local copy because the
	// database was unavailable.
	Source string `json:"source"`
	// AgeMS is the time since the database last confirmed the set, in milliseconds.
	AgeMS int64 `json:"age_ms"`
	// RefusedVersion is the version of the stored rules while they do not compile; nil
	// if they compile or are unknown.
	RefusedVersion *int64 `json:"refused_version"`
}

func (s *Server) livez(c echo.Context) error {
	return write(c, http.StatusOK, jsonType, []byte(`{"status":"ok"}`+"\n"))
}

// readyz reports whether this node should receive traffic. Old rules do not make it unready, because they are better
// than none; the response describes them, and lists the codes of the troubles of the node. The status does not depend
// on these, and the codes reveal no secrets.
func (s *Server) readyz(c echo.Context) error {
	if err := s.deps.Ready(); err != nil {
		return reply.NotReady.Problem(err.Error())
	}
	answer := struct {
		Status  string     `json:"status"`
		Rules   *RuleState `json:"rules,omitempty"`
		Trouble []string   `json:"trouble"`
	}{Status: "ok", Trouble: []string{}}
	if s.deps.Trouble != nil {
		answer.Trouble = s.deps.Trouble()
	}
	if s.deps.RuleState != nil {
		state := s.deps.RuleState()
		answer.Rules = &state
	}
	return writeJSON(c, http.StatusOK, answer)
}
