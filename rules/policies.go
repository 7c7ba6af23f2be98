package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// MarshalPolicies encodes the policies of a rule as a JSON object, without defaults. Equal
// policies give equal text.
func (r *Rule) MarshalPolicies() ([]byte, error) { return marshalPolicies(ruleFields, r) }

func marshalPolicies[T any](fields []Field[T], t *T) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	sign := byte('{')
	for i := range fields {
		f := &fields[i]
		if !f.Policy || f.IsDefault(t) {
			continue
		}
		b.WriteByte(sign)
		sign = ','
		b.WriteString(`"` + f.Name + `":`)
		if err := e.Encode(f.Value(t)); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		b.Truncate(b.Len() - 1) // the encoder ends with a line break
	}
	if sign == '{' {
		b.WriteByte(sign)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalPolicies sets the policies of a rule from the output of MarshalPolicies. Text that was damaged by hand is an
// error; every unreadable member then gets a value that validation refuses, so that the rule is listed but never takes
// effect without that policy. A member that this version does not know becomes Rule.Unknown, which validation refuses
// too.
func (r *Rule) UnmarshalPolicies(text []byte) error {
	unknown, err := unmarshalPolicies(ruleFields, r, text)
	r.Unknown = unknown
	if err != nil && r.Descriptor != nil {
		r.Descriptor = &RuleDescriptor{} // because validation refuses neither value of a damaged flag
	}
	return err
}

func unmarshalPolicies[T any](fields []Field[T], t *T, text []byte) (unknown string, err error) {
	var members map[string]json.RawMessage
	var whole error
	if string(text) != "{}" {
		if whole = json.Unmarshal(text, &members); whole == nil && members == nil {
			whole = errors.New("not an object")
		}
	}
	errs := []error{whole}
	for i := range fields {
		f := &fields[i]
		if !f.Policy {
			continue
		}
		at := f.At(t)
		f.reset(t)
		member, given := members[f.Name]
		delete(members, f.Name)
		switch {
		case whole != nil:
			damage(at)
		case given:
			if err := json.Unmarshal(member, at); err != nil {
				damage(at)
				errs = append(errs, fmt.Errorf("%s: %w", f.Name, err))
			}
		}
		if p, ok := at.(**time.Time); ok {
			*p = wholeMillis(*p)
		}
	}
	for name := range members {
		if unknown == "" || name < unknown {
			unknown = name
		}
	}
	return unknown, errors.Join(errs...)
}

const damagedText = "?"

// damage sets a policy field to a value that validation refuses, even after Normalize.
func damage(at any) {
	switch at := at.(type) {
	case *string:
		*at = damagedText
	case *bool:
		*at = true
	case **string:
		*at = new("{") // no valid name, condition or message
	case **int64:
		*at = new(int64)
		**at = -1
	case **time.Time:
		yearZero := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
		*at = &yearZero
	case *map[string]TierLimit:
		*at = map[string]TierLimit{"": {}}
	case **Schedule:
		*at = &Schedule{}
	case **Calendar:
		*at = &Calendar{}
	case **Defer:
		*at = &Defer{MaxItems: -1}
	case **Candidate:
		*at = &Candidate{}
	case **Ban:
		*at = &Ban{}
	case **RuleDescriptor:
		*at = &RuleDescriptor{}
	case *map[string]string:
		*at = map[string]string{"": ""}
	case *[]int64:
		*at = []int64{-1}
	case *[]string:
		*at = []string{"?"}
	case **WeightSource:
		*at = &WeightSource{Header: "?"}
	case *ProfileFacts:
		at.User = []FactSource{{}}
	case *ClientIP:
		at.Trusted = []string{"?"}
	case *Proof:
		at.Networks = []string{"?"}
	case *map[string]MissingFact:
		*at = map[string]MissingFact{"?": {}}
	}
}
