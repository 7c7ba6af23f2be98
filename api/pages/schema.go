package pages

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// row is a member of an object in the reference.
type row struct {
	// Name is its path from the object, such as limits[].rule.
	Name     string
	Required bool
	Type     []typeWord
	// Bounds say which values are allowed, such as "1 to 100".
	Bounds      []string
	Description string
}

// typeWord is a part of the words for a type. Schema is the name of a schema that the reference has, "" for words.
type typeWord struct{ Text, Schema string }

// object is a schema of the reference.
type object struct {
	Name, Description string
	Type              []typeWord
	Bounds            []string
	Rows              []row
	Example           string
}

// resolve follows a reference to another schema. Its description is the one beside the reference, if there is one.
func (d *document) resolve(s *schema) *schema {
	if s.Ref == "" {
		return s
	}
	target := d.Components.Schemas.find(refName(s.Ref))
	if target == nil {
		return &schema{} // a test holds the document to its schema
	}
	return d.resolve(target)
}

// shown reports whether a schema is better read where it is used than behind a link: it has no members.
func (d *document) shown(s *schema) bool {
	s = d.resolve(s)
	return len(s.Properties) == 0 && len(s.OneOf) == 0 && len(s.AllOf) == 0
}

// typeOf are the words for the type of a schema.
func (d *document) typeOf(s *schema) []typeWord {
	if s.Ref != "" && !d.shown(s) {
		name := refName(s.Ref)
		return []typeWord{{name, name}}
	}
	s = d.resolve(s)
	switch {
	case len(s.OneOf) > 0:
		var out []typeWord
		for i, one := range s.OneOf {
			if i > 0 {
				out = append(out, typeWord{Text: " or "})
			}
			out = append(out, d.typeOf(one)...)
		}
		return out
	case len(s.AllOf) > 0:
		return d.typeOf(s.AllOf[0])
	case s.Items != nil:
		return append([]typeWord{{Text: "array of "}}, d.typeOf(s.Items)...)
	case s.Extra.schema != nil && len(s.Properties) == 0:
		return append([]typeWord{{Text: "map of "}}, d.typeOf(s.Extra.schema)...)
	case s.Format == "date-time":
		return []typeWord{{Text: "time (RFC 3339)"}}
	}
	return []typeWord{{Text: s.Type}}
}

// bounds say which values a schema allows.
func (d *document) bounds(s *schema) (out []string) {
	s = d.resolve(s)
	out = append(out, between(s.Minimum, s.Maximum, "")...)
	out = append(out, between(s.MinLength, s.MaxLength, " bytes")...)
	out = append(out, between(s.MinItems, s.MaxItems, " entries")...)
	if list := enumWords(s); list != "" {
		out = append(out, list)
	}
	if s.Pattern != "" {
		out = append(out, "pattern `"+s.Pattern+"`")
	}
	if s.Default.Kind != 0 {
		out = append(out, "default "+asJSON(&s.Default, ""))
	}
	if s.Nullable {
		out = append(out, "may be null")
	}
	if s.ReadOnly {
		out = append(out, "only in responses")
	}
	return out
}

// enumWords lists the values of a schema, "" if it does not list them.
func enumWords(s *schema) string {
	var list []string
	for _, one := range s.Enum {
		if one != nil {
			list = append(list, fmt.Sprint(one))
		}
	}
	switch {
	case len(list) > 0:
		return "one of `" + strings.Join(list, "`, `") + "`"
	case len(s.Known) > 0:
		return "`" + strings.Join(s.Known, "`, `") + "`; later versions may add others"
	}
	return ""
}

// between says in which range a number is.
func between(least, most *int64, unit string) []string {
	digits := func(n *int64) string { return strconv.FormatInt(*n, 10) }
	switch {
	case least != nil && most != nil:
		return []string{digits(least) + " to " + digits(most) + unit}
	case most != nil:
		return []string{"at most " + digits(most) + unit}
	case least != nil:
		return []string{"at least " + digits(least) + unit}
	}
	return nil
}

// rows are the members of a schema. Members of objects that have no name of their own follow their object.
func (d *document) rows(s *schema, prefix string) (out []row) {
	s = d.resolve(s)
	for _, part := range s.AllOf {
		out = append(out, d.rows(part, prefix)...)
	}
	for _, p := range s.Properties {
		one := row{Name: prefix + p.Name, Required: slices.Contains(s.Required, p.Name), Type: d.typeOf(p.Value),
			Bounds: d.bounds(p.Value), Description: d.describe(p.Value)}
		out = append(out, one)
		out = append(out, d.inner(p.Value, one.Name)...)
	}
	return out
}

// inner are the rows of an object without a name, of the objects in such a list, or of a map's values.
func (d *document) inner(s *schema, name string) []row {
	switch {
	case s.Ref != "" && !d.shown(s):
		return nil
	case s.Ref != "":
		s = d.resolve(s)
	}
	switch {
	case s.Items != nil:
		return d.inner(s.Items, name+"[]")
	case s.Extra.schema != nil && len(s.Properties) == 0:
		return d.inner(s.Extra.schema, name+".*")
	case s.Ref == "" && len(s.Properties) > 0:
		return d.rows(s, name+".")
	}
	return nil
}

// describe is the description of a member, or that of its schema.
func (d *document) describe(s *schema) string {
	if s.Description != "" || !d.shown(s) {
		return s.Description
	}
	s = d.resolve(s)
	if s.Description == "" && s.Items != nil {
		return d.describe(s.Items)
	}
	return s.Description
}

// object returns a schema as the reference shows it.
func (d *document) object(name string, s *schema) object {
	rows := d.rows(s, "")
	if len(s.Properties) == 0 {
		rows = append(rows, d.inner(s, "")...)
	}
	return object{Name: name, Description: s.Description, Type: d.typeOf(s), Bounds: d.bounds(s), Rows: rows,
		Example: asJSON(&s.Example, "")}
}
