package web

import (
	"net/http"
	"slices"
)

const themeCookie = "sluice_theme"

var themes = []string{"system", "light", "dark"}

// theme remembers how someone likes the console, in a cookie of its own: it is
// no secret and outlives the session.
func (s *Server) theme(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	if want := form.Get("theme"); slices.Contains(themes, want) {
		v.SetCookie(&http.Cookie{
			Name: themeCookie, Value: want, Path: pathHome, MaxAge: 365 * 24 * 3600,
			HttpOnly: true, Secure: s.encrypted(v.Request()), SameSite: http.SameSiteLaxMode,
		})
	}
	return v.redirect(local(form.Get("back")))
}

func (v *visit) themeNow() string {
	c, err := v.Request().Cookie(themeCookie)
	if err != nil || !slices.Contains(themes, c.Value) {
		return "system"
	}
	return c.Value
}
