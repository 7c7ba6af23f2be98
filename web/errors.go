package web

import (
	"context"
	"errors"
	"net/http"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/view"
)

// problem is an error with a page of its own. Its texts are for people.
type problem struct {
	status        int
	title, detail string
}

func (p *problem) Error() string { return p.title + ": " + p.detail }

var (
	errMissing     = &problem{http.StatusNotFound, "Nothing here", "There is no such page, or what it was about has been deleted."}
	errCrossOrigin = &problem{http.StatusForbidden, "Refused", "This was sent from another web site, so nothing was done. Open the console and do it there."}
	errPanic       = &problem{http.StatusInternalServerError, "Something broke", "It has been logged. Trying again may help."}
	errAway        = &problem{http.StatusServiceUnavailable, "The rules database is unreachable", "Requests are still being rate-limited with the last loaded rules. Nothing was changed; changes are disabled until it is back."}
	errChanging    = &problem{http.StatusServiceUnavailable, "Another change is being written", "Another change is being written, such as a large import. Nothing was changed; try again when it is done."}
	errDiskFull    = &problem{http.StatusServiceUnavailable, "The disk under the rules database is full", "The disk under the rules database has no room left, so nothing can be changed. Requests are still being rate-limited with the last loaded rules."}
	errTaken       = &problem{http.StatusConflict, "The name is taken", "Something else has this name already."}
	errStale       = &problem{http.StatusConflict, "Changed meanwhile", "Someone else changed this since the page was loaded, so nothing was done. Load it again to see how it is now."}
	errLastAdmin   = &problem{http.StatusConflict, "The last admin stays", "Without this account nobody could look after people and tokens. Make someone else an admin first."}
	errExternal    = &problem{http.StatusConflict, "Not changed here", "This account signs in by single sign-on. Its role follows the groups that the provider names at each sign-in, and it has no password here."}
)

// notSaved follows what is wrong where a form is shown again.
const notSaved = " Nothing has been saved; what was typed is still here."

// goneMeanwhile is shown with the form of what is no longer there.
const goneMeanwhile = "Someone deleted this meanwhile. Nothing was saved; saving now makes it anew."

func isNotFound(err error) bool { return errors.Is(err, rules.ErrNotFound) }

// problemOf maps the few kinds of errors to pages; anything else is nil.
func problemOf(err error) *problem {
	var p *problem
	var invalid *rules.ValidationError
	switch {
	case errors.As(err, &p):
		return p
	case isNotFound(err):
		return errMissing
	case errors.Is(err, rules.ErrDiskFull):
		return errDiskFull
	case errors.Is(err, rules.ErrBusy):
		return errChanging
	case errors.Is(err, rules.ErrUnavailable):
		return errAway
	case errors.Is(err, rules.ErrNameTaken):
		return errTaken
	case errors.Is(err, rules.ErrStale):
		return errStale
	case errors.Is(err, access.ErrLastAdmin):
		return errLastAdmin
	case errors.Is(err, access.ErrExternal):
		return errExternal
	case errors.As(err, &invalid):
		return &problem{http.StatusUnprocessableEntity, "Not valid", invalid.Error()}
	}
	return nil
}

// fail answers with the page of an error. It must work when nothing else does,
// so it leaves the session alone.
func (v *visit) fail(err error) {
	if v.Response().Committed {
		return
	}
	p := problemOf(err)
	if p == nil {
		p = errPanic
		if !errors.Is(err, context.Canceled) {
			v.server.log.Error("a page of the console failed", "route", v.Path(), "error", err)
		}
	}
	h := v.Response().Header()
	h.Del("Content-Encoding")
	h.Del("Content-Length")
	f := view.Frame{Title: p.title, Here: pathHome, Theme: v.themeNow()}
	if v.user.ID != 0 {
		f.Nav, f.User, f.Role = navigation(""), v.user.Name, string(v.user.Role)
		if node := v.server.deps.Node(); v.ctx != nil {
			f.Banners = v.banners(&node)
		}
	}
	ctx := v.ctx
	v.ctx = nil // nothing of the session is saved
	page := view.ErrorPage(f, view.Failure{Status: p.status, Title: p.title, Detail: p.detail, Again: v.again(p.status, err)})
	if v.htmx() { // only a part of the page was asked for, and the rest of it stays
		page = view.Problem(p.title + ". " + p.detail)
	}
	if err := v.page(p.status, page); err != nil {
		v.server.log.Error("the page of an error failed", "error", err)
		_ = v.String(http.StatusInternalServerError, "Something broke. It has been logged.")
	}
	v.ctx = ctx
}
