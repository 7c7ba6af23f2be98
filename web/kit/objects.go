package kit

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/a-h/templ"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/web/view"
)

// Objects are the pages of a kind of objects that people know by name.
type Objects[T any] struct {
	*Kit
	Kind  *rules.Kind[T]
	Store rules.Store[T]
	// List is the path of the list, Nav the path of its entry in the navigation; "" means List. Page renders the form
	// of one object.
	List, Nav string
	Page      func(view.Frame, ObjectForm) templ.Component
	// New is the start of a new object. Values fills in the form, Read reads it and validates the object.
	New func() T
	// Prefill changes what the form begins with, as the query of the page says; nil for nothing.
	Prefill func(*Visit, *T)
	Values  func(*T) url.Values
	Read    func(url.Values) (T, []field.Problem)
	// Differ lists what people see of the differences between two objects.
	Differ func(theirs, ours *T) []field.Change
	// Saved is the path after an object was saved.
	Saved func(name string) string
	// Created answers after an object was created; nil means a redirect to Saved.
	Created func(*Visit, *T) error
	// Apart: the objects are no part of the rules, so that a change of them is in force at once.
	Apart bool
}

// ObjectForm is the form of an object.
type ObjectForm struct {
	// Name is empty for a new one.
	Name    string
	Form    view.Form
	Problem string
	// Changes are the differences between what someone else saved in the meantime and the form.
	Changes []field.Change
}

// title is the noun at the beginning of a sentence.
func (o *Objects[T]) title() string { return strings.ToUpper(o.Kind.Noun[:1]) + o.Kind.Noun[1:] }

// ObjectRoutes are the routes of the form, of saving and of deleting below the path of a list, for people with a role.
// They call objects for each request. Administrators confirm each change.
func ObjectRoutes[T any](list string, role access.Role, objects func() *Objects[T]) []Route {
	show := func(act func(*Objects[T], *Visit) error) func(*Visit) error {
		return func(v *Visit) error { return act(objects(), v) }
	}
	posted := func(act func(*Objects[T], *Visit, url.Values) error) func(*Visit) error {
		return Posted(func(v *Visit, form url.Values) error { return act(objects(), v, form) })
	}
	one, save := list+"/:name", posted((*Objects[T]).save)
	does := func(verb string) Act {
		return func(v *Visit, form url.Values) (string, error) {
			return verb + " the " + objects().Kind.Noun + " " + Named(cmp.Or(v.Param("name"), form.Get("name"))), nil
		}
	}
	var creates, changes Act
	if role == access.RoleAdmin {
		creates, changes = does("create"), does("change")
	}
	return []Route{
		{Method: http.MethodGet, Path: list + "/new", Role: role, Form: true, Handle: show((*Objects[T]).create)},
		{Method: http.MethodPost, Path: list, Role: role, Reauth: creates, Handle: save},
		{Method: http.MethodGet, Path: one + "/edit", Role: role, Form: true, Handle: show((*Objects[T]).edit)},
		{Method: http.MethodPost, Path: one, Role: role, Reauth: changes, Handle: save},
		{Method: http.MethodPost, Path: one + "/delete", Role: role, Reauth: does("delete"),
			Handle: posted((*Objects[T]).delete)},
	}
}

// create is the form for a new object.
func (o *Objects[T]) create(v *Visit) error {
	t := o.New()
	o.prefill(v, &t)
	return o.show(v, http.StatusOK, ObjectForm{Form: view.NewForm(o.Values(&t), nil)})
}

// edit is the form of the object in the path.
func (o *Objects[T]) edit(v *Visit) error {
	t, err := o.Store.Get(v.Ctx, v.Param("name"))
	if err != nil {
		return err
	}
	o.prefill(v, &t)
	return o.show(v, http.StatusOK, ObjectForm{Name: o.Kind.Name(&t), Form: view.NewForm(o.Values(&t), nil)})
}

