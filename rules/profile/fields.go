package profile

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"sluice/rules/entries"
	"sluice/rules/field"
	"sluice/rules/tree"
)

// Bounds of a profile.
const (
	// MaxProfiles is the largest number of profiles.
	MaxProfiles = 1000
	// MaxRoutes is the largest number of route templates of a profile.
	MaxRoutes = 1000
	// MaxSources is the largest number of sources of one fact.
	MaxSources = 16
	// MaxFacts is the largest number of attributes, of fields, and of missing facts.
	MaxFacts = 64
	// MaxList is the largest length of any other list of a profile.
	MaxList = 64
	// MaxBytes is the largest profile as JSON, in bytes, so that a request can carry it.
	MaxBytes = 60_000

	defaultClaimsHeader   = "Authorization"
	defaultClientIPHeader = "X-Forwarded-For"
	defaultSkipMethod     = "OPTIONS"
)

// ClientHeaders are the headers that a gateway may pass on to its client, in the order in which
// they are sent.
var ClientHeaders = []string{
	"Retry-After", "RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
	"X-RateLimit-Mode", "X-RateLimit-Delay-Ms", "X-RateLimit-Lease",
}

// Fields are the fields of a profile that people write, in the order of its JSON form.
var Fields = []field.Field[Profile]{
	{Name: "name", At: func(p *Profile) any { return &p.Name }, Required: true, Label: true},
	{Name: "description", At: func(p *Profile) any { return &p.Description }, Bytes: field.MaxDescription, Label: true},
	{
		Name: "facts", At: func(p *Profile) any { return &p.Facts }, Policy: true, Default: field.Fresh(factFields),
		Damaged: Facts{User: []Source{{}}},
		File:    func(p *Profile) any { return sparseFacts(p.Facts) }, Composite: field.Always(factFields),
	},
	{
		Name: "claims", At: func(p *Profile) any { return &p.Claims }, Policy: true,
		Default: ClaimsOff, OneOf: []string{ClaimsOff, ClaimsTrusted},
	},
	{
		Name: "claims_header", At: func(p *Profile) any { return &p.ClaimsHeader }, Policy: true,
		Default: defaultClaimsHeader,
	},
	{
		Name: "client_ip", At: func(p *Profile) any { return &p.ClientIP }, Policy: true,
		Default: field.Fresh(clientIPFields), Damaged: ClientIP{Trusted: []string{"?"}},
		Composite: field.Always(clientIPFields),
	},
	{
		Name: "routes", At: func(p *Profile) any { return &p.Routes }, Policy: true,
		Default: []string{}, Noun: "routes", Most: MaxRoutes,
	},
	{
		Name: "path", At: func(p *Profile) any { return &p.Path }, Policy: true,
		Default: PathNormal, OneOf: []string{PathNormal, PathRaw},
	},
	{
		Name: "skip_methods", At: func(p *Profile) any { return &p.SkipMethods }, Policy: true,
		Default: []string{defaultSkipMethod}, Noun: "methods", Most: MaxList,
	},
	{
		Name: "weight", At: func(p *Profile) any { return &p.Weight }, Policy: true,
		Damaged: &WeightSource{Header: "?"}, Composite: field.Part(weightFields),
	},
	{
		Name: "missing", At: func(p *Profile) any { return &p.Missing }, Policy: true,
		Default: map[string]MissingFact{}, Damaged: map[string]MissingFact{"?": {}}, Noun: "facts",
		Most: MaxFacts, Composite: field.MapOf(decodeMissing),
	},
	{Name: "domain", At: func(p *Profile) any { return &p.Domain }, Policy: true, Bytes: entries.MaxDomain},
	{
		Name: "entries", At: func(p *Profile) any { return &p.Entries }, Policy: true,
		Default: map[string]string{}, Noun: "entries", Most: MaxFacts, Composite: field.MapOf(field.DecodeText),
	},
	{
		Name: "headers", At: func(p *Profile) any { return &p.Headers }, Policy: true,
		Default: []string{"Retry-After", "RateLimit-Policy", "RateLimit", "X-RateLimit-*"},
		Noun:    "headers", Most: MaxList,
	},
	{
		Name: "dialect", At: func(p *Profile) any { return &p.Dialect }, Policy: true, Default: DialectNone,
		OneOf: []string{DialectNone, DialectOpenAI, DialectAnthropic, DialectMCP},
	},
	{
		Name: "proof", At: func(p *Profile) any { return &p.Proof }, Policy: true,
		Default: field.Fresh(proofFields), Damaged: Proof{Networks: []string{"?"}}, Composite: field.Always(proofFields),
	},
}

