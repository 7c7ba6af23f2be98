package kit

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/view"
)

// Views stores the views that people save. Errors wrap rules.ErrNotFound, ErrNameTaken or ErrUnavailable, or are a
// *field.ValidationError.
type Views interface {
	// SavedViews returns the views of an account in order of name.
	SavedViews(ctx context.Context, user int64) ([]access.SavedView, error)
	// SaveView stores a new view if its ID is 0. Otherwise it renames the view with the ID.
	SaveView(ctx context.Context, user int64, s access.SavedView) error
	DeleteView(ctx context.Context, user, id int64) error
}

// pathViews is the page on which people rename and delete their views.
const pathViews = "/console/views"

// savedPaths are the pages of which people can save views.
var savedPaths = []string{PathTraffic, PathRules, PathDenials, PathRequests, PathIncidents, PathAudit}

// passing are parameters of pages that views do not keep: the place in a list, and the stop of a tour.
var passing = []string{"page", "before", tourParam}

// ViewRoutes are the routes of saved views. A view belongs to one account and changes nothing for others, so that
// viewers can save views too and the audit log does not contain them.
func (k *Kit) ViewRoutes() []Route {
	const viewer, one = access.RoleViewer, pathViews + "/:id"
	return []Route{
		{Method: http.MethodGet, Path: pathViews, Role: viewer, Handle: k.listViews},
		{Method: http.MethodPost, Path: pathViews, Role: viewer, Handle: Posted(k.saveView)},
		{Method: http.MethodPost, Path: one, Role: viewer, Handle: Posted(k.renameView)},
		{Method: http.MethodPost, Path: one + "/remove", Role: viewer, Handle: k.removeView},
	}
}

// saved are the views of this page, and the filters that can be saved; nil for a page without saved views. While the
// rules database is unreachable there are none.
func (v *Visit) saved() *view.Saved {
	r := v.Request()
	if v.Offline || r.Method != http.MethodGet || !slices.Contains(savedPaths, r.URL.Path) {
		return nil
	}
	list, err := v.kit.Views.SavedViews(v.Ctx, v.User.ID)
	if err != nil {
		return nil
	}
	out := &view.Saved{Path: r.URL.Path}
	here, _ := viewQuery(r.URL.RawQuery)
	if v.CanChange(access.RoleViewer) {
		out.Query = here
	}
	for _, s := range list {
		if s.Path == r.URL.Path {
			out.List = append(out.List, view.SavedLink{Name: s.Name, URL: s.URL(), Current: s.Query == here && here != ""})
		}
	}
	return out
}

// viewQuery is the part of a query that a view keeps, in one order and with every special character escaped.
func viewQuery(raw string) (string, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return "", err
	}
	for name := range values {
		if slices.Contains(passing, name) || strings.Join(values[name], "") == "" {
			values.Del(name)
		}
	}
	return values.Encode(), nil
}

// notSavedView is the page after a view could not be saved.
func notSavedView(status int, why string) error {
	return &Problem{Status: status, Title: "View not saved", Detail: why + " Go back and try again."}
}

// saveView saves the filters of a page under a name. Only pages of this console can be saved.
func (k *Kit) saveView(v *Visit, form url.Values) error {
	const unknown = "This address is no page with filters of this console."
	s := access.SavedView{Name: form.Get("name"), Path: form.Get("path")}
	if !slices.Contains(savedPaths, s.Path) {
		return notSavedView(http.StatusUnprocessableEntity, unknown)
	}
	var err error
	if s.Query, err = viewQuery(form.Get("query")); err != nil || s.Query == "" {
		return notSavedView(http.StatusUnprocessableEntity, "The page has no filters that could be read.")
	}
	if len(s.Query) > access.MaxViewQuery {
		return notSavedView(http.StatusUnprocessableEntity, "The filters are longer than "+
			view.Count(access.MaxViewQuery)+" bytes.")
	}
	if err := k.storeView(v, &s); err != nil {
		return err
	}
	return v.SeeOther(s.URL())
}

// renameView gives a view another name.
func (k *Kit) renameView(v *Visit, form url.Values) error {
	id, err := v.ID("id")
	if err != nil {
		return err
	}
	if err := k.storeView(v, &access.SavedView{ID: id, Name: form.Get("name")}); err != nil {
		return err
	}
	return v.SeeOther(pathViews)
}

func (k *Kit) storeView(v *Visit, s *access.SavedView) error {
	err := k.Views.SaveView(v.Ctx, v.User.ID, *s)
	fields := FieldsOf(err)
	switch {
	case errors.Is(err, rules.ErrNameTaken):
		return notSavedView(http.StatusConflict, "You have another view of this page with that name.")
	case fields != nil:
		return notSavedView(http.StatusUnprocessableEntity, "The name "+fields[0].Message+".")
	case err != nil:
		return err
	}
	v.Flash("View %s saved.", strings.TrimSpace(s.Name))
	return nil
}

// removeView deletes a view.
func (k *Kit) removeView(v *Visit) error {
	id, err := v.ID("id")
	if err != nil {
		return err
	}
	if err := k.Views.DeleteView(v.Ctx, v.User.ID, id); err != nil {
		return err
	}
	v.Flash("View deleted.")
	return v.SeeOther(pathViews)
}

// listViews shows the views of the visitor.
func (k *Kit) listViews(v *Visit) error {
	list, err := k.Views.SavedViews(v.Ctx, v.User.ID)
	if err != nil {
		return err
	}
	// A page may have lost its views since one was saved.
	list = slices.DeleteFunc(list, func(s access.SavedView) bool { return !slices.Contains(savedPaths, s.Path) })
	return v.Page(http.StatusOK, viewsPage(v.Frame("Saved views", ""), list, v.CanChange(access.RoleViewer)))
}

// pageLabel is the name of a page with saved views.
func pageLabel(path string) string {
	if path == PathDenials {
		return "Denials"
	}
	for _, g := range groups {
		for _, e := range g.entries {
			if e.path == path {
				return e.label
			}
		}
	}
	return path
}
