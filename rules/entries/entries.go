// Package entries has the descriptors of Envoy: lists of keys and values, what rules say about them, and the tree that
// finds the one rule of a descriptor.
//
// A worked example. The domain shop has three rules:
//
//	1: path=/pay
//	2: path=/pay, user
//	3: path=/files/*
//
// The descriptor (path=/pay, user=b) walks from the domain to the value /pay and on to any user, where it finds rule 2
// and no other. (path=/files/a) finds rule 3. (path=/files/a, user=b) finds none: below /files/* there are no users.
package entries

// Bounds of a descriptor, in bytes.
const (
	MaxDomain = 255
	MaxKey    = 255
)

// Entry is one key and value of a descriptor that Envoy sends.
type Entry struct{ Key, Value string }

// Element is what a rule says about one entry: the value must be Value, or fit Pattern, in which * stands for any text.
// With neither, any value fits. At most one of the two is not empty.
type Element struct {
	Key     string `json:"key"`
	Value   string `json:"value,omitempty"`
	Pattern string `json:"pattern,omitempty"`
	// Shared, only with a Pattern: all values that fit share one bucket. Otherwise each value uses a separate bucket.
	Shared bool `json:"shared,omitempty"`
}