func (o *Objects[T]) prefill(v *Visit, t *T) {
	if o.Prefill != nil {
		o.Prefill(v, t)
	}
}

func (o *Objects[T]) show(v *Visit, status int, m ObjectForm) error {
	title := "New " + o.Kind.Noun
	if m.Name != "" {
		title = o.title() + " " + m.Name
	}
	return v.Page(status, o.Page(v.Frame(title, cmp.Or(o.Nav, o.List)), m))
}

// save creates an object or updates the one in the path.
func (o *Objects[T]) save(v *Visit, form url.Values) error {
	m := ObjectForm{Name: v.Param("name")}
	if m.Name != "" {
		form.Set("name", m.Name)
	}
	t, fields := o.Read(form)
	status := http.StatusUnprocessableEntity
	if len(fields) == 0 {
		var err error
		stored := t
		if m.Name == "" {
			stored, err = o.Store.Create(v.Ctx, v.Actor(), t)
		} else {
			_, err = o.Store.Update(v.Ctx, v.Actor(), t, Version(form))
		}
		if errors.Is(err, rules.ErrStale) {
			var theirs T
			if theirs, err = o.Store.Get(v.Ctx, m.Name); err == nil {
				return o.conflict(v, form, m, &theirs, &t)
			}
		}
		switch {
		case err == nil && m.Name == "" && o.Created != nil:
			o.wait(v)
			return o.Created(v, &stored)
		case err == nil:
			o.wait(v)
			v.Flash("%s %s saved.", o.title(), o.Kind.Name(&t))
			return v.SeeOther(o.Saved(o.Kind.Name(&t)))
		case errors.Is(err, rules.ErrNameTaken):
			status = http.StatusConflict
			fields = []field.Problem{{Field: "name", Message: "is already used by another " + o.Kind.Noun}}
		case errors.As(err, new(*rules.TakenError)):
			status, fields = http.StatusConflict, FieldsOf(err)
		case errors.Is(err, rules.ErrNotFound) && m.Name != "":
			m.Name, m.Problem, status = "", DeletedMeanwhile, http.StatusConflict
		case errors.Is(err, rules.ErrUnavailable):
			m.Problem, status = NotSaved(err), http.StatusServiceUnavailable
		default:
			if fields = FieldsOf(err); fields == nil {
				return err
			}
		}
	}
	m.Form = view.NewForm(form, fields)
	return o.show(v, status, m)
}

// conflict shows the form again with the differences to what someone else saved in the meantime. If there are none,
// nothing is left to save.
func (o *Objects[T]) conflict(v *Visit, form url.Values, m ObjectForm, theirs, ours *T) error {
	if m.Changes = o.Differ(theirs, ours); len(m.Changes) == 0 {
		v.Flash("Someone else has saved the same changes to %s %s.", o.Kind.Noun, m.Name)
		return v.SeeOther(o.Saved(m.Name))
	}
	form.Set("version", view.Digits(o.Kind.Version(theirs)))
	m.Form = view.NewForm(form, nil)
	return o.show(v, http.StatusConflict, m)
}

// delete deletes the object in the path, unless it is a pool that rules use.
func (o *Objects[T]) delete(v *Visit, form url.Values) error {
	name := v.Param("name")
	err := o.Store.Delete(v.Ctx, v.Actor(), name, Version(form))
	if errors.Is(err, rules.ErrPoolUsed) {
		return &Problem{Status: http.StatusConflict, Title: "Rules use this pool",
			Detail: "Rules use the pool " + name + ". Remove it from these rules first, then delete it."}
	}
	if err != nil {
		return err
	}
	o.wait(v)
	v.Flash("%s %s deleted.", o.title(), name)
	return v.SeeOther(o.List)
}

// wait waits until a change is in force on this node, if it changed the rules.
func (o *Objects[T]) wait(v *Visit) {
	if !o.Apart {
		v.WaitInForce(o.Changed)
	}
}
