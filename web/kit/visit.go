package kit

import (
	"bytes"
	"compress/gzip"
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/a-h/templ"
	"github.com/alexedwards/scs/v2"
	"github.com/labstack/echo/v4"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/view"
)

// Visit is a request to the console, with its session and account.
type Visit struct {
	echo.Context
	kit   *Kit
	route *Route
	// arrived is when the request arrived, by the machine's clock.
	arrived time.Time
	// Ctx is the request's context with the session; use it for every call.
	Ctx context.Context
	// User is zero if nobody is signed in.
	User access.User
	// popped means that removing the shown flash is the only change of the session.
	popped bool
	// Offline means that the rules database is unreachable and the session is only remembered, so the visit may only
	// read. DatabaseDown means that a part of the page could not be read from the database.
	Offline, DatabaseDown bool
	// Replica is set while the rules database is a read replica: the visit may only read, and the session is not saved.
	Replica *rules.ReplicaError
	// undo is the offer of the next message, see OfferUndo.
	undo string
	// NotYetInForce means that a saved change is not in force on this node yet.
	NotYetInForce bool
}

// WaitInForce waits until a saved change is in force on this node. If the wait is too long, the flash says so.
func (v *Visit) WaitInForce(inForce func(context.Context) bool) { v.NotYetInForce = !inForce(v.Ctx) }

const notInForce = "Not in force on this node yet."

// HTMX reports whether a script requests a part of a page.
func (v *Visit) HTMX() bool { return v.Request().Header.Get("HX-Request") == "true" }

// Page renders a page completely and then sends it.
func (v *Visit) Page(status int, page templ.Component) error {
	buf := buffers.Get().(*bytes.Buffer) //nolint:errcheck // New makes nothing else
	defer func() { buf.Reset(); buffers.Put(buf) }()
	ctx := v.Ctx
	if ctx == nil {
		ctx = v.Request().Context()
	}
	if err := page.Render(ctx, buf); err != nil {
		return err
	}
	if err := v.Save(); err != nil {
		return err
	}
	h := v.Response().Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Add("Vary", "Accept-Encoding")
	h.Add("Vary", "HX-Request")
	body := buf.Bytes()
	if len(body) > 1024 && acceptsGzip(v.Request()) {
		packed := buffers.Get().(*bytes.Buffer) //nolint:errcheck // New makes nothing else
		defer func() { packed.Reset(); buffers.Put(packed) }()
		if err := pack(packed, body); err != nil {
			return err
		}
		body = packed.Bytes()
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", view.Digits(len(body)))
	v.Response().WriteHeader(status)
	if v.Request().Method != http.MethodHead {
		_, _ = v.Response().Write(body) // the client may be gone
	}
	return nil
}

var (
	buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}
	packers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}
)

func pack(into *bytes.Buffer, body []byte) error {
	z := packers.Get().(*gzip.Writer) //nolint:errcheck // New makes nothing else
	defer packers.Put(z)
	z.Reset(into)
	if _, err := z.Write(body); err != nil {
		return err
	}
	return z.Close()
}

func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, q, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.TrimSpace(name) == "gzip" && strings.TrimSpace(q) != "q=0" {
			return true
		}
	}
	return false
}

// SeeOther redirects the browser to another page of the console with 303.
func (v *Visit) SeeOther(to string) error {
	if err := v.Save(); err != nil {
		return err
	}
	if v.HTMX() {
		v.Response().Header().Set("HX-Redirect", to)
		return v.NoContent(http.StatusOK)
	}
	return v.Redirect(http.StatusSeeOther, to)
}

// ToSignIn redirects to the sign-in page, which returns to this page afterwards. A posted form is kept on an error page
// instead.
func (v *Visit) ToSignIn() error {
	if v.Request().Method == http.MethodPost && (v.HTMX() || v.kept() != nil) {
		return errSignedOut
	}
	to := PathSignIn
	if r := v.Request(); r.Method == http.MethodGet && !v.HTMX() && r.URL.Path != PathHome {
		to += "?" + url.Values{"next": {r.URL.RequestURI()}}.Encode()
	}
	return v.SeeOther(to)
}

// AtPrimary is the address of a page of the console in the console of the primary region, "" if that is not known.
func (v *Visit) AtPrimary(path string) string {
	if v.Replica == nil || v.Replica.Primary == "" {
		return ""
	}
	return v.Replica.Primary + path
}

// hereAtPrimary is AtPrimary of this page. That of a posted form is the page with the form.
func (v *Visit) hereAtPrimary() string {
	r := v.Request()
	if r.Method == http.MethodGet {
		return v.AtPrimary(Local(r.URL.RequestURI()))
	}
	path := PathHome
	if from, err := url.Parse(r.Referer()); err == nil && from.Host == r.Host {
		path = Local(from.RequestURI())
	}
	return v.AtPrimary(path)
}

// CanChange reports whether a page offers the changes that need a role. Nothing can be changed while the rules database
// is unreachable or a read replica.
func (v *Visit) CanChange(role access.Role) bool {
	return v.User.Role.Includes(role) && !v.DatabaseDown && v.Replica == nil
}

// Offers reports whether a page offers what needs a role: anyone may look, and change what CanChange permits.
func (v *Visit) Offers(role access.Role) bool { return role == access.RoleViewer || v.CanChange(role) }

// Frame is the frame of a page. nav is the path of the page's entry in the navigation.
func (v *Visit) Frame(title, nav string) view.Frame {
	f := view.Frame{Title: title, Here: v.Request().URL.RequestURI(), Theme: v.currentTheme(), Nav: v.Navigation(nav)}
	if v.Request().Method != http.MethodGet {
		f.Here = PathHome
	}
	if v.User.ID == 0 {
		f.Here = PathSignIn
		return f
	}
	node := v.kit.Node()
	f.User, f.Role, f.Version = v.User.Name, string(v.User.Role), node.Version
	f.CanEdit, f.CanAdmin = v.CanChange(access.RoleEditor), v.CanChange(access.RoleAdmin)
	f.Live, f.Banners, f.Alerts, f.Tour = v.nodeBanners(&node), v.banners(&node), v.kit.bell(), v.tour()
	f.Saved = v.saved()
	if v.Offline || v.Replica != nil {
		return f
	}
	unmodified := v.kit.sessions.Status(v.Ctx) == scs.Unmodified
	f.Flash = v.kit.sessions.PopString(v.Ctx, sessionFlash)
	f.Undo = v.undoOffer(v.kit.sessions.PopString(v.Ctx, sessionUndo))
	v.popped = unmodified && f.Flash != ""
	return f
}
