package web

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/view"
)

// inviteLife is how long a link to choose a password lets in.
const inviteLife = 48 * time.Hour

// invitePrefix keeps links apart from sessions, among which they are stored: the
// hash of a session has no colon.
const invitePrefix = "invite:"

// invite is what a link is for: an account as it was when the link was made.
// Whatever changes the account ends the link.
type invite struct {
	User       int64 `json:"user"`
	Generation int64 `json:"generation"`
}

var errInvite = &problem{http.StatusGone, "This link no longer works",
	"It was used, it is over 48 hours old, or the account has been changed since. An admin can make another under People & tokens."}

func inviteKey(secret string) string {
	hash := sha256.Sum256([]byte(secret))
	return invitePrefix + base64.RawURLEncoding.EncodeToString(hash[:])
}

// showInvite makes a link for an account and shows it, once: only its hash is
// stored.
func (s *Server) showInvite(v *visit, u access.User) error {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // crypto/rand.Read never returns an error
	secret := base64.RawURLEncoding.EncodeToString(raw[:])
	data, err := json.Marshal(invite{u.ID, u.Generation})
	if err != nil {
		return err
	}
	expires := s.deps.Now().Add(inviteLife)
	if err := s.deps.Sessions.CreateSession(v.ctx, access.Session{Token: inviteKey(secret), Data: data, ExpiresAt: expires}); err != nil {
		return err
	}
	s.log.Info("made a link to choose a password", "user", u.Name, "by", v.user.Name)
	link := s.base(v) + pathInvite + "?" + url.Values{"token": {secret}}.Encode()
	return v.page(http.StatusOK, view.InvitePage(v.frame("A link for "+u.Name, pathPeople), view.Invite{User: &u, Link: link, Expires: expires, Guessed: s.deps.PublicURL == ""}))
}

// base is where the browser reaches the console. Without a public URL that is a
// guess: the Host of the request with the scheme of its connection. Only a trusted
// proxy may say that the browser's own connection is encrypted.
func (s *Server) base(v *visit) string {
	if s.deps.PublicURL != "" {
		return strings.TrimSuffix(s.deps.PublicURL, "/")
	}
	r, scheme := v.Request(), "http"
	if r.TLS != nil || s.trusts(r.RemoteAddr) && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// trusts reports whether a connection comes from a trusted proxy.
func (s *Server) trusts(remote string) bool {
	from, err := netip.ParseAddrPort(remote)
	return err == nil && slices.ContainsFunc(s.deps.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) })
}

// invited finds the account of a link. Looking spends nothing: what fetches
// links ahead of people does not use them up.
func (s *Server) invited(v *visit, secret string) (access.User, error) {
	if secret == "" {
		return access.User{}, errInvite
	}
	stored, found, err := s.deps.Sessions.FindSession(v.ctx, inviteKey(secret))
	if err != nil {
		return access.User{}, err
	}
	var in invite
	if !found || json.Unmarshal(stored.Data, &in) != nil {
		return access.User{}, errInvite
	}
	u, err := s.deps.Users.GetUser(v.ctx, in.User)
	if isNotFound(err) || err == nil && (u.Disabled || u.External() || u.Generation != in.Generation) {
		return access.User{}, errInvite
	}
	return u, err
}

// inviteForm lets whoever holds a link choose a password.
func (s *Server) inviteForm(v *visit) error {
	secret := v.QueryParam("token")
	u, err := s.invited(v, secret)
	if err != nil {
		return err
	}
	return v.page(http.StatusOK, view.AcceptPage(v.frame("Choose a password", ""), view.Accept{Name: u.Name, Token: secret}))
}

// acceptInvite stores the password and signs its owner in.
func (s *Server) acceptInvite(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	secret, password := form.Get("token"), form.Get("password")
	u, err := s.invited(v, secret)
	if err != nil {
		return err
	}
	status, fields := http.StatusUnprocessableEntity, checkPassword("password", u.Name, password, form.Get("repeat"))
	if len(fields) == 0 {
		if status, fields, err = v.hash(&u, access.LaneStrangers, password); err != nil {
			return err
		}
	}
	if len(fields) > 0 {
		return v.page(status, view.AcceptPage(v.frame("Choose a password", ""), view.Accept{Name: u.Name, Token: secret, Form: view.NewForm(nil, fields)}))
	}
	u, err = s.deps.Admin.People.UpdateUser(v.ctx, rules.Actor{Kind: "user", Name: u.Name}, u)
	if errors.Is(err, rules.ErrStale) {
		return errInvite
	}
	if err != nil {
		return err
	}
	if err := s.deps.Sessions.DeleteSession(v.ctx, inviteKey(secret)); err != nil {
		s.log.Warn("could not delete a link that was used; it is void all the same", "error", err)
	}
	if err := v.begin(u); err != nil {
		return err
	}
	v.flash("Welcome, %s. Your password is set.", u.Name)
	return v.redirect(pathHome)
}
