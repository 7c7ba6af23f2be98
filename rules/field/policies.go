package field

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// MarshalPolicies encodes the policy fields of an object as a JSON object, without defaults. Equal policies give equal
// text.
func MarshalPolicies[T any](fields []Field[T], t *T) ([]byte, error) {
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

// UnmarshalPolicies sets the policy fields of an object from the output of MarshalPolicies. Text that was damaged by
// hand is an error; every unreadable member then gets a value that validation refuses (Field.Damaged). unknown is a
// member that the table does not have.
func UnmarshalPolicies[T any](fields []Field[T], t *T, text []byte) (unknown string, err error) {
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
		f.Reset(t)
		member, given := members[f.Name]
		delete(members, f.Name)
		switch {
		case whole != nil:
			f.damage(t)
		case given:
			if err := json.Unmarshal(member, at); err != nil {
				f.damage(t)
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

// DamagedText is what an unreadable text becomes.
const DamagedText = "?"

// damage sets a policy field to a value that validation refuses, even after Normalize.
func (f *Field[T]) damage(t *T) {
	if f.Damaged != nil {
		v := reflect.ValueOf(f.At(t)).Elem()
		v.Set(reflect.ValueOf(f.Damaged))
		Detach(v)
		return
	}
	switch at := f.At(t).(type) {
	case *string:
		*at = DamagedText
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
	case *map[string]string:
		*at = map[string]string{"": ""}
	case *[]int64:
		*at = []int64{-1}
	case *[]string:
		*at = []string{"?"}
	default: // a pointer to an object, which lacks what it must have
		v := reflect.ValueOf(at).Elem()
		v.Set(reflect.New(v.Type().Elem()))
	}
}
