package kit

import "net/http"

// beginCookie hides the checklist of the overview in a browser.
const beginCookie = "sluice_begun"

// HideBegin hides the checklist of the overview in this browser.
func HideBegin(v *Visit) error {
	v.remember(beginCookie, "1")
	return v.SeeOther(PathHome)
}

// BeginHidden reports whether this browser hides the checklist.
func (v *Visit) BeginHidden() bool {
	c, err := v.Request().Cookie(beginCookie)
	return err == nil && c.Value == "1"
}

// remember keeps a choice in the browser for a year.
func (v *Visit) remember(name, value string) {
	v.SetCookie(&http.Cookie{
		Name: name, Value: value, Path: PathHome, MaxAge: 365 * 24 * 3600,
		HttpOnly: true, Secure: v.kit.encrypted(v.Request()), SameSite: http.SameSiteLaxMode,
	})
}
