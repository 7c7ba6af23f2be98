package access

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Refusal says why a call is refused. Surfaces map it to their own answers.
type Refusal struct {
	Reason Reason
	// Need are the scopes of which the token lacks every one; only with LacksScope.
	Need []Scope
	// Detail is a sentence for people, safe to show.
	Detail string
}

func (r *Refusal) Error() string { return r.Detail }

// Reason is the kind of a Refusal.
type Reason int

const (
	// NoCredentials means that the call presents none.
	NoCredentials Reason = iota + 1
	// BadCredentials means that what the call presents is no token in force.
	BadCredentials
	// LacksScope means that the token is in force and has none of the scopes.
	LacksScope
	// NotOpen means that no token exists, and the call is not one that is served without.
	NotOpen
	// NotLoaded means that this node has not loaded its tokens yet, so it knows nothing about
	// any credential.
	NotLoaded
)

// Call is what a request says about its caller. With Authorization the other
// fields do not matter.
type Call struct {
	// Authorization holds every value of the header or metadata of that name.
	Authorization []string
	// Host is the name that the caller used for this server, with or without a port.
	Host string
	// Forwarded: a proxy says that it passed the request on.
	Forwarded bool
	// OtherSite: a browser sent the request on behalf of another web site.
	OtherSite bool
}

// Gate decides which calls are let in. It is safe for concurrent use.
type Gate struct {
	Tokens *Current
	// OpenMode: the listener is on a loopback address. Until the first token exists,
	// calls from this machine itself then need no credentials.
	OpenMode bool
	Now      func() time.Time
}

// Admit lets a call in whose token permits at least one of the scopes want, and
// returns the token. In open mode that is one with the ID 0 that permits
// everything. The error is a *Refusal.
func (g *Gate) Admit(call Call, want ...Scope) (Token, error) {
	ring := g.Tokens.Load()
	if ring == nil {
		return Token{}, &Refusal{Reason: NotLoaded, Detail: "This node has not loaded its API tokens yet. Try again."}
	}
	if len(call.Authorization) == 0 && g.OpenMode && ring.Open() {
		return admitOpen(call)
	}
	secret, err := bearer(call.Authorization)
	if err != nil {
		return Token{}, err
	}
	t, err := ring.Find(secret, g.Now())
	switch {
	case errors.Is(err, ErrExpired):
		return Token{}, &Refusal{Reason: BadCredentials, Detail: "The token has expired."}
	case errors.Is(err, ErrRevoked):
		return Token{}, &Refusal{Reason: BadCredentials, Detail: "The token was revoked."}
	case err != nil:
		return Token{}, &Refusal{Reason: BadCredentials, Detail: "The token is unknown."}
	case !slices.ContainsFunc(want, t.Permits):
		return Token{}, Lacks(want...)
	}
	return t, nil
}

// Lacks refuses a token that has none of the scopes.
func Lacks(want ...Scope) *Refusal {
	return &Refusal{Reason: LacksScope, Need: want,
		Detail: "This request requires a token with the scope " + strings.ReplaceAll(FormatScopes(want), ",", " or ") + "."}
}

// admitOpen lets calls in while there are no tokens. A page in the browser of this
// machine must not use that: its calls are known by their origin, and a name of
// the attacker's that resolves to this machine by the Host. Nor must anyone behind
// a proxy on this machine.
func admitOpen(call Call) (Token, error) {
	const make1st = " Create a token with sluice token create."
	switch {
	case !LoopbackHost(call.Host):
		return Token{}, &Refusal{Reason: NotOpen, Detail: "Until the first token is created, only requests to localhost or a loopback address are accepted." + make1st}
	case call.Forwarded:
		return Token{}, &Refusal{Reason: NotOpen, Detail: "Until the first token is created, requests forwarded by a proxy are rejected." + make1st}
	case call.OtherSite:
		return Token{}, &Refusal{Reason: NotOpen, Detail: "Until the first token is created, requests from other web sites are rejected."}
	}
	return openToken, nil
}

// openToken is what calls in open mode may do.
var openToken = Token{Scopes: []Scope{ScopeAdmin}}

// bearer takes the secret out of the Authorization values.
func bearer(values []string) (string, error) {
	if len(values) == 0 {
		return "", &Refusal{Reason: NoCredentials, Detail: "Send the header Authorization: Bearer TOKEN. Create a token with sluice token create."}
	}
	scheme, secret, ok := strings.Cut(values[0], " ")
	if len(values) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", &Refusal{Reason: BadCredentials, Detail: "The Authorization header must have the form Bearer TOKEN."}
	}
	return strings.TrimLeft(secret, " "), nil
}

// LoopbackHost reports whether a Host names this machine itself, with any port.
func LoopbackHost(host string) bool {
	if port, ok := strings.CutPrefix(host, "127.0.0.1:"); ok {
		return strings.Trim(port, "0123456789") == ""
	}
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if strings.Trim(port, "0123456789") != "" {
			return false
		}
		name = h
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		name = host[1 : len(host)-1]
	}
	if strings.EqualFold(strings.TrimSuffix(name, "."), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}