var factFields = []field.Field[Facts]{
	{
		Name: "user", At: func(f *Facts) any { return &f.User },
		Default: []Source{}, Noun: "sources", Most: MaxSources, Composite: oneFact,
	},
	{
		Name: "api_key", At: func(f *Facts) any { return &f.APIKey },
		Default: []Source{}, Noun: "sources", Most: MaxSources, Composite: oneFact,
	},
	{
		Name: "tier", At: func(f *Facts) any { return &f.Tier },
		Default: []Source{}, Noun: "sources", Most: MaxSources, Composite: oneFact,
	},
	{
		Name: "attributes", At: func(f *Facts) any { return &f.Attributes },
		Default: map[string][]Source{}, Noun: "attributes", Most: MaxFacts, Composite: field.MapOf(decodeSources),
	},
	{
		Name: "fields", At: func(f *Facts) any { return &f.Fields },
		Default: map[string][]Source{}, Noun: "fields", Most: MaxFacts, Composite: field.MapOf(decodeSources),
	},
}

// sparseFacts has the JSON form of Facts without facts that have no sources.
type sparseFacts struct {
	User       []Source            `json:"user,omitempty"`
	APIKey     []Source            `json:"api_key,omitempty"`
	Tier       []Source            `json:"tier,omitempty"`
	Attributes map[string][]Source `json:"attributes,omitempty"`
	Fields     map[string][]Source `json:"fields,omitempty"`
}

var sourceFields = []field.Field[Source]{
	{Name: "header", At: func(s *Source) any { return &s.Header }},
	{Name: "cookie", At: func(s *Source) any { return &s.Cookie }},
	{Name: "claim", At: func(s *Source) any { return &s.Claim }},
	{Name: "value", At: func(s *Source) any { return &s.Value }},
}

var clientIPFields = []field.Field[ClientIP]{
	{Name: "header", At: func(c *ClientIP) any { return &c.Header }, Default: defaultClientIPHeader},
	{
		Name: "trusted", At: func(c *ClientIP) any { return &c.Trusted },
		Default: []string{}, Noun: "networks", Most: MaxList,
	},
}

var weightFields = []field.Field[WeightSource]{
	{Name: "header", At: func(w *WeightSource) any { return &w.Header }, Required: true},
}

var proofFields = []field.Field[Proof]{
	{Name: "token", At: func(p *Proof) any { return &p.Token }, Default: true},
	{
		Name: "networks", At: func(p *Proof) any { return &p.Networks },
		Default: []string{}, Noun: "networks", Most: MaxList,
	},
	{
		Name: "certificates", At: func(p *Proof) any { return &p.Certificates },
		Default: []string{}, Noun: "names of certificates", Most: MaxList,
	},
}

// FactFields is Fields for the facts of a profile.
func FactFields() []field.Field[Facts] { return factFields }

// SourceFields is Fields for the source of a fact.
func SourceFields() []field.Field[Source] { return sourceFields }

// ClientIPFields is Fields for the client's address in a profile.
func ClientIPFields() []field.Field[ClientIP] { return clientIPFields }

// ProofFields is Fields for the proof of a profile.
func ProofFields() []field.Field[Proof] { return proofFields }

// New returns a profile without a name whose fields are at their defaults.
func New() Profile { return field.Fresh(Fields) }

// Clone returns a copy of a profile that shares nothing with the original.
func (p *Profile) Clone() Profile { return field.Clone(p) }

// Normalize converts a profile as people write it to the form that is stored and compared: it
// fills in defaults, trims texts, and writes methods and client headers in their usual case. No
// list or map is then nil. It replaces what it changes, because the caller may share what a
// profile points to.
func (p *Profile) Normalize() {
	field.Normalize(Fields, p)
	field.Normalize(clientIPFields, &p.ClientIP)
	field.Normalize(proofFields, &p.Proof)
	for i := range factFields {
		f := &factFields[i]
		if reflect.ValueOf(f.At(&p.Facts)).Elem().IsNil() {
			f.Reset(&p.Facts)
		}
	}
	if p.Missing == nil {
		p.Missing = map[string]MissingFact{}
	}
	if p.Entries == nil {
		p.Entries = map[string]string{}
	}
	p.SkipMethods = mapped(p.SkipMethods, strings.ToUpper)
	p.Headers = mapped(p.Headers, usualHeader)
}

// mapped returns a list with each text converted.
func mapped(list []string, convert func(string) string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = convert(s)
	}
	return out
}

// usualHeader returns a client header, or the beginning of one with *, in the case of
// ClientHeaders.
func usualHeader(name string) string {
	start, wild := strings.CutSuffix(name, "*")
	for _, h := range ClientHeaders {
		switch {
		case wild && len(start) <= len(h) && strings.EqualFold(start, h[:len(start)]):
			return h[:len(start)] + "*"
		case !wild && strings.EqualFold(name, h):
			return h
		}
	}
	return name
}

