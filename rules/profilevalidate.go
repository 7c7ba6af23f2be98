package rules

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice/limiter"
	"sluice/rules/chars"
	"sluice/rules/entries"
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

// ValidateProfile reports every problem of a normalised profile at once, each under the path of
// the field, such as facts.user[0].header. The error is a *ValidationError.
func ValidateProfile(p *Profile) error {
	var ps problems
	if !ValidName(p.Name) {
		ps.add("name", "must be %s", NameHelp)
	}
	ps.unknown(p.Unknown)
	bounds(profileFields, p, "", &ps)
	p.Facts.validate(&ps)
	checkHeader(&ps, "claims_header", p.ClaimsHeader)
	bounds(clientIPFields, &p.ClientIP, "client_ip.", &ps)
	checkHeader(&ps, "client_ip.header", p.ClientIP.Header)
	checkNetworks(&ps, "client_ip.trusted", p.ClientIP.Trusted)
	validateTemplates(p.Routes, &ps)
	for i, m := range p.SkipMethods {
		if !route.IsMethod(m) {
			ps.add(path("skip_methods", i), "must be an HTTP method in upper case, such as OPTIONS, of at most %d characters",
				route.MaxMethod)
		}
	}
	checkDistinct(&ps, "skip_methods", p.SkipMethods)
	if p.Weight != nil {
		checkHeader(&ps, "weight.header", p.Weight.Header)
	}
	validateMissing(p.Missing, &ps)
	if n := p.attributes(); n > MaxProfileFacts && len(p.Facts.Attributes) <= MaxProfileFacts {
		ps.add("facts.attributes", "give a request %d attributes with %s and those of missing, more than %d", n,
			hostAttribute, MaxProfileFacts)
	}
	p.validateEntries(&ps)
	for i, h := range p.Headers {
		if !isClientHeader(h) {
			ps.add(path("headers", i), "must be one of %s, or the beginning of one followed by *",
				strings.Join(ClientHeaders, ", "))
		}
	}
	checkDistinct(&ps, "headers", p.Headers)
	bounds(proofFields, &p.Proof, "proof.", &ps)
	checkNetworks(&ps, "proof.networks", p.Proof.Networks)
	for i, name := range p.Proof.Certificates {
		checkText(&ps, path("proof.certificates", i), name, maxCertificate)
	}
	checkDistinct(&ps, "proof.certificates", p.Proof.Certificates)
	if len(ps) == 0 && len(JSONText(p)) > MaxProfile {
		ps.add("routes", "make the profile larger than %d bytes as JSON", MaxProfile)
	}
	if len(ps) > 0 {
		inOrder(profileFields, ps)
		return &ValidationError{Fields: ps}
	}
	return nil
}

// EntryFacts are the facts that Profile.Entries may name. Attributes and fields have
// attr: and field: before their names instead.
var EntryFacts = []string{"ip", "user", "api_key", "tier", "path", "method", hostAttribute}

// validateEntries checks how the profile reads the descriptors of its domain.
func (p *Profile) validateEntries(ps *problems) {
	if p.Domain == "" && len(p.Entries) > 0 {
		ps.add("domain", "is required, because entries say how its descriptors are read")
	}
	attributes := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(p.Entries)) {
		fact, at := p.Entries[key], "entries."+SafeKey(key)
		attribute, isAttribute := strings.CutPrefix(fact, missingAttribute)
		field, isField := strings.CutPrefix(fact, missingField)
		switch {
		case key == "" || len(key) > entries.MaxKey || !utf8.ValidString(key) || strings.ContainsFunc(key, chars.Unsafe):
			ps.add(at, "must have a key of 1 to %d bytes of valid UTF-8 without control characters or line breaks", entries.MaxKey)
		case fact == hostAttribute:
			attributes[fact] = true
		case slices.Contains(EntryFacts, fact), isField && chars.IsName(field):
		case isAttribute && chars.IsName(attribute):
			attributes[attribute] = true
		default:
			ps.add(at, "must be one of %s, attr:NAME and field:NAME", strings.Join(EntryFacts, ", "))
		}
	}
	for name, m := range p.Missing {
		if attribute, ok := strings.CutPrefix(name, missingAttribute); ok && m.Action == "" {
			attributes[attribute] = true
		}
	}
	if n := len(attributes); n > MaxProfileFacts && len(p.Entries) <= MaxProfileFacts {
		ps.add("entries", "give a request %d attributes with those of missing, more than %d", n, MaxProfileFacts)
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
		attribute, ok := strings.CutPrefix(name, missingAttribute)
		if _, has := p.Facts.Attributes[attribute]; ok && !has && attribute != hostAttribute && m.Action == "" {
			n++
		}
	}
	return n
}

func (f *ProfileFacts) validate(ps *problems) {
	bounds(factFields, f, "facts.", ps)
	checkSources(ps, "facts.user", f.User, false)
	checkSources(ps, "facts.api_key", f.APIKey, false)
	checkSources(ps, "facts.tier", f.Tier, false)
	checkSourceMap(ps, "facts.attributes", f.Attributes, false)
	checkSourceMap(ps, "facts.fields", f.Fields, true)
}

