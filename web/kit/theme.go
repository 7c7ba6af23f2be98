package kit

import (
	"net/http"
	"slices"
)

const themeCookie = "sluice_theme"

var themes = []string{"system", "light", "dark"}

// Theme stores the selected theme in a separate cookie, which outlives the session.
func Theme(v *Visit) error {
	form, err := v.Form()
	if err != nil {
		return err
	}
	if want := form.Get("theme"); slices.Contains(themes, want) {
		v.Remember(themeCookie, want)
	}
	return v.SeeOther(Local(form.Get("back")))
}

func (v *Visit) currentTheme() string {
	c, err := v.Request().Cookie(themeCookie)
	if err != nil || !slices.Contains(themes, c.Value) {
		return "system"
	}
	return c.Value
}

// Remember keeps a choice in a cookie of this browser for a year.
func (v *Visit) Remember(name, value string) {
	v.SetCookie(&http.Cookie{
		Name: name, Value: value, Path: PathHome, MaxAge: 365 * 24 * 3600,
		HttpOnly: true, Secure: v.kit.encrypted(v.Request()), SameSite: http.SameSiteLaxMode,
	})
}
