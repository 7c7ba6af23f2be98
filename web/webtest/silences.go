package webtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"sluice/internal/alerts"
	"sluice/rules"
)

// Silences are the silences of a world. It is safe for concurrent use. Err, if not nil, is what every call fails with.
type Silences struct {
	mu   sync.Mutex
	List []alerts.Silence
	Err  error
	last int64
}

// Silences implements alerts.Silences.
func (f *Silences) Silences(context.Context) ([]alerts.Silence, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.List), f.Err
}

func (f *Silences) at(id, ifVersion int64) (int, error) {
	i := slices.IndexFunc(f.List, func(s alerts.Silence) bool { return s.ID == id })
	switch {
	case f.Err != nil:
		return 0, f.Err
	case i < 0:
		return 0, rules.ErrNotFound
	case ifVersion != 0 && f.List[i].Version != ifVersion:
		return 0, rules.ErrStale
	}
	return i, nil
}

// Silence implements alerts.Silences.
func (f *Silences) Silence(_ context.Context, id int64) (s alerts.Silence, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.at(id, 0)
	if err == nil {
		s = f.List[i]
	}
	return s, err
}

// CreateSilence implements alerts.Silences.
func (f *Silences) CreateSilence(_ context.Context, actor rules.Actor, s alerts.Silence) (alerts.Silence, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Err != nil {
		return s, f.Err
	}
	if len(f.List) >= alerts.MaxSilences {
		return s, alerts.ErrTooManySilences
	}
	f.last++
	s.ID, s.By, s.Version, s.CreatedAt, s.UpdatedAt = f.last, actor.Name, 1, Now, Now
	f.List = append(f.List, s)
	return s, nil
}

// UpdateSilence implements alerts.Silences.
func (f *Silences) UpdateSilence(_ context.Context, _ rules.Actor, s alerts.Silence,
	ifVersion int64) (alerts.Silence, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.at(s.ID, ifVersion)
	if err == nil {
		s.Version++
		f.List[i] = s
	}
	return s, err
}

// DeleteSilence implements alerts.Silences.
func (f *Silences) DeleteSilence(_ context.Context, _ rules.Actor, id, ifVersion int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.at(id, ifVersion)
	if err == nil {
		f.List = slices.Delete(f.List, i, i+1)
	}
	return err
}

// Handle silences the second active alert of a world, acknowledges the first, and adds a silence that has ended.
func Handle(w *World) {
	add := func(reason string, ends time.Duration, edit func(*alerts.Silence)) {
		s := alerts.Silence{Kind: string(alerts.KindRuleDenials), Reason: reason, EndsAt: new(Now.Add(ends))}
		edit(&s)
		_, _ = w.Silences.CreateSilence(context.Background(), rules.Actor{Kind: "user", Name: "edda"}, s)
	}
	add("The sale doubles the traffic until Monday.", 40*time.Hour,
		func(s *alerts.Silence) { s.Rule = "charges-per-user" })
	add("The customer knows.", 4*time.Hour, func(s *alerts.Silence) { s.Of(&w.Alerts.On[0]) })
	add("Load test.", -30*time.Hour, func(s *alerts.Silence) {
		s.Kind, s.Rule, s.Key = string(alerts.KindKeyHot), "search-per-user", "user:7"
	})
	w.Alerts.Refresh(context.Background())
	w.Alerts.Past[1].Silenced = true
}
