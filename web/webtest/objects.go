package webtest

import (
	"context"
	"slices"

	"sluice/rules"
)

// Objects are the objects of a kind in memory. Err, if not nil, is what every call of the store fails with, and GetErr
// what reading one of them fails with.
type Objects[T any] struct {
	List []T
	// Used are pools that rules name.
	Used        map[string]bool
	Err, GetErr error
	kind        *rules.Kind[T]
}

// Store returns the store of the objects.
func (o *Objects[T]) Store() rules.Store[T] { return objectStore[T]{o} }

type objectStore[T any] struct{ *Objects[T] }

func (s objectStore[T]) at(name string) int {
	return slices.IndexFunc(s.Objects.List, func(t T) bool { return s.kind.Name(&t) == name })
}

// List implements rules.Store.
func (s objectStore[T]) List(context.Context) ([]T, error) {
	return slices.Clone(s.Objects.List), s.Err
}

// Get implements rules.Store.
func (s objectStore[T]) Get(_ context.Context, name string) (T, error) {
	if s.GetErr != nil {
		return *new(T), s.GetErr
	}
	return s.stored(name)
}

func (s objectStore[T]) stored(name string) (t T, err error) {
	i := s.at(name)
	switch {
	case s.Err != nil:
		return t, s.Err
	case i < 0:
		return t, rules.ErrNotFound
	}
	return s.kind.Clone(&s.Objects.List[i]), nil
}

// Create implements rules.Store.
func (s objectStore[T]) Create(_ context.Context, _ rules.Actor, t T) (T, error) {
	s.kind.Normalize(&t)
	is := s.kind.Identity(&t)
	switch err := s.kind.Validate(&t); {
	case s.Err != nil:
		return t, s.Err
	case err != nil:
		return t, err
	case s.at(*is.Name) >= 0:
		return t, rules.ErrNameTaken
	}
	*is.Version, *is.CreatedAt, *is.UpdatedAt = 1, Now, Now
	all := append(slices.Clone(s.Objects.List), t)
	if s.kind.Whole != nil {
		if err := s.kind.Whole(all); err != nil {
			return t, err
		}
	}
	s.Objects.List = all
	return t, nil
}

// Update implements rules.Store. Like the database, it returns the zero value with an error.
func (s objectStore[T]) Update(_ context.Context, _ rules.Actor, t T, ifVersion int64) (T, error) {
	var none T
	is := s.kind.Identity(&t)
	stored, err := s.stored(*is.Name)
	if err != nil {
		return none, err
	}
	was := s.kind.Identity(&stored)
	if *was.Version != ifVersion {
		return none, rules.ErrStale
	}
	if err := s.kind.Validate(&t); err != nil {
		return none, err
	}
	*is.Version, *is.CreatedAt, *is.UpdatedAt = *was.Version+1, *was.CreatedAt, Now
	s.Objects.List[s.at(*is.Name)] = t
	return t, nil
}

// Delete implements rules.Store.
func (s objectStore[T]) Delete(_ context.Context, _ rules.Actor, name string, ifVersion int64) error {
	was, err := s.stored(name)
	switch {
	case err != nil:
		return err
	case s.kind.Version(&was) != ifVersion:
		return rules.ErrStale
	case s.Used[name]:
		return rules.ErrPoolUsed
	}
	i := s.at(name)
	s.Objects.List = slices.Delete(s.Objects.List, i, i+1)
	return nil
}
