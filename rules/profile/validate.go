package profile

import (
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice/limiter"
	"sluice/rules/chars"
	"sluice/rules/entries"
	"sluice/rules/field"
	"sluice/rules/host"
	"sluice/rules/route"
)

// Bounds of the texts of a profile, in bytes.
const (
	maxToken       = 128 // the name of a header or cookie
	maxClaim       = 256
	maxFactValue   = 256
	maxCertificate = 255
)

// tokenHeader is the header with which a gateway proves itself. Its secret is never a fact.
const tokenHeader = "Sluice-Token"

// Validate reports every problem of a normalised profile at once, each under the path of
// the field, such as facts.user[0].header. The error is a *field.ValidationError.
func Validate(p *Profile) error {
	var ps field.Problems
	if !field.ValidName(p.Name) {
		ps.Add("name", "must be %s", field.NameHelp)
	}
	ps.Unknown(p.Unknown)
	field.Bounds(Fields, p, "", &ps)
	p.Facts.validate(&ps)
	checkHeader(&ps, "claims_header", p.ClaimsHeader)
	field.Bounds(clientIPFields, &p.ClientIP, "client_ip.", &ps)
	checkHeader(&ps, "client_ip.header", p.ClientIP.Header)
	checkNetworks(&ps, "client_ip.trusted", p.ClientIP.Trusted)
	validateTemplates(p.Routes, &ps)
	for i, m := range p.SkipMethods {
		if !route.IsMethod(m) {
			ps.Add(field.Path("skip_methods", i), "must be an HTTP method in upper case, such as OPTIONS, of at most %d "+
				"characters", route.MaxMethod)
		}
	}
	checkDistinct(&ps, "skip_methods", p.SkipMethods)
	if p.Weight != nil {
		checkHeader(&ps, "weight.header", p.Weight.Header)
	}
	validateMissing(p.Missing, &ps)
	if n := p.attributes(); n > MaxFacts && len(p.Facts.Attributes) <= MaxFacts {
		ps.Add("facts.attributes", "give a request %d attributes with %s and those of missing, more than %d", n,
			hostAttribute, MaxFacts)
	}
	p.validateEntries(&ps)
	for i, h := range p.Headers {
		if !isClientHeader(h) {
			ps.Add(field.Path("headers", i), "must be one of %s, or the beginning of one followed by *",
				strings.Join(ClientHeaders, ", "))
		}
	}
	checkDistinct(&ps, "headers", p.Headers)
	field.Bounds(proofFields, &p.Proof, "proof.", &ps)
	checkNetworks(&ps, "proof.networks", p.Proof.Networks)
	for i, name := range p.Proof.Certificates {
		checkText(&ps, field.Path("proof.certificates", i), name, maxCertificate)
	}
	checkDistinct(&ps, "proof.certificates", p.Proof.Certificates)
	if len(ps) == 0 && len(field.JSONText(p)) > MaxBytes {
		ps.Add("routes", "make the profile larger than %d bytes as JSON", MaxBytes)
	}
	if len(ps) > 0 {
		field.Sort(Fields, ps)
		return &field.ValidationError{Fields: ps}
	}
	return nil
}

// EntryFacts are the facts that Profile.Entries may name. Attributes and fields have
// attr: and field: before their names instead.
var EntryFacts = []string{"ip", "user", "api_key", "tier", "path", "method", hostAttribute}

// validateEntries checks how the profile reads the descriptors of its domain.
func (p *Profile) validateEntries(ps *field.Problems) {
	if p.Domain == "" && len(p.Entries) > 0 {
		ps.Add("domain", "is required, because entries say how its descriptors are read")
	}
	attributes := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(p.Entries)) {
		fact, at := p.Entries[key], "entries."+field.SafeKey(key)
		attribute, isAttribute := strings.CutPrefix(fact, field.AttributePrefix)
		field, isField := strings.CutPrefix(fact, field.FieldPrefix)
		switch {
		case key == "" || len(key) > entries.MaxKey || !utf8.ValidString(key) || strings.ContainsFunc(key, chars.Unsafe):
			ps.Add(at, "must have a key of 1 to %d bytes of valid UTF-8 without control characters or line breaks",
				entries.MaxKey)
		case fact == hostAttribute:
			attributes[fact] = true
		case slices.Contains(EntryFacts, fact), isField && chars.IsName(field):
		case isAttribute && chars.IsName(attribute):
			attributes[attribute] = true
		default:
			ps.Add(at, "must be one of %s, attr:NAME and field:NAME", strings.Join(EntryFacts, ", "))
		}
	}
	for name, m := range p.Missing {
		if attribute, ok := strings.CutPrefix(name, field.AttributePrefix); ok && m.Action == "" {
			attributes[attribute] = true
		}
	}
	if n := len(attributes); n > MaxFacts && len(p.Entries) <= MaxFacts {
		ps.Add("entries", "give a request %d attributes with those of missing, more than %d", n, MaxFacts)
	}
}

