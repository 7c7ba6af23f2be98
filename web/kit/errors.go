package kit

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/web/view"
)

// Problem is an error that has a page. Its texts are for people.
type Problem struct {
	Status        int
	Title, Detail string
}

func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

// Errors that have a page. Areas return the exported ones.
var (
	ErrMissing = &Problem{http.StatusNotFound, "Not found",
		"This page does not exist, or the object that it showed was deleted."}
	errCrossOrigin = &Problem{http.StatusForbidden, "Request rejected",
		"The request came from another website, so nothing was changed. Open the console and try again there."}
	errLongQuery = &Problem{http.StatusUnprocessableEntity, "Filter too long",
		"The filters of a page can have 8,192 bytes together, as the address of the page has them. Shorten the text."}
	errPanic       = &Problem{http.StatusInternalServerError, "Internal error", "The error was logged. Try again."}
	ErrUnavailable = &Problem{http.StatusServiceUnavailable, "The rules database is unreachable",
		"Requests are still being rate-limited with the last loaded rules. Nothing was changed; changes are disabled " +
			"until it is back."}
	errReplica = &Problem{http.StatusServiceUnavailable, "This console is read-only",
		"The rules database of this region is a read replica, so changes are made in the console of the primary region. " +
			"Nothing was changed."}
	errChanging = &Problem{http.StatusServiceUnavailable, "Another change is in progress",
		"Another change, such as a large import, is in progress. Nothing was changed. Try again when it is done."}
	errDiskFull = &Problem{http.StatusServiceUnavailable, "The disk of the rules database is full",
		"The disk of the rules database has no space left, so nothing can be changed. Requests are still being " +
			"rate-limited with the last loaded rules."}
	errNameTaken = &Problem{http.StatusConflict, "Name already in use", "Something else already has this name."}
	ErrStale     = &Problem{http.StatusConflict, "Changed in the meantime",
		"Someone else changed this after the page was loaded, so nothing was changed. Reload the page to see the current " +
			"version."}
	errLastAdmin = &Problem{http.StatusConflict, "Last administrator",
		"This is the last administrator account. Give another account the role admin first."}
	ErrExternal = &Problem{http.StatusConflict, "Managed by single sign-on",
		"This account signs in with single sign-on. Its role follows the groups that the provider reports at each " +
			"sign-in, and it has no password here."}
)

// NotSaved returns the reason why a form could not be saved, for the form that is shown again. err is an error that has
// a page.
func NotSaved(err error) string {
	p := ProblemOf(err)
	if p == ErrUnavailable {
		return "The rules database is unreachable. Nothing was saved. What you typed is still here: save again when the " +
			"database is back. Requests are still being rate-limited with the last loaded rules."
	}
	return p.Detail + " Nothing was saved. What you typed is still here."
}

// DeletedMeanwhile is shown with the form of an object that was deleted while it was edited.
const DeletedMeanwhile = "Someone deleted this in the meantime. Nothing was saved. Saving now creates it again."

// ProblemOf maps the few kinds of errors to pages; anything else is nil.
func ProblemOf(err error) *Problem {
	var p *Problem
	var invalid *field.ValidationError
	var taken *rules.TakenError
	var replica *rules.ReplicaError
	var named *rules.NamedError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &replica):
		return errReplica
	case errors.As(err, &named):
		return &Problem{Status: http.StatusConflict, Title: "Named in Replaces of " + strings.Join(named.By, " and "),
			Detail: "Other rules name the rule " + named.Name + " in Replaces. Remove it there first, then delete it."}
	case errors.Is(err, rules.ErrNotFound):
		return ErrMissing
	case errors.Is(err, rules.ErrDiskFull):
		return errDiskFull
	case errors.Is(err, rules.ErrBusy):
		return errChanging
	case errors.Is(err, rules.ErrUnavailable):
		return ErrUnavailable
	case errors.Is(err, rules.ErrNameTaken):
		return errNameTaken
	case errors.Is(err, rules.ErrStale):
		return ErrStale
	case errors.Is(err, access.ErrLastAdmin):
		return errLastAdmin
	case errors.Is(err, access.ErrExternal):
		return ErrExternal
	case errors.As(err, &taken):
		return &Problem{http.StatusConflict, "Already in use", "Nothing was changed: " + taken.Error() + "."}
	case errors.As(err, &invalid):
		return &Problem{http.StatusUnprocessableEntity, "Invalid input", invalid.Error()}
	}
	return nil
}

// fail answers with the page of an error. It must work when nothing else does,
// so it leaves the session alone.
func (v *Visit) fail(err error) {
	if v.Response().Committed {
		return
	}
	p := ProblemOf(err)
	if p == nil {
		p = errPanic
		if !errors.Is(err, context.Canceled) {
			v.kit.Logger.Error("a page of the console failed", "route", v.Path(), "error", err)
		}
	}
	h := v.Response().Header()
	h.Del("Content-Encoding")
	h.Del("Content-Length")
	f := view.Frame{Title: p.Title, Here: PathHome, Theme: v.currentTheme()}
	if v.User.ID != 0 {
		f.Nav, f.User, f.Role, f.Alerts = v.Navigation(""), v.User.Name, string(v.User.Role), v.kit.bell()
		if node := v.kit.Node(); v.Ctx != nil {
			f.Live, f.Banners = v.nodeBanners(&node), v.banners(&node)
		}
	}
	ctx := v.Ctx
	v.Ctx = nil // the session is not saved
	m := view.Failure{Status: p.Status, Title: p.Title, Detail: p.Detail, Resend: v.resend(p.Status, err)}
	if errors.As(err, new(*rules.ReplicaError)) {
		m.Primary = v.hereAtPrimary()
		f.Banners = slices.DeleteFunc(f.Banners, func(b view.Banner) bool { return b.Primary != "" }) // it says the same
	}
	page := view.ErrorPage(f, m)
	if v.HTMX() { // only a part of the page was requested
		page = view.Problem(p.Title + ". " + p.Detail)
	}
	if err := v.Page(p.Status, page); errors.Is(err, context.Canceled) {
		v.kit.Logger.Debug("a client left before the page of an error", "route", v.Path())
	} else if err != nil {
		v.kit.Logger.Error("the page of an error failed", "error", err)
		_ = v.String(http.StatusInternalServerError, "Internal error. It was logged.")
	}
	v.Ctx = ctx
}
