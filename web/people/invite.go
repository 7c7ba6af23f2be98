package people

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/kit"
	"sluice/web/view"
)

// inviteLife is how long an invite link is valid.
const inviteLife = 48 * time.Hour

// invitePrefix separates invite links from sessions, which are stored in the same table: hashes of sessions have no
// colon.
const invitePrefix = "invite:"

// invite is the account of an invite link at the time the link was created. Any change of the account ends the link.
type invite struct {
	User       int64 `json:"user"`
	Generation int64 `json:"generation"`
}

var errInvite = &kit.Problem{Status: http.StatusGone, Title: "This link no longer works",
	Detail: "It was already used, is more than 48 hours old, or the account was changed. An administrator can create a " +
		"new link under People & tokens."}

func inviteKey(secret string) string {
	hash := sha256.Sum256([]byte(secret))
	return invitePrefix + base64.RawURLEncoding.EncodeToString(hash[:])
}

// showInvite creates an invite link for an account and shows it once. Only its hash is stored.
func (p *Pages) showInvite(v *kit.Visit, u access.User) error {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // crypto/rand.Read never returns an error
	secret := base64.RawURLEncoding.EncodeToString(raw[:])
	data, err := json.Marshal(invite{u.ID, u.Generation})
	if err != nil {
		return err
	}
	expires := p.Now().Add(inviteLife)
	if err := p.Sessions.CreateSession(v.Ctx,
		access.Session{Token: inviteKey(secret), Data: data, ExpiresAt: expires}); err != nil {
		return err
	}
	p.Logger.Info("made a link to choose a password", "user", u.Name, "by", v.User.Name)
	link := v.Base() + pathInvite + "?" + url.Values{"token": {secret}}.Encode()
	return v.Page(http.StatusOK, invitePage(v.Frame("Invite link for "+u.Name, kit.PathPeople),
		Invite{User: &u, Link: link, Expires: expires, Guessed: p.PublicURL == ""}))
}

// invited finds the account of an invite link. It does not use up the link, so that programs that prefetch links do not
// break it.
func (p *Pages) invited(v *kit.Visit, secret string) (access.User, error) {
	if secret == "" {
		return access.User{}, errInvite
	}
	stored, found, err := p.Sessions.FindSession(v.Ctx, inviteKey(secret))
	if err != nil {
		return access.User{}, err
	}
	var in invite
	if !found || json.Unmarshal(stored.Data, &in) != nil {
		return access.User{}, errInvite
	}
	u, err := p.Users.GetUser(v.Ctx, in.User)
	if errors.Is(err, rules.ErrNotFound) || err == nil && (u.Disabled || u.External() || u.Generation != in.Generation) {
		return access.User{}, errInvite
	}
	return u, err
}

// inviteForm is the form to choose a password with an invite link.
func (p *Pages) inviteForm(v *kit.Visit) error {
	secret := v.QueryParam("token")
	u, err := p.invited(v, secret)
	if err != nil {
		return err
	}
	return v.Page(http.StatusOK, acceptPage(v.Frame("Choose a password", ""), Accept{Name: u.Name, Token: secret}))
}

// acceptInvite stores the password and signs its owner in.
func (p *Pages) acceptInvite(v *kit.Visit, form url.Values) error {
	secret, password := form.Get("token"), form.Get("password")
	u, err := p.invited(v, secret)
	if err != nil {
		return err
	}
	status, fields := http.StatusUnprocessableEntity, kit.CheckPassword("password", u.Name, password, form.Get("repeat"))
	if len(fields) == 0 {
		if status, fields, err = v.Hash(&u, access.LaneStrangers, password); err != nil {
			return err
		}
	}
	if len(fields) > 0 {
		return v.Page(status, acceptPage(v.Frame("Choose a password", ""),
			Accept{Name: u.Name, Token: secret, Form: view.NewForm(nil, fields)}))
	}
	defer v.ForgetSessions()
	u, err = p.People.UpdateUser(v.Ctx, rules.Actor{Kind: "user", Name: u.Name}, u)
	if errors.Is(err, rules.ErrStale) {
		return errInvite
	}
	if err != nil {
		return err
	}
	if err := p.Sessions.DeleteSession(v.Ctx, inviteKey(secret)); err != nil {
		p.Logger.Warn("could not delete a link that was used; it is void", "error", err)
	}
	if err := v.Begin(u); err != nil {
		return err
	}
	v.Flash("Welcome, %s. Your password is set.", u.Name)
	return v.SeeOther(kit.PathHome)
}

// Invite is a link to choose the password of an account. It is shown once.
type Invite struct {
	User    *access.User
	Link    string
	Expires time.Time
	// Guessed means that the console's address is not configured, so the link uses the one from the request.
	Guessed bool
}

// Accept is the page of an invite link.
type Accept struct {
	Name, Token string
	Form        view.Form
}
