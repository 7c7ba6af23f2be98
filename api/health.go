package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
)

// RuleState says by which rules a node decides. Everyone may read it, so it
// names no rule and no error.
type RuleState struct {
	// Version is that of the set in force.
	Version int64 `json:"version"`
	// Source is where the set came from: database, or copy when the node started
	// with its copy on disk because the database was away.
	Source string `json:"source"`
	// AgeMS is how long ago, in milliseconds, the database confirmed the set.
	AgeMS int64 `json:"age_ms"`
	// RefusedVersion is the version of the rules in the database while those do
	// not compile; nil when they do, or are not known.
	RefusedVersion *int64 `json:"refused_version"`
}

func (s *Server) livez(c echo.Context) error {
	return write(c, http.StatusOK, jsonType, []byte(`{"status":"ok"}`+"\n"))
}

// readyz is about whether this node should get traffic. Old rules are better
// than none, so they are told and do not make it unready.
func (s *Server) readyz(c echo.Context) error {
	if err := s.deps.Ready(); err != nil {
		return reply.NotReady.Problem(err.Error())
	}
	answer := struct {
		Status string     `json:"status"`
		Rules  *RuleState `json:"rules,omitempty"`
	}{Status: "ok"}
	if s.deps.RuleState != nil {
		state := s.deps.RuleState()
		answer.Rules = &state
	}
	return writeJSON(c, http.StatusOK, answer)
}
