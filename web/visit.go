package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
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

// visit is one request to the console and whose it is.
type visit struct {
	echo.Context
	server *Server
	route  *Route
	// ctx is the request's, with the session; use it for every call.
	ctx context.Context
	// user is zero if nobody is signed in.
	user access.User
	// popped: the session changed by nothing but the flash that this page shows.
	popped bool
	// offline: the rules database is unreachable and the session is remembered, so
	// the visit may only read. away: something of the page could not be read there.
	offline, away bool
	// late: what was saved is not in force on this node yet.
	late bool
}

// changed waits until what v saved is in force on this node. If it is not, the
// flash says so.
func (s *Server) changed(v *visit, inForce func(context.Context) bool) {
	v.late = !inForce(v.ctx)
}

const notInForce = "Not in force on this node yet."

// form reads the posted form, within maxForm.
func (v *visit) form() (url.Values, error) {
	if err := v.Request().ParseForm(); err != nil {
		return nil, formError(err, v.route.Body)
	}
	return v.Request().PostForm, nil
}

// formError is the page for a form of at most most bytes that could not be read.
func formError(err error, most int64) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		detail := "A form may have up to 1 MiB."
		switch most {
		case maxImport:
			detail = "A rules file may have up to 64 MiB and 100,000 rules."
		case maxOverrides:
			detail = "A file of overrides may have up to 16 MiB."
		}
		return &problem{status: http.StatusRequestEntityTooLarge, title: "Too large", detail: detail}
	}
	return &problem{status: http.StatusBadRequest, title: "Not a form", detail: "What was sent could not be read as a form."}
}

// htmx reports whether a script asks for a part of a page.
func (v *visit) htmx() bool { return v.Request().Header.Get("HX-Request") == "true" }

// page answers with a page that is rendered completely before the first byte.
func (v *visit) page(status int, page templ.Component) error {
	buf := buffers.Get().(*bytes.Buffer) //nolint:errcheck // New makes nothing else
	defer func() { buf.Reset(); buffers.Put(buf) }()
	ctx := v.ctx
	if ctx == nil {
		ctx = v.Request().Context()
	}
	if err := page.Render(ctx, buf); err != nil {
		return err
	}
	if err := v.saveSession(); err != nil {
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

// redirect sends the browser to another page of the console with 303.
func (v *visit) redirect(to string) error {
	if err := v.saveSession(); err != nil {
		return err
	}
	if v.htmx() {
		v.Response().Header().Set("HX-Redirect", to)
		return v.NoContent(http.StatusOK)
	}
	return v.Redirect(http.StatusSeeOther, to)
}

// toSignIn sends who is not signed in there, and back afterwards. Whoever filled
// in a form meanwhile stays with it.
func (v *visit) toSignIn() error {
	if v.Request().Method == http.MethodPost && (v.htmx() || v.kept() != nil) {
		return errSignedOut
	}
	to := pathSignIn
	if r := v.Request(); r.Method == http.MethodGet && !v.htmx() && r.URL.Path != pathHome {
		to += "?" + url.Values{"next": {r.URL.RequestURI()}}.Encode()
	}
	return v.redirect(to)
}

// local gives a path that leads to a page of the console, else its home: what
// came in a form or a link must not lead elsewhere.
func local(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" || strings.ContainsAny(path, "\\\r\n\t") ||
		u.Path != pathHome && !strings.HasPrefix(u.Path, pathHome+"/") || strings.Contains(u.Path, "//") || strings.Contains(u.Path, "..") {
		return pathHome
	}
	return u.RequestURI()
}

// canChange reports whether pages offer what a role may change. Nobody can change
// anything while the rules database is unreachable.
func (v *visit) canChange(role access.Role) bool { return v.user.Role.Includes(role) && !v.away }

// frame is what every page has around it. nav is the path of the entry of the
// navigation to which the page belongs.
func (v *visit) frame(title, nav string) view.Frame {
	f := view.Frame{Title: title, Here: v.Request().URL.RequestURI(), Theme: v.themeNow(), Nav: navigation(nav)}
	if v.Request().Method != http.MethodGet {
		f.Here = pathHome
	}
	if v.user.ID == 0 {
		f.Here = pathSignIn
		return f
	}
	node := v.server.deps.Node()
	f.User, f.Role, f.Version = v.user.Name, string(v.user.Role), node.Version
	f.CanEdit, f.CanAdmin = v.canChange(access.RoleEditor), v.canChange(access.RoleAdmin)
	f.Banners = v.banners(&node)
	if v.offline {
		return f
	}
	unmodified := v.server.sessions.Status(v.ctx) == scs.Unmodified
	f.Flash = v.server.sessions.PopString(v.ctx, sessionFlash)
	v.popped = unmodified && f.Flash != ""
	return f
}
