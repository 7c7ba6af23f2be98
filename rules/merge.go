package rules

import (
	"encoding/json"
	"fmt"
)

// Merge is theirs with the named fields, by their JSON names, taken from ours.
// Identity, version and times stay theirs. An unknown name is an error. It is
// for two people who edited the same rule; whether the result is valid is for
// Validate.
func Merge(theirs, ours *Rule, fromOurs []string) (Rule, error) {
	out, err := members(theirs)
	if err != nil {
		return Rule{}, err
	}
	from, err := members(ours)
	if err != nil {
		return Rule{}, err
	}
	known := make(map[string]bool, len(fields))
	for i := range fields {
		known[fields[i].name] = true
	}
	for _, name := range fromOurs {
		if !known[name] {
			return Rule{}, fmt.Errorf("a rule has no field %.40q", name)
		}
		out[name] = from[name]
	}
	text, err := json.Marshal(out)
	if err != nil {
		return Rule{}, err
	}
	var r Rule
	err = json.Unmarshal(text, &r)
	return r, err
}

// members are a rule's JSON members.
func members(r *Rule) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var m map[string]json.RawMessage
	err = json.Unmarshal(text, &m)
	return m, err
}
