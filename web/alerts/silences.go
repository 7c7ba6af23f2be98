package alerts

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"sluice/internal/access"
	"sluice/internal/alerts"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/web/kit"
	"sluice/web/view"
)

// lengths are how long a silence can last in the form.
var lengths = []struct {
	value, label string
	length       time.Duration
}{
	{"1h", "1 hour", time.Hour}, {"4h", "4 hours", 4 * time.Hour}, {"1d", "1 day", 24 * time.Hour},
	{"7d", "7 days", 7 * 24 * time.Hour}, {"30d", "30 days", alerts.MaxSilence},
}

// usualLength is the preselected length of a new silence.
const usualLength = "4h"

// Silenced is the page of silences.
type Silenced struct {
	List []alerts.Silence
	// IDs are the rules in force by name. Now tells which silences have ended.
	IDs     map[string]int64
	Now     time.Time
	CanEdit bool
}

// listSilences shows the silences and acknowledgements, the latest end first.
func (p *Pages) listSilences(v *kit.Visit) error {
	list, err := p.Silences.Silences(v.Ctx)
	if err != nil {
		return err
	}
	m := Silenced{List: list, Now: p.Now(), CanEdit: v.CanChange(access.RoleEditor)}
	var names []string
	for i := range list {
		names = append(names, list[i].Rule)
	}
	m.IDs = p.IDs(names...)
	return v.Page(http.StatusOK, silencesPage(v.Frame("Silences", kit.PathAlerts), m))
}

// SilenceForm is the form of a silence or an acknowledgement.
type SilenceForm struct {
	// Stored is the edited silence; its ID is 0 for a new silence.
	Stored alerts.Silence
	// Alert is the text of the alert that it acknowledges, "" for a silence.
	Alert string
	Form  view.Form
	Rules []string
	// Problem is why the form cannot be sent, or was not stored.
	Problem string
	// Gone: the alert that was to be acknowledged is over.
	Gone bool
}

// Acknowledges reports whether the form is about one alert.
func (m *SilenceForm) Acknowledges() bool { return m.Form.Get("acknowledges") != "" }

// newSilence is the form for a silence of an active alert in the address, or for an acknowledgement of it.
func (p *Pages) newSilence(v *kit.Visit) error {
	form := url.Values{"lasts": {usualLength}, "kind": {string(alerts.KindRuleDenials)}}
	if e := p.activeAlert(v.QueryParam("alert")); e != nil {
		form.Set("kind", string(e.Subject.Kind))
		form.Set("rule", e.Subject.Rule)
		form.Set("key", e.Subject.Key)
		form.Set("level", e.Subject.Level)
	}
	form.Set("acknowledges", v.QueryParam("acknowledges"))
	return p.showSilence(v, http.StatusOK, &SilenceForm{Form: view.NewForm(form, nil)})
}

// activeAlert is the active alert with a UID, nil if it is over.
func (p *Pages) activeAlert(uid string) *alerts.Event {
	active := p.Board.Active()
	if i := slices.IndexFunc(active, func(e alerts.Event) bool { return e.UID == uid }); i >= 0 {
		return &active[i]
	}
	return nil
}

// editSilence is the form for another reason and another end.
func (p *Pages) editSilence(v *kit.Visit) error {
	s, err := p.storedSilence(v)
	if err != nil {
		return err
	}
	form := url.Values{"reason": {s.Reason}, "version": {view.Digits(s.Version)}}
	return p.showSilence(v, http.StatusOK, &SilenceForm{Stored: s, Form: view.NewForm(form, nil)})
}

func (p *Pages) storedSilence(v *kit.Visit) (alerts.Silence, error) {
	id, err := v.ID("id")
	if err != nil {
		return alerts.Silence{}, err
	}
	return p.Silences.Silence(v.Ctx, id)
}

func (p *Pages) showSilence(v *kit.Visit, status int, m *SilenceForm) error {
	title := "New silence"
	switch {
	case m.Stored.ID != 0:
		title = "Edit a silence"
	case m.Acknowledges():
		title = "Acknowledge an alert"
		if e := p.activeAlert(m.Form.Get("acknowledges")); e != nil {
			m.Alert = e.Data.Text
		} else {
			m.Gone = true
		}
	}
	m.Rules = p.RuleNames()
	return v.Page(status, silenceForm(v.Frame(title, kit.PathAlerts), title, m))
}

// readSilence reads the form onto a stored silence, or a zero one. Errors are named after the inputs.
func (p *Pages) readSilence(form url.Values, s *alerts.Silence) []field.Problem {
	now := p.Now()
	s.Reason = form.Get("reason")
	known := form.Get("lasts") == "" // which keeps the end
	for _, l := range lengths {
		if l.value == form.Get("lasts") {
			s.EndsAt, known = new(now.Add(l.length)), true
		}
	}
	if s.ID == 0 {
		if e := p.activeAlert(form.Get("acknowledges")); e != nil {
			s.Of(e)
		} else {
			s.Kind, s.Rule, s.Key, s.Level = form.Get("kind"), form.Get("rule"), form.Get("key"), form.Get("level")
		}
	}
	s.Normalize()
	problems := inputs(kit.FieldsOf(s.Validate(now)))
	if !known && s.ID != 0 { // of a new one, the end is missing
		problems = append(problems, field.Problem{Field: "lasts", Message: "must be one of the offered lengths"})
	}
	return problems
}

