// Package profile defines the profiles of gateways: the places in a gateway's request from which the facts about a
// client's request are read. Package facts reads them.
package profile

import (
	"fmt"
	"time"
)

// Words of a profile, as written in JSON and SQL.
const (
	// ClaimsOff ignores JSON Web Tokens.
	ClaimsOff = "off"
	// ClaimsTrusted reads the claims of a token that the gateway has verified. Sluice never
	// verifies one.
	ClaimsTrusted = "trusted"

	// PathNormal resolves a path as servers do before routes are matched.
	PathNormal = "normal"
	// PathRaw matches a path as it was sent, without query and fragment.
	PathRaw = "raw"

	// DialectNone answers as RFC 9457 and the drafts of rate limit headers say; the others add what the SDKs of an API
	// understand. See package reply.
	DialectNone      = "none"
	DialectOpenAI    = "openai"
	DialectAnthropic = "anthropic"
	DialectMCP       = "mcp"

	// MissingSkip: rules that need the missing fact do not apply.
	MissingSkip = "skip"
	// MissingDeny: the request is denied with 403.
	MissingDeny = "deny"
)

// Profile says how the requests of one gateway are read: from which headers, cookies and claims
// the facts about a client's request come, and how the gateway proves itself.
type Profile struct {
	// Name is unique among profiles and has the form of a rule's name. It is part of the URL that
	// the gateway calls.
	Name        string `json:"name"`
	Description string `json:"description"`
	Facts       Facts  `json:"facts"`
	// Claims is ClaimsOff or ClaimsTrusted, ClaimsHeader the header with the JSON Web Token.
	Claims       string   `json:"claims"`
	ClaimsHeader string   `json:"claims_header"`
	ClientIP     ClientIP `json:"client_ip"`
	// Routes are templates of paths. The text of the best match is the request's route.
	Routes []string `json:"routes"`
	// FoldRoutes compares paths with Routes in lower case. It is a setting of the server: a compiled set fills it in.
	FoldRoutes bool `json:"-"`
	// Path is PathNormal or PathRaw.
	Path string `json:"path"`
	// SkipMethods are methods whose requests are allowed without a check.
	SkipMethods []string `json:"skip_methods"`
	// Weight is the header with the weight of a request; nil means that each weighs 1.
	Weight *WeightSource `json:"weight"`
	// Missing says what happens if a fact has no value. Its keys are ip, user, api_key, tier, attr:NAME and
	// field:NAME; the default is MissingSkip.
	Missing map[string]MissingFact `json:"missing"`
	// Domain is the domain of Envoy's descriptors that the profile reads, "" for none. At most one profile has a given
	// domain. Entries maps the key of an entry to a fact: ip, user, api_key, tier, path, method, host, attr:NAME or
	// field:NAME. Entries of other keys are ignored.
	Domain  string            `json:"domain"`
	Entries map[string]string `json:"entries"`
	// Headers are the client headers to send; a name may end in *.
	Headers []string `json:"headers"`
	// Dialect is one of the Dialect words. Its headers are sent whatever Headers says.
	Dialect string `json:"dialect"`
	Proof   Proof  `json:"proof"`
	// Unknown is as in Rule.
	Unknown string `json:"-"`

	// Version starts at 1 and grows by 1 with every edit; it is the ETag.
	Version   int64     `json:"version"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Facts are the sources of each fact, in the order in which they are tried.
type Facts struct {
	User       []Source            `json:"user"`
	APIKey     []Source            `json:"api_key"`
	Tier       []Source            `json:"tier"`
	Attributes map[string][]Source `json:"attributes"`
	Fields     map[string][]Source `json:"fields"`
}

// Source is one place from which a fact is read. Exactly one field is not empty.
type Source struct {
	Header string `json:"header,omitempty"`
	Cookie string `json:"cookie,omitempty"`
	// Claim is the name of a claim of the JSON Web Token in ClaimsHeader.
	Claim string `json:"claim,omitempty"`
	// Value is the fact itself, for requests without the sources before it.
	Value string `json:"value,omitempty"`
}

// ClientIP says where the client's address comes from: the right-most address of the header that
// is not in Trusted.
type ClientIP struct {
	Header string `json:"header"`
	// Trusted are addresses and networks of proxies.
	Trusted []string `json:"trusted"`
}

// WeightSource is the header with the weight of a request, a whole number.
type WeightSource struct {
	Header string `json:"header"`
}

// MissingFact says what happens if a fact is missing: Action is MissingSkip or MissingDeny, or ""
// if Value replaces the fact. In JSON it is "skip", "deny" or {"value": "…"}.
type MissingFact struct {
	Action string
	Value  string
}

// Proof says how a gateway proves itself. Any one of these is enough; without any, every
// question is refused.
type Proof struct {
	// Token accepts the header Sluice-Token with a token of the scope check.
	Token bool `json:"token"`
	// Networks are addresses and networks that the gateway connects from.
	Networks []string `json:"networks"`
	// Certificates are the names (DNS or URI, or common name of one without other names) of client certificates.
	Certificates []string `json:"certificates"`
}

// Summary describes a profile in one line.
func (p *Profile) Summary() string {
	facts := len(p.Facts.Attributes) + len(p.Facts.Fields)
	for _, list := range [][]Source{p.Facts.User, p.Facts.APIKey, p.Facts.Tier} {
		facts += min(1, len(list))
	}
	text := fmt.Sprintf("facts: %d, routes: %d", facts, len(p.Routes))
	if p.Domain != "" {
		text += fmt.Sprintf(", entries of %q: %d", p.Domain, len(p.Entries))
	}
	return text
}
