package rules

import (
	"context"
	"time"

	"sluice/rules/field"
	"sluice/rules/profile"
)

// Kind describes a kind of objects that people know by name. Files have a section for each.
type Kind[T any] struct {
	// Noun is what one of them is called; the plural, with an s, is the name of their section.
	Noun string
	// New returns an object whose fields are at their defaults.
	New func() T
	// Fields are the fields that people write, in the order of the JSON form.
	Fields []field.Field[T]
	// Normalize and Validate are the methods and functions of that name. Diff lists what changed;
	// was is nil for a creation, is for a deletion.
	Normalize func(*T)
	Validate  func(*T) error
	Diff      func(was, is *T) []field.Change
	Identity  func(*T) Identity
	// Whole refuses what all stored objects together may not be; nil refuses nothing.
	Whole func([]T) error
}

// Identity is what an object has besides the fields that people write, and its name.
type Identity struct {
	Name                 *string
	Version              *int64
	CreatedAt, UpdatedAt *time.Time
}

// The kinds of objects.
var (
	RuleKind = &Kind[Rule]{
		Noun: "rule", New: func() Rule { return Rule{IsActive: true} }, Fields: ruleFields, Normalize: (*Rule).Normalize,
		Validate: Validate, Diff: Diff,
		Identity: func(r *Rule) Identity { return Identity{&r.Name, &r.Version, &r.CreatedAt, &r.UpdatedAt} },
	}
	PoolKind = &Kind[Pool]{
		Noun: "pool", New: NewPool, Fields: poolFields, Normalize: (*Pool).Normalize, Validate: ValidatePool, Diff: DiffPool,
		Identity: func(p *Pool) Identity { return Identity{&p.Name, &p.Version, &p.CreatedAt, &p.UpdatedAt} },
	}
	ProfileKind = &Kind[profile.Profile]{
		Noun: "profile", New: profile.New, Fields: profile.Fields, Normalize: (*profile.Profile).Normalize,
		Validate: profile.Validate, Diff: profile.Diff,
		Identity: func(p *profile.Profile) Identity { return Identity{&p.Name, &p.Version, &p.CreatedAt, &p.UpdatedAt} },
		Whole:    DistinctDomains,
	}
)

// Plural is what several of them are called.
func (k *Kind[T]) Plural() string { return k.Noun + "s" }

// Field is FieldNamed for the kind.
func (k *Kind[T]) Field(name string) *field.Field[T] { return field.Named(k.Fields, name) }

// Clone returns a copy of an object that shares nothing with the original.
func (k *Kind[T]) Clone(t *T) T { return field.Clone(t) }

// Name returns the name of an object.
func (k *Kind[T]) Name(t *T) string { return *k.Identity(t).Name }

// Version returns the version of an object.
func (k *Kind[T]) Version(t *T) int64 { return *k.Identity(t).Version }

// Store stores the objects of a kind. Errors wrap ErrNotFound, ErrNameTaken, ErrStale or
// ErrUnavailable, or are a *field.ValidationError.
type Store[T any] interface {
	// List returns all objects in order of name; there are never many.
	List(ctx context.Context) ([]T, error)
	Get(ctx context.Context, name string) (T, error)
	// Create stores a new object and returns it with version 1 and times.
	Create(ctx context.Context, actor Actor, t T) (T, error)
	// Update replaces the content of the object with the name of t. If nothing differs, nothing is
	// written and the stored object is returned. If ifVersion is not 0 and not the stored version,
	// the error is ErrStale.
	Update(ctx context.Context, actor Actor, t T, ifVersion int64) (T, error)
	// Delete deletes an object. The error is ErrPoolUsed for a pool that rules use.
	Delete(ctx context.Context, actor Actor, name string, ifVersion int64) error
}
