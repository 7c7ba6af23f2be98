package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/internal/alerts"
	"sluice/rules"
	"sluice/rules/field"
)

const (
	// alertsPath is the path of the active alerts, silencesPath that of their silences and acknowledgements.
	alertsPath   = "/ratelimit/alerts"
	silencesPath = "/ratelimit/silences"
)

// Alerts knows the active alerts from memory, as evaluate.Board does.
type Alerts interface {
	// Active returns the active alerts with what silences and acknowledges them. Callers must not change them.
	Active() []alerts.Event
	// Since is when they were read from the rules database, the zero time if they never were.
	Since() time.Time
	// Refresh reads them now. If that fails, they stay as they were.
	Refresh(ctx context.Context)
}

// Silences stores silences. Errors are those of rules.Store.
type Silences interface {
	Silences(ctx context.Context) ([]alerts.Silence, error)
	Silence(ctx context.Context, id int64) (alerts.Silence, error)
	CreateSilence(ctx context.Context, actor rules.Actor, s alerts.Silence) (alerts.Silence, error)
	UpdateSilence(ctx context.Context, actor rules.Actor, s alerts.Silence, ifVersion int64) (alerts.Silence, error)
	DeleteSilence(ctx context.Context, actor rules.Actor, id, ifVersion int64) error
}

// activeAlerts is the response to GET /ratelimit/alerts.
type activeAlerts struct {
	Alerts []activeAlert `json:"alerts"`
	// AsOf is null if this node has not read the alerts yet.
	AsOf *time.Time `json:"as_of"`
}

type activeAlert struct {
	// ID names the alert from its beginning to its end.
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Rule, Key and Level are "" if the alert has none.
	Rule  string `json:"rule"`
	Key   string `json:"key"`
	Level string `json:"level"`
	Text  string `json:"text"`
	Cause string `json:"cause"`
	// Since is when the condition began.
	Since          time.Time       `json:"since"`
	SilencedBy     *alerts.Silence `json:"silenced_by"`
	AcknowledgedBy *alerts.Silence `json:"acknowledged_by"`
}

// listAlerts sends the active alerts.
func (s *Server) listAlerts(c echo.Context) error {
	out := activeAlerts{Alerts: []activeAlert{}, AsOf: optionalTime(s.deps.Alerts.Since())}
	for _, e := range s.deps.Alerts.Active() {
		out.Alerts = append(out.Alerts, activeAlert{ID: e.UID, Kind: string(e.Subject.Kind), Rule: e.Subject.Rule,
			Key: e.Subject.Key, Level: e.Subject.Level, Text: e.Data.Text, Cause: e.Data.Cause, Since: e.At,
			SilencedBy: e.SilencedBy, AcknowledgedBy: e.AcknowledgedBy})
	}
	return writeJSON(c, http.StatusOK, out)
}

func (s *Server) listSilences(c echo.Context) error {
	list, err := s.deps.Silences.Silences(c.Request().Context())
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, map[string][]alerts.Silence{"silences": append([]alerts.Silence{}, list...)})
}

// silenceID reads the id of the path. An invalid id is not found.
func silenceID(c echo.Context) (int64, error) {
	id, err := strconv.ParseInt(c.Param("id"), 10, 64)
	if err != nil || id < 1 || strconv.FormatInt(id, 10) != c.Param("id") {
		return 0, rules.ErrNotFound
	}
	return id, nil
}

