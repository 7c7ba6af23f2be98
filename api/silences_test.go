package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/alerts"
	"sluice/rules"
	"sluice/rules/field"
)

// silenceShelf has silences as the database does, and one active alert, which only Refresh marks.
type silenceShelf struct {
	*book
	list   []alerts.Silence
	last   int64
	active []alerts.Event
}

func (b *book) shelfOfSilences() *silenceShelf {
	e := alerts.Event{UID: "ALERT1", At: b.now(), Kind: alerts.KindRuleDenials, State: alerts.On,
		Subject: alerts.Subject{Kind: alerts.KindRuleDenials, Rule: "charges", Level: "50%,0/s"},
		Data:    alerts.Data{Text: "The rule charges denied much."}}
	return &silenceShelf{book: b, active: []alerts.Event{e}}
}

func (f *silenceShelf) Active() []alerts.Event { return f.active }

func (f *silenceShelf) Since() time.Time { return f.now() }

func (f *silenceShelf) Refresh(context.Context) {
	for i := range f.active {
		f.active[i].Mark(f.list, f.now())
	}
}

func (f *silenceShelf) Silences(context.Context) ([]alerts.Silence, error) { return f.list, f.err }

func (f *silenceShelf) at(id, ifVersion int64) (int, error) {
	i := slices.IndexFunc(f.list, func(s alerts.Silence) bool { return s.ID == id })
	switch {
	case f.err != nil:
		return 0, f.err
	case i < 0:
		return 0, rules.ErrNotFound
	case ifVersion != 0 && f.list[i].Version != ifVersion:
		return 0, rules.ErrStale
	}
	return i, nil
}

func (f *silenceShelf) Silence(_ context.Context, id int64) (alerts.Silence, error) {
	i, err := f.at(id, 0)
	if err != nil {
		return alerts.Silence{}, err
	}
	return f.list[i], nil
}

func (f *silenceShelf) CreateSilence(_ context.Context, actor rules.Actor, s alerts.Silence) (alerts.Silence, error) {
	if f.err != nil {
		return s, f.err
	}
	f.last++
	s.ID, s.By, s.Version, s.CreatedAt, s.UpdatedAt = f.last, actor.Name, 1, f.now(), f.now()
	f.list = append(f.list, s)
	return s, nil
}

func (f *silenceShelf) UpdateSilence(_ context.Context, _ rules.Actor, s alerts.Silence,
	ifVersion int64) (alerts.Silence, error) {
	i, err := f.at(s.ID, ifVersion)
	if err != nil {
		return s, err
	}
	if !s.SameAlerts(&f.list[i]) {
		return s, &field.ValidationError{Fields: []field.Problem{{Field: "kind", Message: "cannot be changed"}}}
	}
	s.Version++
	f.list[i] = s
	return s, nil
}

func (f *silenceShelf) DeleteSilence(_ context.Context, _ rules.Actor, id, ifVersion int64) error {
	i, err := f.at(id, ifVersion)
	if err == nil {
		f.list = slices.Delete(f.list, i, i+1)
	}
	return err
}

// endsIn is the member ends_at of a silence that ends a while after the clock of fixtures.
func endsIn(after time.Duration) string {
	return `"ends_at":"` + time.UnixMilli(epoch).UTC().Add(after).Format(time.RFC3339) + `"`
}

func TestSilences_CreateReadReplaceDelete(t *testing.T) {
	f := newFixture(t, nil)
	const path = silencesPath + "/1"
	a := f.do(http.MethodPost, silencesPath, `{"kind":"rule_denials","rule":"charges","reason":"a sale",`+endsIn(time.Hour)+`}`).
		want(http.StatusCreated)
	if a.header.Get("Location") != path || a.header.Get("ETag") != `"1"` || a.header.Get("Sluice-In-Force") != "" {
		t.Errorf("created: %v %s", a.header, a.body)
	}
	read := f.do(http.MethodGet, path, "").want(http.StatusOK)
	if want := `{"id":1,"acknowledges":"","kind":"rule_denials","rule":"charges","key":"","level":"","reason":"a sale",` +
		endsIn(time.Hour) + `,"by":"local","version":1,"created_at":`; !strings.HasPrefix(read.body, want) {
		t.Errorf("got %s\nwant %s…", read.body, want)
	}
	f.do(http.MethodGet, path, "", "If-None-Match", `"1"`).want(http.StatusNotModified)
	if a := f.do(http.MethodGet, alertsPath, "").want(http.StatusOK); !strings.Contains(a.body, `"silenced_by":{"id":1,`) ||
		!strings.Contains(a.body, `"acknowledged_by":null`) || !strings.Contains(a.body, `"id":"ALERT1"`) {
		t.Errorf("active: %s", a.body)
	}
	// What GET returns can be sent back.
	f.do(http.MethodPut, path, read.body, "If-Match", `"7"`).want(http.StatusPreconditionFailed)
	f.do(http.MethodPut, path, read.body, "If-Match", `"1"`).want(http.StatusOK)
	put := f.do(http.MethodPut, path, `{"reason":"longer",`+endsIn(2*time.Hour)+`}`, "If-Match", `"2"`).want(http.StatusOK)
	if put.header.Get("ETag") != `"3"` || !strings.Contains(put.body, `"rule":"charges"`) ||
		!strings.Contains(put.body, endsIn(2*time.Hour)) {
		t.Errorf("replaced: %v %s", put.header, put.body)
	}
	f.do(http.MethodPut, path, `{"rule":"search","reason":"r",`+endsIn(time.Hour)+`}`).want(http.StatusUnprocessableEntity)
	f.do(http.MethodPut, path, `{"id":2,"reason":"r",`+endsIn(time.Hour)+`}`).want(http.StatusUnprocessableEntity)
	if list := f.do(http.MethodGet, silencesPath, "").want(http.StatusOK); strings.Count(list.body, `"id":1,`) != 1 {
		t.Errorf("list %s", list.body)
	}
	f.do(http.MethodDelete, path, "", "If-Match", `"1"`).want(http.StatusPreconditionFailed)
	f.do(http.MethodDelete, path, "", "If-Match", `"3"`).want(http.StatusNoContent)
	if a := f.do(http.MethodGet, alertsPath, "").want(http.StatusOK); !strings.Contains(a.body, `"silenced_by":null`) {
		t.Errorf("active: %s", a.body)
	}
	for _, id := range []string{"1", "0", "01", "x"} {
		f.do(http.MethodGet, silencesPath+"/"+id, "").want(http.StatusNotFound)
		f.do(http.MethodDelete, silencesPath+"/"+id, "").want(http.StatusNotFound)
		f.do(http.MethodPut, silencesPath+"/"+id, `{"reason":"r",`+endsIn(time.Hour)+`}`).want(http.StatusNotFound)
	}
}

