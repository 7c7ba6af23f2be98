package facts

import (
	"maps"
	"slices"
	"strconv"
)

// Read is one fact that was read, for people.
type Read struct {
	// Name is method, route, host, weight, or a name of Profile.Missing.
	Name, Value string
}

// List returns the facts that were found, for people.
func (f *Facts) List() []Read {
	d := &f.Descriptor
	list := []Read{{"method", d.Method}, {"route", d.Route}, {"host", d.Host}}
	if d.IP.IsValid() {
		list = append(list, Read{factIP, d.IP.String()})
	}
	list = append(list, Read{factUser, d.User}, Read{factAPIKey, d.APIKey}, Read{factTier, d.Tier})
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		list = append(list, Read{attrPrefix + name, d.Attributes[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(d.Fields)) {
		list = append(list, Read{fieldPrefix + name, strconv.FormatInt(d.Fields[name], 10)})
	}
	if !f.Skip {
		list = append(list, Read{"weight", strconv.FormatInt(f.Weight, 10)})
	}
	return slices.DeleteFunc(list, func(r Read) bool { return r.Value == "" })
}