// hostAttribute is the attribute with the request's host, which needs no source.
const hostAttribute = "host"

// attributes is how many attributes a request has at most. A check carries up to MaxProfileFacts.
func (p *Profile) attributes() int {
	n := len(p.Facts.Attributes)
	if _, has := p.Facts.Attributes[hostAttribute]; !has {
		n++
	}
	for name, m := range p.Missing {
		attribute, ok := strings.CutPrefix(name, field.AttributePrefix)
		if _, has := p.Facts.Attributes[attribute]; ok && !has && attribute != hostAttribute && m.Action == "" {
			n++
		}
	}
	return n
}

func (f *Facts) validate(ps *field.Problems) {
	field.Bounds(factFields, f, "facts.", ps)
	checkSources(ps, "facts.user", f.User, false)
	checkSources(ps, "facts.api_key", f.APIKey, false)
	checkSources(ps, "facts.tier", f.Tier, false)
	checkSourceMap(ps, "facts.attributes", f.Attributes, false)
	checkSourceMap(ps, "facts.fields", f.Fields, true)
}

func checkSourceMap(ps *field.Problems, at string, m map[string][]Source, number bool) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list, at := m[name], at+"."+field.SafeKey(name)
		switch {
		case !chars.IsName(name):
			ps.Add(at, "must have a name of 1 to %d letters, digits, _, . or -", chars.MaxName)
		case len(list) == 0:
			ps.Add(at, "must have at least one source")
		case len(list) > MaxSources:
			ps.Add(at, "must not have more than %d sources", MaxSources)
		default:
			checkSources(ps, at, list, number)
		}
	}
}

// checkSources checks the sources of a fact, which is a number if number is true.
func checkSources(ps *field.Problems, at string, list []Source, number bool) {
	for i, s := range list {
		at := field.Path(at, i)
		switch {
		case s == (Source{Header: s.Header}) && s.Header != "":
			checkHeader(ps, at+".header", s.Header)
		case s == (Source{Cookie: s.Cookie}) && s.Cookie != "":
			if !isToken(s.Cookie) {
				ps.Add(at+".cookie", "must be the name of a cookie: %s", tokenHelp)
			}
		case s == (Source{Claim: s.Claim}) && s.Claim != "":
			checkText(ps, at+".claim", s.Claim, maxClaim)
			if strings.Contains(s.Claim, "[") && !claimIndexes.MatchString(s.Claim) {
				ps.Add(at+".claim", "must have a number from 0 to 999 in brackets, such as groups[0], and behind them a dot or "+
					"nothing")
			}
		case s == (Source{Value: s.Value}) && s.Value != "":
			checkFactValue(ps, at+".value", s.Value, number)
			if i < len(list)-1 {
				ps.Add(at, "must be the last source, because a value is never missing")
			}
		default:
			ps.Add(at, "must have exactly one of header, cookie, claim and value")
			continue
		}
		if slices.Contains(list[:i], s) {
			ps.Add(at, "must not be listed twice")
		}
	}
}

// claimIndexes matches a claim whose brackets are all places in lists.
var claimIndexes = regexp.MustCompile(`^[^\[\]]+((\[(0|[1-9][0-9]{0,2})\])+(\.[^\[\]]+|$))*$`)

// checkFactValue checks a fixed value of a fact.
func checkFactValue(ps *field.Problems, at, value string, number bool) {
	if !number {
		checkText(ps, at, value, maxFactValue)
		return
	}
	if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < 0 || n > limiter.MaxExact {
		ps.Add(at, "must be a whole number from 0 to %d, as text", limiter.MaxExact)
	}
}

