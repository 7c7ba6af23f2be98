package webtest

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"sluice/internal/access"
	"sluice/rules"
)

// Views are the saved views of a world by account. It is safe for concurrent use. Err, if not nil, is what every call
// fails with.
type Views struct {
	mu     sync.Mutex
	byUser map[int64][]access.SavedView
	last   int64
	Err    error
}

// SavedViews implements kit.Views.
func (f *Views) SavedViews(_ context.Context, user int64) ([]access.SavedView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.SortedFunc(slices.Values(f.byUser[user]), func(a, b access.SavedView) int {
		return cmp.Compare(a.Name, b.Name)
	}), f.Err
}

// SaveView implements kit.Views.
func (f *Views) SaveView(_ context.Context, user int64, s access.SavedView) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	name, err := access.CheckViewName(s.Name)
	if err := cmp.Or(f.Err, err); err != nil {
		return err
	}
	list := f.byUser[user]
	i := slices.IndexFunc(list, func(o access.SavedView) bool { return o.ID == s.ID })
	switch {
	case s.ID == 0 && len(list) >= access.MaxSavedViews:
		return access.ErrTooManyViews
	case s.ID != 0 && i < 0:
		return rules.ErrNotFound
	case s.ID != 0:
		s.Path, s.Query = list[i].Path, list[i].Query
	}
	if slices.ContainsFunc(list, func(o access.SavedView) bool {
		return o.ID != s.ID && o.Name == name && o.Path == s.Path
	}) {
		return rules.ErrNameTaken
	}
	if s.Name = name; s.ID != 0 {
		list[i] = s
		return nil
	}
	f.last++
	s.ID = f.last
	if f.byUser == nil {
		f.byUser = map[int64][]access.SavedView{}
	}
	f.byUser[user] = append(list, s)
	return nil
}

// DeleteView implements kit.Views.
func (f *Views) DeleteView(_ context.Context, user, id int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.byUser[user], func(s access.SavedView) bool { return s.ID == id })
	switch {
	case f.Err != nil:
		return f.Err
	case i < 0:
		return rules.ErrNotFound
	}
	f.byUser[user] = slices.Delete(f.byUser[user], i, i+1)
	return nil
}

// SaveSome saves views of the pages of rules and requests for the viewer and the editor.
func SaveSome(w *World) {
	for user := range int64(2) {
		for _, s := range []access.SavedView{{Name: "Shadow rules", Path: "/console/rules", Query: "mode=shadow"},
			{Name: "A rule with a name as long as a name of a view may be: 60 ch", Path: "/console/rules",
				Query: "fail_mode=closed&sort=denied"},
			{Name: "Charges", Path: "/console/denials", Query: "rule=charges-per-user"}} {
			_ = w.Views.SaveView(context.Background(), user+1, s)
		}
	}
}