func checkSourceMap(ps *problems, at string, m map[string][]FactSource, number bool) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list, at := m[name], at+"."+SafeKey(name)
		switch {
		case !chars.IsName(name):
			ps.add(at, "must have a name of 1 to %d letters, digits, _, . or -", chars.MaxName)
		case len(list) == 0:
			ps.add(at, "must have at least one source")
		case len(list) > MaxSources:
			ps.add(at, "must not have more than %d sources", MaxSources)
		default:
			checkSources(ps, at, list, number)
		}
	}
}

// checkSources checks the sources of a fact, which is a number if number is true.
func checkSources(ps *problems, at string, list []FactSource, number bool) {
	for i, s := range list {
		at := path(at, i)
		switch {
		case s == (FactSource{Header: s.Header}) && s.Header != "":
			checkHeader(ps, at+".header", s.Header)
		case s == (FactSource{Cookie: s.Cookie}) && s.Cookie != "":
			if !isToken(s.Cookie) {
				ps.add(at+".cookie", "must be the name of a cookie: %s", tokenHelp)
			}
		case s == (FactSource{Claim: s.Claim}) && s.Claim != "":
			checkText(ps, at+".claim", s.Claim, maxClaim)
		case s == (FactSource{Value: s.Value}) && s.Value != "":
			checkFactValue(ps, at+".value", s.Value, number)
			if i < len(list)-1 {
				ps.add(at, "must be the last source, because a value is never missing")
			}
		default:
			ps.add(at, "must have exactly one of header, cookie, claim and value")
			continue
		}
		if slices.Contains(list[:i], s) {
			ps.add(at, "must not be listed twice")
		}
	}
}

// checkFactValue checks a fixed value of a fact.
func checkFactValue(ps *problems, at, value string, number bool) {
	if !number {
		checkText(ps, at, value, maxFactValue)
		return
	}
	if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < 0 || n > limiter.MaxExact {
		ps.add(at, "must be a whole number from 0 to %d, as text", limiter.MaxExact)
	}
}

// validateTemplates checks the routes of a profile. Templates that differ only in the names of
// their parameters are the same template.
func validateTemplates(routes []string, ps *problems) {
	first := make(map[string]int, len(routes))
	for i, text := range routes {
		p, err := route.Parse(text)
		if err != nil {
			ps.add(path("routes", i), "%s", err)
			continue
		}
		shape := "/" + strings.Join(p.Segments, "/") // a parameter is an empty segment
		if p.Tail {
			shape += "/*"
		}
		if j, taken := first[shape]; taken {
			ps.add(path("routes", i), "is the same template as %s", path("routes", j))
			continue
		}
		first[shape] = i
	}
}

func validateMissing(missing map[string]MissingFact, ps *problems) {
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		m, at := missing[name], "missing."+SafeKey(name)
		attribute, isAttribute := strings.CutPrefix(name, missingAttribute)
		field, isField := strings.CutPrefix(name, missingField)
		switch {
		case name == "ip", name == "user", name == "api_key", name == "tier":
		case isAttribute && chars.IsName(attribute), isField && chars.IsName(field):
		default:
			ps.add(at, "must be one of ip, user, api_key, tier, attr:NAME and field:NAME")
			continue
		}
		switch {
		case m.Action == MissingSkip || m.Action == MissingDeny:
		case m.Action != "":
			ps.add(at, missingHelp)
		case name == "ip":
			if a, err := netip.ParseAddr(m.Value); err != nil || a.Zone() != "" {
				ps.add(at+".value", "must be an IP address")
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
func checkHeader(ps *problems, at, name string) {
	switch {
	case !isToken(name):
		ps.add(at, "must be the name of a header: %s", tokenHelp)
	case strings.EqualFold(name, tokenHeader):
		ps.add(at, "must not be %s, which has the gateway's own secret", tokenHeader)
	}
}

// checkText checks a text on one line that may not be empty.
func checkText(ps *problems, at, s string, most int) {
	switch {
	case s == "" || len(s) > most:
		ps.add(at, "must be 1 to %d bytes long", most)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, chars.Unsafe):
		ps.add(at, "must be valid UTF-8 without control characters or line breaks")
	case strings.TrimSpace(s) != s:
		ps.add(at, "must not begin or end with blanks")
	}
}

// checkNetworks checks a list of addresses and networks.
func checkNetworks(ps *problems, at string, list []string) {
	for i, s := range list {
		if _, err := ParseNetwork(s); err != nil {
			ps.add(path(at, i), "%s", err)
		}
	}
	checkDistinct(ps, at, list)
}

// checkDistinct refuses a text that a list has twice.
func checkDistinct(ps *problems, at string, list []string) {
	for i, s := range list {
		if slices.Contains(list[:i], s) {
			ps.add(path(at, i), "must not be listed twice")
		}
	}
}
