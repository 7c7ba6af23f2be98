package access

import (
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Refusal says why a call is rejected. Each face converts it to its own response.
type Refusal struct {
	Reason Reason
	// Need are the scopes of which the token needs one; only with LacksScope.
	Need []Scope
	// Token is the token of the call if it is expired or revoked or lacks the scopes, and otherwise the zero value.
	Token Token
	// Detail is a sentence that is safe to show to the client.
	Detail string
}

func (r *Refusal) Error() string { return r.Detail }

// Reason is the kind of a Refusal.
type Reason int

const (
	// NoCredentials means that the call has no credentials.
	NoCredentials Reason = iota + 1
	// UnknownToken means that the credentials are no token that was ever created.
	UnknownToken
	// ExpiredToken means that the token has expired.
	ExpiredToken
	// RevokedToken means that the token was revoked.
	RevokedToken
	// LacksScope means that the token is valid and has none of the scopes.
	LacksScope
	// NotOpen means that no token exists and the call is not allowed without one.
	NotOpen
	// NotLoaded means that this node has not loaded its tokens yet and cannot check
	// credentials.
	NotLoaded
)

// Call is what a request says about its sender. The other fields are used only without Authorization: if there are a
// token and a client certificate, the token decides alone.
type Call struct {
	// Endpoint is a name of the interface that is called, from a closed list, for Gate.Refused.
	Endpoint string
	// Authorization holds every value of the header or metadata of that name.
	Authorization []string
	// Host is the host name of the request, with or without a port.
	Host string
	// Forwarded is true if a proxy forwarded the request.
	Forwarded bool
	// Open is true for a call that needs no credential in open mode; see OpenCall.
	Open bool
	// OtherSite is true if a browser sent the request on behalf of another web site.
	OtherSite bool
	// Chains are the verified chains of the client certificate, as in tls.ConnectionState.
	Chains [][]*x509.Certificate
}

// forwarding are the headers that proxies add to forwarded requests.
var forwarding = []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Forwarded", "Via"}

// ForwardingHeaders are the headers that proxies add to forwarded requests, in canonical form. A request with one of
// them is Forwarded. The caller does not change them.
func ForwardingHeaders() []string { return forwarding }

// Gate decides which calls are authorised. It is safe for concurrent use.
type Gate struct {
	Tokens *Current
	// OpenMode means that the listener is on a loopback address. Until the first token
	// exists, open calls that seem to come from this machine then need no credentials,
	// unless Certificates is set.
	OpenMode bool
	// Certificates gives scopes to client certificates; nil gives none.
	Certificates *Certificates
	Now          func() time.Time
	// Refused receives each refused call: the endpoint, and why it is refused. It must be safe for concurrent use and
	// must not block. Nil discards them.
	Refused func(endpoint string, r *Refusal)
}

// Admit returns the token of a call if it permits at least one of the scopes want. For an
// open call in open mode it returns a token with the ID 0 that permits checks, for a
// client certificate one with its scopes. The error is a *Refusal.
func (g *Gate) Admit(call Call, want ...Scope) (Token, error) {
	token, refused := g.admit(call, want)
	if refused != nil {
		return Token{}, g.Refuse(call.Endpoint, refused)
	}
	return token, nil
}

func (g *Gate) admit(call Call, want []Scope) (Token, *Refusal) {
	if len(call.Authorization) == 0 {
		if token, ok := g.Certificates.find(call.Chains); ok {
			return admitCertificate(token, call, want)
		}
	}
	ring := g.Tokens.Load()
	if ring == nil {
		return Token{}, notLoaded()
	}
	if len(call.Authorization) == 0 && g.OpenMode && g.Certificates == nil && ring.Open() {
		return admitOpen(call)
	}
	secret, refused := bearer(call.Authorization)
	if refused != nil {
		return Token{}, refused
	}
	now := g.Now()
	token, refused := g.find(secret, now, want...)
	if refused == nil {
		g.Tokens.Uses.note(token.ID, call.Endpoint, now)
	}
	return token, refused
}

// admitCertificate decides about calls with a client certificate that has scopes. A browser sends the certificate with
// every request, even with requests of pages of other sites, so these are rejected.
func admitCertificate(token Token, call Call, want []Scope) (Token, *Refusal) {
	switch {
	case call.OtherSite:
		return Token{}, &Refusal{Reason: NoCredentials,
			Detail: "A client certificate is not accepted with requests from other web sites. Send a token."}
	case !slices.ContainsFunc(want, token.Permits):
		return Token{}, &Refusal{Reason: LacksScope, Need: want, Token: token,
			Detail: "The client certificate does not have the scope " + anyOf(want) + ", which this request requires."}
	}
	return token, nil
}

// anyOf names scopes in a sentence.
func anyOf(scopes []Scope) string { return strings.ReplaceAll(FormatScopes(scopes), ",", " or ") }

// find returns the token of a secret if it is valid at now and permits at least one of the scopes want.
func (g *Gate) find(secret string, now time.Time, want ...Scope) (Token, *Refusal) {
	ring := g.Tokens.Load()
	if ring == nil {
		return Token{}, notLoaded()
	}
	t, err := ring.lookup(secret, now)
	switch {
	case errors.Is(err, ErrExpired):
		return Token{}, &Refusal{Reason: ExpiredToken, Token: t, Detail: "The token has expired."}
	case errors.Is(err, ErrRevoked):
		return Token{}, &Refusal{Reason: RevokedToken, Token: t, Detail: "The token was revoked."}
	case err != nil:
		return Token{}, &Refusal{Reason: UnknownToken, Detail: "The token is unknown."}
	case !slices.ContainsFunc(want, t.Permits):
		return Token{}, Lacks(t, want...)
	}
	return t, nil
}

func notLoaded() *Refusal {
	return &Refusal{Reason: NotLoaded, Detail: "This node has not loaded its API tokens yet. Try again."}
}

// Lacks returns the Refusal of a token, or a client certificate, that has none of the scopes.
func Lacks(token Token, want ...Scope) *Refusal {
	return &Refusal{Reason: LacksScope, Need: want, Token: token,
		Detail: "This request requires a token with the scope " + anyOf(want) + "."}
}

// bearer returns the secret in the Authorization values.
func bearer(values []string) (string, *Refusal) {
	if len(values) == 0 {
		return "", &Refusal{Reason: NoCredentials,
			Detail: "Send the header Authorization: Bearer TOKEN. Create a token with sluice token create."}
	}
	scheme, secret, ok := strings.Cut(values[0], " ")
	if len(values) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", &Refusal{Reason: UnknownToken, Detail: "The Authorization header must have the form Bearer TOKEN."}
	}
	return strings.TrimLeft(secret, " "), nil
}

