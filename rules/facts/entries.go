package facts

import (
	"net/netip"
	"slices"
	"strings"

	"sluice/rules/entries"
	"sluice/rules/profile"
	"sluice/rules/route"
)

// Facts that only the entries of descriptors name.
const (
	factPath, factMethod = "path", "method"
)

// entryFact is the fact that the entries of a key have.
type entryFact struct {
	name string // ip, user, api_key, tier, path, method, attr:NAME or field:NAME
	part string // the name of an attribute or field
	host bool   // the value is a host
}

// addEntries compiles Profile.Entries.
func (r *Reader) addEntries(p *profile.Profile) {
	r.entries = make(map[string]entryFact, len(p.Entries))
	for key, name := range p.Entries {
		f := entryFact{name: name, host: name == hostAttribute}
		if f.host {
			f.name = attrPrefix + hostAttribute
		}
		_, f.part, _ = strings.Cut(f.name, ":")
		r.entries[key] = f
	}
}

// ReadEntries reads the facts of the request that the descriptors of one call describe, by Profile.Entries, and
// replaces the facts in out, whose maps it reuses. The first entry with a fact counts. An empty value counts as
// missing. So does a value that is no address or no number where one is required: a client may have sent it, and must
// not turn the call into an error, because Envoy then lets the request pass. Missing facts are treated as in Read; the
// sources of Profile.Facts do not apply. The weight is 1.
func (r *Reader) ReadEntries(list [][]entries.Entry, out *Facts) {
	out.Forget()
	out.Weight = 1
	d := &out.Descriptor
	for _, one := range list {
		for _, e := range one {
			f, ok := r.entries[e.Key]
			if ok && e.Value != "" && !out.has(f.name, f.part) {
				r.setEntry(f, e.Value, out)
			}
		}
	}
	if slices.Contains(r.skip, d.Method) {
		out.Skip = true
		return
	}
	if !d.IP.IsValid() {
		d.IP = r.ip.ip
		if r.ip.deny {
			out.Denied = factIP
		}
	}
	for i := range r.sources {
		f := &r.sources[i]
		if !out.has(f.name, f.part) && !out.replace(f) && f.deny && out.Denied == "" {
			out.Denied = f.name
		}
	}
	out.setHost()
}

// setEntry sets a fact to the value of an entry, if it is one.
func (r *Reader) setEntry(f entryFact, value string, out *Facts) {
	d := &out.Descriptor
	switch {
	case f.host:
		if host := normalHost(value); host != "" {
			out.setAttribute(hostAttribute, text(host))
		}
	case f.name == factIP:
		addr, ok := parseEntry(value)
		if network, err := netip.ParsePrefix(value); err == nil { // Envoy's masked_remote_address
			addr, ok = network.Masked().Addr().Unmap(), true
		}
		if ok {
			d.IP = addr
		}
	case f.name == factPath:
		d.Route = r.route(value)
	case f.name == factMethod:
		d.Method = text(route.NormalizeMethod(value))
	case strings.HasPrefix(f.name, fieldPrefix):
		if n, ok := parseNumber(value); ok {
			out.setField(f.part, n)
		}
	default:
		out.setText(f.name, f.part, text(value))
	}
}

// has reports whether a fact was found; part is the name of an attribute or field.
func (f *Facts) has(name, part string) bool {
	d := &f.Descriptor
	switch name {
	case factIP:
		return d.IP.IsValid()
	case factUser:
		return d.User != ""
	case factAPIKey:
		return d.APIKey != ""
	case factTier:
		return d.Tier != ""
	case factPath:
		return d.Route != ""
	case factMethod:
		return d.Method != ""
	}
	if strings.HasPrefix(name, fieldPrefix) {
		_, ok := d.Fields[part]
		return ok
	}
	return d.Attributes[part] != ""
}
