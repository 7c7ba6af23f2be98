package access

// openCalls are the calls that a node in open mode answers without a credential, while no token exists: the method and
// path of a route of the HTTP API, and the full name of a method of gRPC. Every other call that has a scope needs a
// credential, because no header proves that a request comes from this machine: a proxy here may add none.
var openCalls = map[string]bool{
	"POST /ratelimit/check":       true,
	"POST /ratelimit/check/batch": true,
	"POST /ratelimit/rls":         true,
	"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit": true,
}

// OpenCall reports whether a node in open mode answers a call without a credential. name is the method and path of a
// route, as in POST /ratelimit/check, or the full name of a method of gRPC.
func OpenCall(name string) bool { return openCalls[name] }

// LocalName is the name of the local secret in the audit log.
const LocalName = "local"

// openToken is the token of open calls.
var openToken = Token{Scopes: []Scope{ScopeCheck}}

// admitOpen decides about calls without a credential while there are no tokens. Of the open calls it rejects calls of
// web pages in a browser on this machine, which it recognises by their origin, or by the Host if an attacker's name
// resolves to this machine. It also rejects calls that a proxy on this machine marks as forwarded.
func admitOpen(call Call) (Token, *Refusal) {
	const createToken = " Create a token with sluice token create."
	switch {
	case !call.Open:
		return Token{}, &Refusal{Reason: NoCredentials,
			Detail: "Send the header Authorization: Bearer TOKEN. Until the first token is created, TOKEN is the line in the " +
				"file local-token of the server's data directory." + createToken}
	case !LoopbackHost(call.Host):
		return Token{}, &Refusal{Reason: NotOpen,
			Detail: "Until the first token is created, only requests to localhost or a loopback address are accepted." +
				createToken}
	case call.Forwarded:
		return Token{}, &Refusal{Reason: NotOpen,
			Detail: "Until the first token is created, requests forwarded by a proxy are rejected." + createToken}
	case call.OtherSite:
		return Token{}, &Refusal{Reason: NotOpen,
			Detail: "Until the first token is created, requests from other web sites are rejected."}
	}
	return openToken, nil
}

// WithLocal returns a Keyring that also has the local secret of this hash, with ScopeAdmin. It returns k itself unless
// k is Open: the local secret ends with the first token. The local secret does not count as a token.
func (k *Keyring) WithLocal(hash [32]byte) *Keyring {
	if !k.Open() {
		return k
	}
	return &Keyring{byHash: k.byHash, local: &Token{Name: LocalName, Hash: hash, Scopes: []Scope{ScopeAdmin}, Local: true}}
}
