package envoyfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"sluice/rules"
	"sluice/rules/redact"
	"sluice/rules/tree"
)

// Lengths of names, in bytes.
const (
	maxName = 63
	// hashDigits are enough to distinguish a hundred thousand rules.
	hashDigits = 12
)

// plainName is what a rule's name may be.
var plainName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// unfit is what a name cannot contain.
var unfit = regexp.MustCompile(`[^a-z0-9._-]+`)

// nameRules names the rules. A name depends on the descriptor only: it is the domain and the path in lower case. If
// that is not a valid name, or if two descriptors would share it, it is cut and gets a hash. A value that looks like a
// credential is left out in favour of the hash, because clients, metrics and logs see names.
func (r *reader) nameRules() {
	taken := make(map[string]int, len(r.rules))
	names := make([]string, len(r.rules))
	secret := make([]bool, len(r.rules))
	for i, f := range r.rules {
		var name string
		name, secret[i] = pathName(f.descriptor())
		names[i] = strings.ToLower(name)
		if !secret[i] {
			taken[names[i]]++
		}
	}
	for i, f := range r.rules {
		f.rule.Name = names[i]
		if secret[i] || taken[names[i]] > 1 || !plainName.MatchString(names[i]) {
			f.rule.Name = hashedName(names[i], f.descriptor())
		}
	}
}

// pathName is the full key of a descriptor in envoyproxy/ratelimit, without values that look like credentials. secret
// reports whether there are any.
func pathName(d *rules.RuleDescriptor) (name string, secret bool) {
	path := steps(d)
	for i := range path {
		if redact.SecretPath(path[i].value) {
			path[i].value, secret = "", true
		}
	}
	return fullKey(d.Domain, path), secret
}

func steps(d *rules.RuleDescriptor) []step {
	path := make([]step, len(d.Entries))
	for i, e := range d.Entries {
		path[i] = step{key: e.Key, value: e.Value + e.Pattern}
	}
	return path
}

// hashedName makes a name of any text. The hash of the descriptor makes it unique.
func hashedName(text string, d *rules.RuleDescriptor) string {
	text = strings.TrimLeft(unfit.ReplaceAllString(text, "-"), "._-")
	if most := maxName - hashDigits - 1; len(text) > most {
		text = text[:most]
	}
	text = strings.NewReplacer("_-", "_", ".-", ".").Replace(text)
	sum := sha256.Sum256([]byte(identity(d)))
	return strings.TrimLeft(strings.TrimRight(text, "._-")+"-", "-") + hex.EncodeToString(sum[:])[:hashDigits]
}

// identity is an injective text of a descriptor, without what is shared: rules with the same one apply to the same
// descriptors.
func identity(d *rules.RuleDescriptor) string {
	parts := []string{d.Domain}
	for _, e := range d.Entries {
		parts = append(parts, e.Key, e.Value, e.Pattern)
	}
	text, err := json.Marshal(parts)
	if err != nil { // impossible: it is a list of texts
		return strings.Join(parts, "\x00")
	}
	return string(text)
}

// resolveReplaces turns the labels that a rule replaces into names of rules: of all limits of its domain with this
// label. A rule without a limit is not replaced, as in envoyproxy/ratelimit.
func (r *reader) resolveReplaces() {
	type in struct{ domain, label string }
	labelled := map[in][]string{}
	for _, f := range r.rules {
		if f.label != "" && !f.rule.Unlimited {
			at := in{f.descriptor().Domain, f.label}
			labelled[at] = append(labelled[at], f.rule.Name)
		}
	}
	for _, f := range r.rules {
		r.file, r.before = f.place.file, 0
		for _, l := range f.replaces {
			names := labelled[in{f.descriptor().Domain, l.text}]
			if len(names) == 0 {
				r.note(f.place.line, "replaces %s, which no limit of the domain has as its name: it has no effect",
					tree.Shown(l.text))
			}
			f.rule.Replaces = append(f.rule.Replaces, names...)
		}
		slices.Sort(f.rule.Replaces)
		f.rule.Replaces = slices.Compact(f.rule.Replaces)
	}
}
