package match

import "net/netip"

// MaxText bounds each text of a descriptor, in bytes.
const MaxText = 1024

// Descriptor describes one request. An empty fact is absent; a rule whose scope names an absent
// fact does not apply.
type Descriptor struct {
	Method string
	// Route is the request's path, without query or fragment.
	Route string
	// Host is what host.Parse returned for the host of the request.
	Host   string
	IP     netip.Addr // the zero Addr is absent
	User   string
	APIKey string
	Tier   string
	// Attributes are free-form facts, used by attr:<name> scopes.
	Attributes map[string]string
	// Fields are numbers of the request, used by weight_field and limit_field.
	Fields map[string]int64

	stored bool // values may be hashes, see MarshalStored
}
