package facts

import (
	"fmt"
	"maps"
	"net/netip"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"sluice/limiter"
	"sluice/rules/host"
	"sluice/rules/match"
	"sluice/rules/profile"
	"sluice/rules/route"
)

// Request is a client's request as its gateway describes it.
type Request struct {
	Method string
	// Target is the path with query, or a whole URL.
	Target string
	// Host is the host that the client asked for, with or without a port.
	Host string
	// Header has canonical names. Values are used in their order.
	Header map[string][]string
	// Peer is the address of the connection. It is the client's address for profiles without a
	// client_ip header.
	Peer netip.Addr
}

// AddHeader adds a header that a person wrote, such as "X-User: 42". The header Host sets Host. It
// returns false if line is not a header.
func (r *Request) AddHeader(line string) bool {
	name, value, ok := strings.Cut(line, ":")
	name, value = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
	switch {
	case !ok || name == "":
		return false
	case name == "Host":
		r.Host = value
	case r.Header == nil:
		r.Header = map[string][]string{name: {value}}
	default:
		r.Header[name] = append(r.Header[name], value)
	}
	return true
}

// Facts are the facts about one request.
type Facts struct {
	// Descriptor holds the facts that were found. The attribute host is the request's host, unless the profile has
	// sources for an attribute of that name. Host is the host in that attribute.
	Descriptor match.Descriptor
	// Weight is in units, 0 to limiter.MaxExact.
	Weight int64
	// Skip: the profile allows the method without a check. The other facts are then not read.
	Skip bool
	// Denied is the missing fact for which the profile denies the request, in the words of
	// Profile.Missing; "" for none.
	Denied string
}

// Forget drops the facts and keeps the memory for the next Read.
func (f *Facts) Forget() {
	d := match.Descriptor{Attributes: f.Descriptor.Attributes, Fields: f.Descriptor.Fields}
	clear(d.Attributes)
	clear(d.Fields)
	*f = Facts{Descriptor: d}
}

// HeaderError says that a header which the gateway itself sets has no valid value.
type HeaderError struct {
	Header  string
	Problem string
}

func (e *HeaderError) Error() string { return e.Header + " " + e.Problem }

// Names of facts in Profile.Missing, and the prefixes of the names of attributes and fields.
const (
	factIP, factUser, factAPIKey, factTier = "ip", "user", "api_key", "tier"
	attrPrefix, fieldPrefix                = "attr:", "field:"
)

// hostAttribute is the attribute with the request's host.
const hostAttribute = "host"

// Reader reads requests by one profile. It is immutable and safe for concurrent use.
type Reader struct {
	sources  []fact
	ip       fact // without sources
	ipHeader string
	trusted  []netip.Prefix
	claims   string // the header with the token, "" if claims are off
	routes   *node
	raw      bool
	fold     bool // templates match in any case
	skip     []string
	weight   string // the header, "" for none
	host     bool   // the host becomes an attribute
	entries  map[string]entryFact
}

// fact is one fact other than method, host and route.
type fact struct {
	name    string // as in Profile.Missing
	part    string // the name of an attribute or field
	isField bool
	sources []source
	deny    bool
	value   string // replaces a missing fact; "" for none
	number  int64  // the same for a field
	ip      netip.Addr
}

type source struct {
	from   sourceKind
	name   string
	number int64 // the value of a field
}

type sourceKind uint8

const (
	fromHeader sourceKind = iota
	fromCookie
	fromClaim
	fromValue
)

// New compiles a profile. Its error names the first value that cannot be used, which validation
// refuses as well.
func New(p *profile.Profile) (*Reader, error) {
	r := &Reader{
		raw: p.Path == profile.PathRaw, fold: p.FoldRoutes, ipHeader: textproto.CanonicalMIMEHeaderKey(p.ClientIP.Header),
		host: len(p.Facts.Attributes[hostAttribute]) == 0,
	}
	if p.Claims == profile.ClaimsTrusted {
		r.claims = textproto.CanonicalMIMEHeaderKey(p.ClaimsHeader)
	}
	if p.Weight != nil {
		r.weight = textproto.CanonicalMIMEHeaderKey(p.Weight.Header)
	}
	for _, m := range p.SkipMethods {
		r.skip = append(r.skip, route.NormalizeMethod(m))
	}
	r.addEntries(p)
	for _, text := range p.ClientIP.Trusted {
		network, err := host.ParseNetwork(text)
		if err != nil {
			return nil, fmt.Errorf("client_ip.trusted: %q %w", text, err)
		}
		r.trusted = append(r.trusted, network)
	}
	for _, template := range p.Routes {
		if err := r.addRoute(template); err != nil {
			return nil, fmt.Errorf("routes: %s %w", template, err)
		}
	}
	return r, r.addFacts(p)
}

// addFacts compiles the sources of all facts, and what happens without them.
func (r *Reader) addFacts(p *profile.Profile) error {
	r.ip = fact{name: factIP}
	if err := r.ip.missing(p); err != nil {
		return err
	}
	add := func(name, part string, from []profile.Source) error {
		f := fact{name: name, part: part, isField: strings.HasPrefix(name, fieldPrefix)}
		for _, s := range from {
			compiled, err := compileSource(s, f.isField)
			if err != nil {
				return fmt.Errorf("facts: %s: %w", name, err)
			}
			f.sources = append(f.sources, compiled)
		}
		if err := f.missing(p); err != nil {
			return err
		}
		if len(f.sources) > 0 || f.deny || f.value != "" {
			r.sources = append(r.sources, f)
		}
		return nil
	}
	for _, one := range []struct {
		name string
		from []profile.Source
	}{{factUser, p.Facts.User}, {factAPIKey, p.Facts.APIKey}, {factTier, p.Facts.Tier}} {
		if err := add(one.name, "", one.from); err != nil {
			return err
		}
	}
	for _, group := range []struct {
		prefix string
		from   map[string][]profile.Source
	}{{attrPrefix, p.Facts.Attributes}, {fieldPrefix, p.Facts.Fields}} {
		for _, part := range parts(p, group.prefix, group.from) {
			if err := add(group.prefix+part, part, group.from[part]); err != nil {
				return err
			}
		}
	}
	return nil
}

