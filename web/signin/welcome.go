package signin

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/kit"
	"sluice/web/view"
)

// WelcomeLife is how long the link of the first start is valid.
const WelcomeLife = time.Hour

// Welcome is the one-time link that creates the first account. It lives in the process that printed it, so a restart
// prints a new one. It is safe for concurrent use; a nil Welcome is never valid.
type Welcome struct {
	mu      sync.Mutex
	hash    [32]byte
	expires time.Time
	used    bool
}

// NewWelcome creates a link. The secret is shown once, and only its hash is kept.
func NewWelcome(now time.Time) (w *Welcome, secret string) {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // crypto/rand.Read never returns an error
	secret = base64.RawURLEncoding.EncodeToString(raw[:])
	return &Welcome{hash: sha256.Sum256([]byte(secret)), expires: now.Add(WelcomeLife)}, secret
}

// Valid reports whether the secret is valid at now. It does not use up the link, so that programs that prefetch links
// do not break it.
func (w *Welcome) Valid(secret string, now time.Time) bool {
	if w == nil {
		return false
	}
	hash := sha256.Sum256([]byte(secret))
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.used && now.Before(w.expires) && subtle.ConstantTimeCompare(hash[:], w.hash[:]) == 1
}

// Use ends the link, after the account was created. CreateUser prevents a second first account.
func (w *Welcome) Use() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used = true
}

// WelcomePath is the path of the link on the server.
func WelcomePath(secret string) string { return pathWelcome + "?token=" + secret }

var errLink = &kit.Problem{Status: http.StatusForbidden, Title: "This link no longer works",
	Detail: "It was already used, is more than one hour old, or sluice was restarted. A restart prints a new link " +
		"while no account exists. The command sluice user create creates an account at any time."}

// welcomeForm is the form to create the first account with the link of the first start.
func (p *Pages) welcomeForm(v *kit.Visit) error {
	secret := v.QueryParam("token")
	if err := p.checkWelcome(v, secret); err != nil {
		return err
	}
	return v.Page(http.StatusOK, welcomePage(v.Frame("Welcome", ""), secret,
		view.NewForm(url.Values{"name": {"admin"}}, nil)))
}

// checkWelcome returns an error unless the link is valid and no account exists.
func (p *Pages) checkWelcome(v *kit.Visit, secret string) error {
	if !p.Welcome.Valid(secret, p.Now()) {
		return errLink
	}
	n, err := p.Users.CountUsers(v.Ctx)
	if err == nil && n > 0 {
		return errLink
	}
	return err
}

// welcome creates the first account, an administrator, and signs it in.
func (p *Pages) welcome(v *kit.Visit, form url.Values) error {
	secret, name, password := form.Get("token"), strings.TrimSpace(form.Get("name")), form.Get("password")
	if err := p.checkWelcome(v, secret); err != nil {
		return err
	}
	fields := kit.CheckPassword("password", name, password, form.Get("repeat"))
	u := access.User{Name: name, Role: access.RoleAdmin}
	status, err := http.StatusUnprocessableEntity, error(nil)
	if len(fields) == 0 {
		if status, fields, err = v.Hash(&u, access.LaneStrangers, password); err != nil {
			return err
		}
	}
	if len(fields) == 0 {
		u, err = p.Users.CreateUser(v.Ctx, rules.Actor{Kind: "system", Name: "first start"}, u, true)
		switch {
		case kit.FieldsOf(err) != nil:
			fields = kit.FieldsOf(err)
		case errors.Is(err, access.ErrNotFirst):
			return errLink
		case err != nil:
			return err
		}
	}
	if len(fields) > 0 {
		return v.Page(status, welcomePage(v.Frame("Welcome", ""), secret, view.NewForm(form, fields)))
	}
	p.Welcome.Use()
	if err := v.Begin(u); err != nil {
		return err
	}
	v.Flash("Welcome, %s. You are the first administrator. Invite colleagues under People & tokens.", u.Name)
	return v.SeeOther(kit.PathHome)
}
