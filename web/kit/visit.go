package kit

import (
	"bytes"
	"compress/gzip"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/a-h/templ"
	"github.com/alexedwards/scs/v2"
	"github.com/labstack/echo/v4"

	"sluice/internal/access"
	"sluice/web/view"
)

// Visit is one request to the console and whose it is.
type Visit struct {
	echo.Context
	kit   *Kit
	route *Route
	// Ctx is the request's, with the session; use it for every call.
	Ctx context.Context
	// User is zero if nobody is signed in.
	User access.User
	// popped: the session changed by nothing but the flash that this page shows.
	popped bool
	// Offline: the rules database is unreachable and the session is remembered, so
	// the visit may only read. Away: something of the page could not be read there.
	Offline, Away bool
	// Late: what was saved is not in force on this node yet.
	Late bool
}

// Await waits until what was saved is in force on this node. If it is not, the
// flash says so.
func (v *Visit) Await(inForce func(context.Context) bool) { v.Late = !inForce(v.Ctx) }

const notInForce = "Not in force on this node yet."

// HTMX reports whether a script asks for a part of a page.
func (v *Visit) HTMX() bool { return v.Request().Header.Get("HX-Request") == "true" }

// Page answers with a page that is rendered completely before the first byte.
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
	h.Set("Content-Length", strconv.Itoa(len(body)))
	v.Response().WriteHeader(status)
	if v.Request().Method != http.MethodHead {
		_, _ = v.Response().Write(body) // the client may have gone; nobody is left to tell
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

// SeeOther sends the browser to another page of the console with 303.
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

// ToSignIn sends who is not signed in there, and back afterwards. Whoever filled
// in a form meanwhile stays with it.
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

// CanChange reports whether pages offer what a role may change. Nobody can change
// anything while the rules database is unreachable.
func (v *Visit) CanChange(role access.Role) bool { return v.User.Role.Includes(role) && !v.Away }

// Frame is what every page has around it. nav is the path of the entry of the
// navigation to which the page belongs.
func (v *Visit) Frame(title, nav string) view.Frame {
	f := view.Frame{Title: title, Here: v.Request().URL.RequestURI(), Theme: v.themeNow(), Nav: navigation(nav)}
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
	f.Banners = v.banners(&node)
	if v.Offline {
		return f
	}
	unmodified := v.kit.sessions.Status(v.Ctx) == scs.Unmodified
	f.Flash = v.kit.sessions.PopString(v.Ctx, sessionFlash)
	v.popped = unmodified && f.Flash != ""
	return f
}