// parts lists the attributes or fields that have sources or are named in Missing, sorted.
func parts(p *profile.Profile, prefix string, from map[string][]profile.Source) []string {
	names := slices.Collect(maps.Keys(from))
	for name := range p.Missing {
		part, ok := strings.CutPrefix(name, prefix)
		if _, has := from[part]; ok && !has {
			names = append(names, part)
		}
	}
	slices.Sort(names)
	return names
}

// missing compiles what happens without the fact.
func (f *fact) missing(p *profile.Profile) error {
	m := p.Missing[f.name]
	f.deny = m.Action == profile.MissingDeny
	if m.Action != "" || m.Value == "" {
		return nil
	}
	var err error
	f.value = text(m.Value)
	switch {
	case f.name == factIP:
		f.ip, err = netip.ParseAddr(m.Value)
	case f.isField:
		var ok bool
		if f.number, ok = parseNumber(m.Value); !ok {
			err = strconv.ErrSyntax
		}
	}
	if err != nil {
		return fmt.Errorf("missing: %s: the value %q is not valid", f.name, m.Value)
	}
	return nil
}

func compileSource(s profile.Source, number bool) (source, error) {
	switch {
	case s.Header != "":
		return source{from: fromHeader, name: textproto.CanonicalMIMEHeaderKey(s.Header)}, nil
	case s.Cookie != "":
		return source{from: fromCookie, name: s.Cookie}, nil
	case s.Claim != "":
		return source{from: fromClaim, name: s.Claim}, nil
	}
	v := source{from: fromValue, name: text(s.Value)}
	if n, ok := parseNumber(s.Value); ok {
		v.number = n
	} else if number {
		return source{}, fmt.Errorf("the value %q is not a whole number", s.Value)
	}
	return v, nil
}

// Read reads the facts of a request and replaces the facts in out, whose maps it reuses. Its error is a *HeaderError
// about the weight.
func (r *Reader) Read(req *Request, out *Facts) error {
	out.Forget()
	out.Weight = 1
	d := &out.Descriptor
	d.Method = text(route.NormalizeMethod(req.Method))
	d.Route = r.route(req.Target)
	if slices.Contains(r.skip, d.Method) {
		out.Skip = true
		return nil
	}
	if r.host {
		if host := normalHost(req.Host); host != "" {
			out.setAttribute(hostAttribute, text(host))
		}
	}
	if d.IP = r.clientIP(req); !d.IP.IsValid() {
		d.IP = r.ip.ip
		if r.ip.deny {
			out.Denied = factIP
		}
	}
	w := request{Request: req, reader: r}
	for i := range r.sources {
		f := &r.sources[i]
		if !w.set(f, out) && f.deny && out.Denied == "" {
			out.Denied = f.name
		}
	}
	out.setHost()
	return r.readWeight(req, out)
}

// readWeight reads the weight, which is 1 without the header. Of several values the last counts: the gateway added it,
// if it adds to the values of the client.
func (r *Reader) readWeight(req *Request, out *Facts) error {
	v := ""
	if values := req.Header[r.weight]; len(values) > 0 {
		v = strings.TrimSpace(values[len(values)-1])
	}
	if r.weight == "" || v == "" {
		return nil
	}
	n, ok := parseNumber(v)
	if !ok || n > limiter.MaxExact {
		return &HeaderError{r.weight, "must be a whole number between 0 and " + strconv.FormatInt(limiter.MaxExact, 10)}
	}
	out.Weight = n
	return nil
}

// set finds the value of a fact and puts it into out. It reports false if the fact is missing.
func (w *request) set(f *fact, out *Facts) bool {
	if f.isField {
		n, ok := w.number(f)
		if !ok {
			return out.replace(f)
		}
		out.setField(f.part, n)
		return true
	}
	v := w.text(f)
	if v == "" {
		return out.replace(f)
	}
	out.setText(f.name, f.part, v)
	return true
}

// replace sets a missing fact in f to the value in the profile. It reports false if the profile has none.
func (f *Facts) replace(missing *fact) bool {
	switch {
	case missing.value == "":
		return false
	case missing.isField:
		f.setField(missing.part, missing.number)
	default:
		f.setText(missing.name, missing.part, missing.value)
	}
	return true
}

// setText sets the fact with a name of Profile.Missing; part is the name of an attribute.
func (f *Facts) setText(name, part, value string) {
	switch name {
	case factUser:
		f.Descriptor.User = value
	case factAPIKey:
		f.Descriptor.APIKey = value
	case factTier:
		f.Descriptor.Tier = value
	default:
		f.setAttribute(part, value)
	}
}

func (f *Facts) setField(name string, n int64) {
	if f.Descriptor.Fields == nil {
		f.Descriptor.Fields = map[string]int64{}
	}
	f.Descriptor.Fields[name] = min(n, limiter.MaxExact)
}

// setHost sets the host to the value of the attribute, and clears it if that is no host.
func (f *Facts) setHost() {
	if name := f.Descriptor.Attributes[hostAttribute]; name != "" {
		f.Descriptor.Host, _ = host.Parse(name)
	}
}

func (f *Facts) setAttribute(name, value string) {
	if f.Descriptor.Attributes == nil {
		f.Descriptor.Attributes = map[string]string{}
	}
	f.Descriptor.Attributes[name] = value
}
