package kit

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/internal/access"
	"sluice/web/view"
)

// knownLife is how long a browser is known to an account after it signed in.
const knownLife = 90 * 24 * time.Hour

// knownPrefix and the ID of an account are the name of the cookie of a browser that has signed in to the account.
const knownPrefix = "sluice_known_"

// knownMAC proves that this service wrote a known-browser cookie of an account. Its key is the stored hash of the
// password, with its random salt: every node can read it, nobody else knows it, and a change of the password ends the
// cookies of the account.
func knownMAC(u *access.User, expires, nonce string) string {
	h := hmac.New(sha256.New, []byte(u.PasswordHash))
	h.Write([]byte("sluice known browser:" + view.Digits(u.ID) + ":" + expires + ":" + nonce))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// knownCookie returns the cookie of an account without its value. It has the attributes of the session cookie, except
// that no other site can make a browser send it.
func (k *Kit) knownCookie(u *access.User) http.Cookie {
	name := knownPrefix + view.Digits(u.ID)
	if k.sessions.Cookie.Secure {
		name = "__Host-" + name
	}
	return http.Cookie{Name: name, Path: "/", HttpOnly: true, Secure: k.sessions.Cookie.Secure,
		SameSite: http.SameSiteStrictMode}
}

// remember gives the browser the cookie of an account that just signed in. It outlives the session and signing out.
// Accounts without a password need none.
func (v *Visit) remember(u *access.User) {
	if u.PasswordHash == "" {
		return
	}
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // crypto/rand.Read never returns an error
	nonce := base64.RawURLEncoding.EncodeToString(raw[:])
	expires := view.Digits(v.kit.Now().Add(knownLife).Unix())
	c := v.kit.knownCookie(u)
	c.Value, c.MaxAge = expires+"."+nonce+"."+knownMAC(u, expires, nonce), int(knownLife/time.Second)
	v.SetCookie(&c)
}

// knownBrowser identifies the browser if it sent a valid cookie of the account; otherwise it returns "". u is zero if
// there is no such account.
func (v *Visit) knownBrowser(u *access.User) string {
	want := v.kit.knownCookie(u)
	c, err := v.Cookie(want.Name)
	if err != nil || u.PasswordHash == "" {
		return ""
	}
	expires, rest, _ := strings.Cut(c.Value, ".")
	nonce, mac, _ := strings.Cut(rest, ".")
	until, err := strconv.ParseInt(expires, 10, 64)
	if err != nil || !hmac.Equal([]byte(mac), []byte(knownMAC(u, expires, nonce))) || v.kit.Now().Unix() >= until {
		return ""
	}
	return nonce
}