// LoopbackHost reports whether a Host is a loopback name or address, with any port.
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

// Why a secret is rejected. Every face responds with 401 to all three.
var (
	// ErrUnknown: no token has this secret.
	ErrUnknown = errors.New("unknown token")
	// ErrExpired: the token has expired.
	ErrExpired = errors.New("token has expired")
	// ErrRevoked: the token was revoked.
	ErrRevoked = errors.New("token was revoked")
)

// Keyring contains all tokens, indexed for lookup. It is immutable and safe for
// concurrent use. A nil Keyring has no token and is not Open.
type Keyring struct {
	byHash map[[32]byte]Token
	local  *Token // see WithLocal; nil without
}

// NewKeyring returns a Keyring of tokens. They include revoked and expired ones, for
// exact errors and because they make Open false.
func NewKeyring(tokens []Token) *Keyring {
	k := &Keyring{byHash: make(map[[32]byte]Token, len(tokens))}
	for _, t := range tokens {
		k.byHash[t.Hash] = t
	}
	return k
}

// Find returns the token of a secret if it is valid at now, else ErrUnknown, ErrExpired
// or ErrRevoked. It looks up the hash of the secret and compares it in constant time, so
// that timing reveals nothing about the secret.
func (k *Keyring) Find(secret string, now time.Time) (Token, error) {
	t, err := k.lookup(secret, now)
	if err != nil {
		return Token{}, err
	}
	return t, nil
}

// lookup is Find, but also returns an expired or revoked token.
func (k *Keyring) lookup(secret string, now time.Time) (Token, error) {
	if k == nil || !LooksLikeSecret(secret) {
		return Token{}, ErrUnknown
	}
	hash := Hash(secret)
	t, ok := k.byHash[hash]
	if !ok && k.local != nil {
		t, ok = *k.local, true
	}
	if !ok || subtle.ConstantTimeCompare(t.Hash[:], hash[:]) != 1 {
		return Token{}, ErrUnknown
	}
	return t, t.InForce(now)
}

// Open reports whether no token was ever created, so that a loopback listener may serve
// open calls without credentials. Revoked tokens count as created.
func (k *Keyring) Open() bool { return k != nil && len(k.byHash) == 0 }

// Len returns the number of tokens, valid or not.
func (k *Keyring) Len() int {
	if k == nil {
		return 0
	}
	return len(k.byHash)
}

// Live returns the number of tokens that are valid at now.
func (k *Keyring) Live(now time.Time) int {
	if k == nil {
		return 0
	}
	n := 0
	for _, t := range k.byHash {
		if t.InForce(now) == nil {
			n++
		}
	}
	return n
}

// ExpireSoon returns the tokens that expire soon at now, in no order.
func (k *Keyring) ExpireSoon(now time.Time) (soon []Token) {
	if k == nil {
		return nil
	}
	for _, t := range k.byHash {
		if t.ExpiresSoon(now) {
			soon = append(soon, t)
		}
	}
	return soon
}

// Current holds the keyring in force: Load returns it, nil before the first Store. It is
// safe for concurrent use. The zero value has no keyring.
type Current struct {
	atomic.Pointer[Keyring]
	// Uses are the uses of tokens that gates admitted.
	Uses Uses
}