// validateTemplates checks the routes of a profile. Templates that differ only in the names of
// their parameters are the same template.
func validateTemplates(routes []string, ps *field.Problems) {
	first := make(map[string]int, len(routes))
	for i, text := range routes {
		p, err := route.Parse(text)
		if err != nil {
			ps.Add(field.Path("routes", i), "%s", err)
			continue
		}
		shape := "/" + strings.Join(p.Segments, "/") // a parameter is an empty segment
		if p.Tail {
			shape += "/*"
		}
		if j, taken := first[shape]; taken {
			ps.Add(field.Path("routes", i), "is the same template as %s", field.Path("routes", j))
			continue
		}
		first[shape] = i
	}
}

func validateMissing(missing map[string]MissingFact, ps *field.Problems) {
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		m, at := missing[name], "missing."+field.SafeKey(name)
		attribute, isAttribute := strings.CutPrefix(name, field.AttributePrefix)
		field, isField := strings.CutPrefix(name, field.FieldPrefix)
		switch {
		case name == "ip", name == "user", name == "api_key", name == "tier":
		case isAttribute && chars.IsName(attribute), isField && chars.IsName(field):
		default:
			ps.Add(at, "must be one of ip, user, api_key, tier, attr:NAME and field:NAME")
			continue
		}
		switch {
		case m.Action == MissingSkip || m.Action == MissingDeny:
		case m.Action != "":
			ps.Add(at, missingHelp)
		case name == "ip":
			if a, err := netip.ParseAddr(m.Value); err != nil || a.Zone() != "" {
				ps.Add(at+".value", "must be an IP address")
			}
		default:
			checkFactValue(ps, at+".value", m.Value, isField)
		}
	}
}

// isClientHeader reports whether name is one of ClientHeaders, or the beginning of one with *.
func isClientHeader(name string) bool {
	return slices.ContainsFunc(ClientHeaders, func(h string) bool { return namesHeader(name, h) })
}

// namesHeader reports whether an element of Profile.Headers names a client header.
func namesHeader(name, header string) bool {
	start, wild := strings.CutSuffix(name, "*")
	return name == header || wild && strings.HasPrefix(header, start)
}

// Sends reports whether the profile lets a gateway pass on one of ClientHeaders. The profile is
// normalised.
func (p *Profile) Sends(header string) bool {
	return slices.ContainsFunc(p.Headers, func(name string) bool { return namesHeader(name, header) })
}

const tokenHelp = "1 to 128 letters, digits and any of !#$%&'*+-.^_`|~"

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; !chars.IsAlnum(c) && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != "" && len(s) <= maxToken
}

// checkHeader checks the name of a request header.
func checkHeader(ps *field.Problems, at, name string) {
	switch {
	case !isToken(name):
		ps.Add(at, "must be the name of a header: %s", tokenHelp)
	case strings.EqualFold(name, tokenHeader):
		ps.Add(at, "must not be %s, which has the gateway's own secret", tokenHeader)
	}
}

// checkText checks a text on one line that may not be empty.
func checkText(ps *field.Problems, at, s string, most int) {
	switch {
	case s == "" || len(s) > most:
		ps.Add(at, "must be 1 to %d bytes long", most)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, chars.Unsafe):
		ps.Add(at, "must be valid UTF-8 without control characters or line breaks")
	case strings.TrimSpace(s) != s:
		ps.Add(at, "must not begin or end with blanks")
	}
}

// checkNetworks checks a list of addresses and networks.
func checkNetworks(ps *field.Problems, at string, list []string) {
	for i, s := range list {
		if _, err := host.ParseNetwork(s); err != nil {
			ps.Add(field.Path(at, i), "%s", err)
		}
	}
	checkDistinct(ps, at, list)
}

// checkDistinct refuses a text that occurs twice in a list.
func checkDistinct(ps *field.Problems, at string, list []string) {
	for i, s := range list {
		if slices.Contains(list[:i], s) {
			ps.Add(field.Path(at, i), "must not be listed twice")
		}
	}
}