// MarshalPolicies encodes all of a profile but its name, description, version and times as a JSON
// object, without defaults.
func (p *Profile) MarshalPolicies() ([]byte, error) { return field.MarshalPolicies(Fields, p) }

// UnmarshalPolicies is Rule.UnmarshalPolicies for profiles. The result is normalised.
func (p *Profile) UnmarshalPolicies(text []byte) error {
	unknown, err := field.UnmarshalPolicies(Fields, p, text)
	p.Unknown = unknown
	if err != nil && p.Domain == field.DamagedText {
		p.Entries = map[string]string{"": ""} // because validation refuses no text as a domain
	}
	p.Normalize()
	return err
}

// Diff is Diff for profiles. It names the parts of a composite field, such as facts.user.
func Diff(was, is *Profile) []field.Change {
	if was == nil && is == nil {
		return nil
	}
	var none Profile // whose parts are not read
	a, b := was, is
	if a == nil {
		a = &none
	}
	if b == nil {
		b = &none
	}
	var changes []field.Change
	for _, c := range field.Diff(Fields, was, is) {
		switch c.Field {
		case "facts":
			changes = append(changes, diffPart(c, factFields, &a.Facts, &b.Facts)...)
		case "client_ip":
			changes = append(changes, diffPart(c, clientIPFields, &a.ClientIP, &b.ClientIP)...)
		case "proof":
			changes = append(changes, diffPart(c, proofFields, &a.Proof, &b.Proof)...)
		default:
			changes = append(changes, c)
		}
	}
	return changes
}

// diffPart lists the parts in which a composite field differs. c is its change as a whole.
func diffPart[T any](c field.Change, fields []field.Field[T], was, is *T) []field.Change {
	if c.Old == nil {
		was = nil
	}
	if c.New == nil {
		is = nil
	}
	changes := field.Diff(fields, was, is)
	for i := range changes {
		changes[i].Field = c.Field + "." + changes[i].Field
	}
	return changes
}

// MarshalJSON implements json.Marshaler.
func (m MissingFact) MarshalJSON() ([]byte, error) {
	if m.Action != "" {
		return json.Marshal(m.Action)
	}
	return json.Marshal(struct {
		Value string `json:"value"`
	}{m.Value})
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *MissingFact) UnmarshalJSON(data []byte) error {
	*m = MissingFact{}
	if len(data) > 0 && data[0] == '{' {
		var in struct {
			Value *string `json:"value"`
		}
		if err := json.Unmarshal(data, &in); err != nil {
			return err
		}
		if in.Value == nil {
			return errors.New("no value for a missing fact")
		}
		m.Value = *in.Value
		return nil
	}
	return json.Unmarshal(data, &m.Action)
}

const missingHelp = `must be "skip", "deny" or an object with the member value`

// decodeMissing reads what happens without a fact; null is MissingSkip.
func decodeMissing(d *field.Decoder, at string, v *tree.Value, dst *MissingFact) {
	*dst = MissingFact{Action: MissingSkip}
	switch v.Kind {
	case tree.Null:
	case tree.Text:
		dst.Action = v.Text
	case tree.Object:
		if len(v.Members) != 1 || v.Members[0].Name != "value" {
			d.Wrong(at, v, missingHelp)
			return
		}
		value := &v.Members[0].Value
		dst.Action = ""
		field.Set(d, at+".value", value, &dst.Value, func() (string,
			error) {
			return field.ReadText[struct{}](nil, value, field.FromFile)
		})
	default:
		d.Wrong(at, v, missingHelp)
	}
}

func oneFact(d *field.Decoder, at, _ string, v *tree.Value, p any) {
	decodeSources(d, at, v, field.As[*[]Source](p))
}

// decodeSources reads the sources of a fact; null is none.
func decodeSources(d *field.Decoder, at string, v *tree.Value, dst *[]Source) {
	*dst = []Source{}
	switch {
	case v.Kind == tree.Null:
		return
	case v.Kind != tree.List:
		d.Wrong(at, v, `must be a list of sources, such as [{"header": "X-User"}], not %s`, v.Kind)
		return
	}
	list := make([]Source, len(v.List))
	for i := range v.List {
		one := &v.List[i]
		if field.DecodeObject(d, sourceFields, field.Path(at, i), one, &list[i]) && len(one.Members) > 1 {
			d.Wrong(field.Path(at, i), one, "must have exactly one of header, cookie, claim and value")
		}
	}
	*dst = list
}
