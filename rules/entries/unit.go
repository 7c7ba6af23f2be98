package entries

// Unit is a unit of time of a limit in the protocol and in the files of envoyproxy/ratelimit. Windows of one unit begin
// at multiples of its length since the epoch, as there.
type Unit struct {
	// Name is the lower-case name in files.
	Name string
	// Number is the number of the unit in envoy.type.v3.RateLimitUnit and in RateLimitResponse.RateLimit.Unit. Only the
	// second has a week.
	Number uint64
	// Window is the length in milliseconds. A month has 30 days and a year 365, as in envoyproxy/ratelimit.
	Window int64
}

const day = 24 * 60 * 60 * 1000

// Units lists the units from the longest to the shortest. It must not be changed.
var Units = [...]Unit{
	{"year", 6, 365 * day}, {"month", 5, 30 * day}, {"week", 7, 7 * day}, {"day", 4, day},
	{"hour", 3, 60 * 60 * 1000}, {"minute", 2, 60 * 1000}, {"second", 1, 1000},
}

// UnitNamed returns the unit with a lower-case name, the zero Unit if there is none.
func UnitNamed(name string) Unit {
	for _, u := range Units {
		if u.Name == name {
			return u
		}
	}
	return Unit{}
}