func (s *Server) getSilence(c echo.Context) error {
	id, err := silenceID(c)
	if err != nil {
		return err
	}
	cond, err := parseCondition(c, "If-None-Match")
	if err != nil {
		return err
	}
	silence, err := s.deps.Silences.Silence(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return found(c, cond, &silence, silence.Version)
}

// createSilence silences alerts, or acknowledges one.
func (s *Server) createSilence(c echo.Context) error {
	silence, err := s.readSilence(c, alerts.Silence{})
	if err != nil {
		return err
	}
	if silence, err = s.deps.Silences.CreateSilence(c.Request().Context(), actor(c), silence); err != nil {
		return err
	}
	s.deps.Alerts.Refresh(c.Request().Context())
	c.Response().Header().Set("Location", silencesPath+"/"+strconv.FormatInt(silence.ID, 10))
	return writeVersion(c, http.StatusCreated, &silence, silence.Version)
}

// putSilence gives a silence another reason and another end.
func (s *Server) putSilence(c echo.Context) error {
	id, err := silenceID(c)
	if err != nil {
		return err
	}
	was, err := s.deps.Silences.Silence(c.Request().Context(), id)
	if err != nil {
		return err
	}
	silence, err := s.readSilence(c, was)
	if err != nil {
		return err
	}
	version, err := s.checkSilenceVersion(c, id)
	if err != nil {
		return err
	}
	silence, err = s.deps.Silences.UpdateSilence(c.Request().Context(), actor(c), silence, version)
	if err != nil {
		return err
	}
	s.deps.Alerts.Refresh(c.Request().Context())
	return writeVersion(c, http.StatusOK, &silence, silence.Version)
}

func (s *Server) deleteSilence(c echo.Context) error {
	id, err := silenceID(c)
	if err != nil {
		return err
	}
	version, err := s.checkSilenceVersion(c, id)
	if err != nil {
		return err
	}
	if err := s.deps.Silences.DeleteSilence(c.Request().Context(), actor(c), id, version); err != nil {
		return err
	}
	s.deps.Alerts.Refresh(c.Request().Context())
	return c.NoContent(http.StatusNoContent)
}

// checkSilenceVersion is checkRuleVersion for silences.
func (s *Server) checkSilenceVersion(c echo.Context, id int64) (int64, error) {
	return s.checkVersion(c, func() (int64, error) {
		silence, err := s.deps.Silences.Silence(c.Request().Context(), id)
		return silence.Version, err
	})
}

// readSilence reads a silence from the body. was is the stored one, whose alerts cannot change, or zero for a new one.
func (s *Server) readSilence(c echo.Context, was alerts.Silence) (alerts.Silence, error) {
	silence := was
	body, err := readJSON(c)
	if err != nil {
		return silence, err
	}
	v, err := parseJSON(body)
	if err != nil {
		return silence, err
	}
	silence.Reason, silence.EndsAt = "", nil
	var in, missing input
	if err := decodeMembers(&in, v, &silence, alerts.SilenceFields(), "id", "by"); err != nil {
		return silence, err
	}
	if was.ID == 0 {
		requireMembers(&missing, v, &silence, alerts.SilenceFields())
	} else {
		for _, name := range []string{"reason", "ends_at"} {
			if v.Member(name) == nil {
				missing.wrong(name, "is required")
			}
		}
	}
	in.errs = append(missing.errs, in.errs...)
	in.requireID("id", v, was.ID)
	silence.Normalize()
	if was.ID == 0 && silence.Acknowledges != "" {
		in.errs = append(in.errs, s.acknowledge(&silence)...)
	}
	return silence, in.addValidation(silence.Validate(s.deps.Now()))
}

// acknowledge fills in what the acknowledged alert is about, and says what is wrong.
func (s *Server) acknowledge(silence *alerts.Silence) (bad field.Problems) {
	if silence.Kind+silence.Rule+silence.Key+silence.Level != "" {
		bad.Add("acknowledges", "names the alert by itself; leave out kind, rule, key and level")
	}
	list := s.deps.Alerts.Active()
	i := slices.IndexFunc(list, func(e alerts.Event) bool { return e.UID == silence.Acknowledges })
	if i < 0 {
		bad.Add("acknowledges", "is not the id of an active alert; GET /ratelimit/alerts lists them")
		return bad
	}
	silence.Of(&list[i])
	return bad
}