// inputs names problems after the inputs of the form.
func inputs(problems []field.Problem) []field.Problem {
	for i := range problems {
		if problems[i].Field == "ends_at" {
			problems[i] = field.Problem{Field: "lasts", Message: "must be one of the offered lengths; a silence that has " +
				"ended cannot keep its end"}
		}
	}
	return problems
}

// saveSilence stores a new silence or acknowledgement, or a new reason and end of the one in the path.
func (p *Pages) saveSilence(v *kit.Visit, form url.Values) error {
	m := &SilenceForm{}
	var err error
	if v.Param("id") != "" {
		if m.Stored, err = p.storedSilence(v); err != nil {
			return err
		}
	}
	s := m.Stored
	problems := p.readSilence(form, &s)
	m.Form = view.NewForm(form, problems)
	if m.Stored.ID == 0 && m.Acknowledges() && s.Acknowledges == "" {
		return p.showSilence(v, http.StatusConflict, m)
	}
	if len(problems) > 0 {
		return p.showSilence(v, http.StatusUnprocessableEntity, m)
	}
	if m.Stored.ID == 0 {
		s, err = p.Silences.CreateSilence(v.Ctx, v.Actor(), s)
	} else {
		s, err = p.Silences.UpdateSilence(v.Ctx, v.Actor(), s, kit.Version(form))
	}
	problems = inputs(kit.FieldsOf(err))
	switch {
	case errors.Is(err, rules.ErrStale):
		return p.silenceConflict(v, form, m)
	case errors.Is(err, rules.ErrUnavailable):
		m.Problem = kit.NotSaved(err)
		return p.showSilence(v, http.StatusServiceUnavailable, m)
	case problems != nil:
		m.Form = view.NewForm(form, problems)
		return p.showSilence(v, http.StatusUnprocessableEntity, m)
	case err != nil:
		return err
	}
	p.Board.Refresh(v.Ctx)
	done := "Silence saved."
	if s.Acknowledges != "" {
		done = "Alert acknowledged."
	}
	v.Flash("%s", done)
	if s.Acknowledges != "" && m.Stored.ID == 0 {
		return v.SeeOther(kit.PathAlerts)
	}
	return v.SeeOther(pathSilences)
}

// silenceConflict shows the form again after someone else changed the silence. Saving again replaces their change.
func (p *Pages) silenceConflict(v *kit.Visit, form url.Values, m *SilenceForm) error {
	theirs, err := p.storedSilence(v)
	if err != nil {
		return err
	}
	form.Set("version", view.Digits(theirs.Version))
	m.Stored, m.Form = theirs, view.NewForm(form, nil)
	m.Problem = "Someone else changed this silence in the meantime, so nothing was saved. Their reason is: " +
		theirs.Reason + " Their end is " + theirs.EndsAt.UTC().Format("2006-01-02 15:04:05 UTC") +
		". Saving again replaces their change."
	return p.showSilence(v, http.StatusConflict, m)
}

// endSilence ends the silence or acknowledgement in the path.
func (p *Pages) endSilence(v *kit.Visit, form url.Values) error {
	id, err := v.ID("id")
	if err != nil {
		return err
	}
	if err := p.Silences.DeleteSilence(v.Ctx, v.Actor(), id, kit.Version(form)); err != nil {
		return err
	}
	p.Board.Refresh(v.Ctx)
	v.Flash("Silence ended. Its alerts that are still active are sent now.")
	return v.SeeOther(pathSilences)
}

// silenceNoun is what a silence is called.
func silenceNoun(s *alerts.Silence) string {
	if s.Acknowledges != "" {
		return "acknowledgement"
	}
	return "silence"
}

// about says which alerts a silence covers.
func about(s *alerts.Silence) string {
	text := kindTitle(s.Kind)
	if s.Rule != "" {
		text += ", rule " + s.Rule
	}
	if s.Key != "" {
		text += ", key " + s.Key
	}
	if s.Level != "" {
		text += ", level " + s.Level
	}
	return text
}

// lengthChoices are the lengths of the form. A stored silence can keep its end.
func (m *SilenceForm) lengthChoices() []view.Choice {
	var out []view.Choice
	if m.Stored.ID != 0 {
		out = append(out, view.Choice{"", "Keep the end"})
	}
	for _, l := range lengths {
		out = append(out, view.Choice{l.value, l.label})
	}
	return out
}

// silencedKinds are the choices of the kind.
func silencedKinds() (out []view.Choice) {
	for _, k := range alerts.SilenceKinds() {
		out = append(out, view.Choice{k, kindTitle(k)})
	}
	return out
}

// silencePath is the path of a stored silence with what follows.
func silencePath(id int64, rest string) string { return pathSilences + "/" + view.Digits(id) + rest }

// action is where the form is posted.
func (m *SilenceForm) action() string {
	if m.Stored.ID != 0 {
		return silencePath(m.Stored.ID, "")
	}
	return pathSilences
}

// back is the page to which Cancel leads.
func (m *SilenceForm) back() string {
	if m.Stored.ID == 0 {
		return kit.PathAlerts
	}
	return pathSilences
}

// newSilencePath is the form for an active alert. how is alert or acknowledges.
func newSilencePath(how, uid string) string {
	return pathSilences + "/new?" + url.Values{how: {uid}}.Encode()
}

// submit is the word on the button of the form.
func (m *SilenceForm) submit() string {
	switch {
	case m.Stored.ID != 0:
		return "Save"
	case m.Acknowledges():
		return "Acknowledge"
	}
	return "Silence"
}