func TestSilences_AcknowledgeAnActiveAlert(t *testing.T) {
	f := newFixture(t, nil)
	const about = `"acknowledges":"ALERT1","kind":"rule_denials","rule":"charges","key":"","level":"50%,0/s","reason":"on it"`
	a := f.do(http.MethodPost, silencesPath, `{"acknowledges":"ALERT1","reason":"on it",`+endsIn(time.Hour)+`}`).
		want(http.StatusCreated)
	if !strings.Contains(a.body, about) {
		t.Errorf("created: %s", a.body)
	}
	if a := f.do(http.MethodGet, alertsPath, "").want(http.StatusOK); !strings.Contains(a.body, `"acknowledged_by":{"id":1,`) {
		t.Errorf("active: %s", a.body)
	}
	f.do(http.MethodPut, silencesPath+"/1", a.body).want(http.StatusOK)
}

func TestSilences_BadInputNamesEveryField(t *testing.T) {
	f := newFixture(t, nil)
	month := 30 * 24 * time.Hour
	for body, want := range map[string][]string{
		`{}`: {"ends_at", "kind", "reason"},
		`{"kind":"none","rule":"A b","reason":" ",` + endsIn(-time.Second) + `}`:                             {"ends_at", "kind", "reason", "rule"},
		`{"kind":"failmode_ended","reason":"r",` + endsIn(time.Hour) + `}`:                                   {"kind"},
		`{"kind":"key_hot","reason":"r","ends_at":null}`:                                                     {"ends_at"},
		`{"kind":"key_hot","reason":"r","ends_at":"tomorrow"}`:                                               {"ends_at"},
		`{"kind":"key_hot","reason":"r",` + endsIn(0) + `}`:                                                  {"ends_at"},
		`{"kind":"key_hot","reason":"r",` + endsIn(month+time.Second) + `}`:                                  {"ends_at"},
		`{"kind":"key_hot","reason":"a\nb",` + endsIn(time.Hour) + `}`:                                       {"reason"},
		`{"kind":"key_hot","reason":"` + strings.Repeat("ä", 201) + `",` + endsIn(time.Hour) + `}`:           {"reason"},
		`{"kind":"key_hot","reason":7,"key":1,` + endsIn(time.Hour) + `}`:                                    {"key", "reason"},
		`{"kind":"key_hot","key":"` + strings.Repeat("k", 513) + `","reason":"r",` + endsIn(time.Hour) + `}`: {"key"},
		`{"acknowledges":"NONE","reason":"r",` + endsIn(time.Hour) + `}`:                                     {"acknowledges"},
		`{"acknowledges":"ALERT1","kind":"key_hot","reason":"r",` + endsIn(time.Hour) + `}`:                  {"acknowledges"},
	} {
		var p struct {
			Errors []field.Problem `json:"errors"`
		}
		f.do(http.MethodPost, silencesPath, body).want(http.StatusUnprocessableEntity).decode(&p)
		var got []string
		for _, e := range p.Errors {
			got = append(got, e.Field)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%.80s: got %v, want %v", body, p.Errors, want)
		}
	}
	for _, ok := range []string{strings.Repeat("ä", 200), "r"} {
		f.do(http.MethodPost, silencesPath, fmt.Sprintf(`{"kind":"key_hot","reason":%q,%s}`, ok, endsIn(month))).
			want(http.StatusCreated)
	}
	f.do(http.MethodPost, silencesPath, `{"kind":"key_hot","reason":"r","until":"x"}`).want(http.StatusBadRequest)
	f.book.err = rules.ErrUnavailable
	f.do(http.MethodGet, silencesPath, "").want(http.StatusServiceUnavailable)
	f.do(http.MethodPost, silencesPath, `{"kind":"key_hot","reason":"r",`+endsIn(month)+`}`).want(http.StatusServiceUnavailable)
}
