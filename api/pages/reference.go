package pages

import (
	"fmt"
	"sync"

	"go.yaml.in/yaml/v4"

	"sluice"
)

// SchemasName is the name of the page of all schemas.
const SchemasName = "schemas"

// Reference returns the pages of the reference by their names: "" is its first page, each tag of openapi.yaml has one,
// and SchemasName lists the schemas. It is safe for concurrent use.
var Reference = sync.OnceValues(func() (map[string][]byte, error) { return reference(sluice.OpenAPI) })

// call is an operation as the reference shows it.
type call struct {
	ID, Method, Path, Summary, Description string
	// Public means that no credential is needed, Optional that there are cases without one.
	Public, Optional bool
	Parameters       []row
	Body             []content
	BodyDescription  string
	Responses        []outcome
}

// content is a body of one media type.
type content struct {
	Media string
	object
	// Variants are the schemas of which a body has one.
	Variants []object
	Examples []sample
}

type sample struct{ Summary, JSON string }

type outcome struct {
	Status, Description string
	Headers             []row
	Contents            []content
}

// group are the operations of a tag.
type group struct {
	Name, Description string
	Calls             []call
}

// page is the data of the templates.
type page struct {
	Here    string
	Groups  []group
	This    *group
	Intro   string
	Schemes []named[secured]
	Schemas []object
}

// reference renders an OpenAPI document.
func reference(text []byte) (map[string][]byte, error) {
	var d document
	if err := yaml.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	p := page{Intro: d.Info.Description, Schemes: d.Components.SecuritySchemes}
	for _, tag := range d.Tags {
		p.Groups = append(p.Groups, group{tag.Name, tag.Description, d.calls(tag.Name)})
	}
	for _, s := range d.Components.Schemas {
		p.Schemas = append(p.Schemas, d.object(s.Name, s.Value))
	}
	pages := map[string][]byte{}
	write := func(name, template string) (err error) {
		p.Here = name
		pages[name], err = render(template, &p)
		return err
	}
	if err := write("", "reference.html"); err != nil {
		return nil, err
	}
	if err := write(SchemasName, "schemas.html"); err != nil {
		return nil, err
	}
	for i := range p.Groups {
		p.This = &p.Groups[i]
		if err := write(p.This.Name, "operations.html"); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

// calls are the operations whose first tag is tag, in the order of the document.
func (d *document) calls(tag string) (out []call) {
	for _, path := range d.Paths {
		item := path.Value
		for _, m := range []named[*operation]{{"GET", item.Get}, {"POST", item.Post}, {"PUT", item.Put},
			{"PATCH", item.Patch}, {"DELETE", item.Delete}} {
			if op := m.Value; op != nil && len(op.Tags) > 0 && op.Tags[0] == tag {
				out = append(out, d.call(m.Name, path.Name, &item, op))
			}
		}
	}
	return out
}

func (d *document) call(method, path string, item *pathItem, op *operation) call {
	c := call{ID: op.ID, Method: method, Path: path, Summary: op.Summary, Description: op.Description}
	if op.Security != nil {
		c.Public = len(*op.Security) == 0
		for _, one := range *op.Security {
			c.Optional = c.Optional || len(one) == 0
		}
	}
	for _, list := range [][]parameter{item.Parameters, op.Parameters} {
		for i := range list {
			c.Parameters = append(c.Parameters, d.parameter(&list[i]))
		}
	}
	if op.RequestBody != nil {
		b := *op.RequestBody
		if b.Ref != "" {
			b = d.Components.RequestBodies.find(refName(b.Ref))
		}
		c.BodyDescription = b.Description
		c.Body = d.contents(b.Content, true)
	}
	for _, r := range op.Responses {
		c.Responses = append(c.Responses, d.outcome(r.Name, r.Value))
	}
	return c
}

func (d *document) parameter(p *parameter) row {
	if p.Ref != "" {
		target := d.Components.Parameters.find(refName(p.Ref))
		p = &target
	}
	r := row{Name: p.Name, Required: p.Required, Description: p.Description, Bounds: []string{"in the " + p.In}}
	if p.Schema != nil {
		r.Type, r.Bounds = d.typeOf(p.Schema), append(r.Bounds, d.bounds(p.Schema)...)
	}
	return r
}

// contents are bodies. The members of a named schema are shown if all is set; else its name leads to them.
func (d *document) contents(list ordered[media], all bool) (out []content) {
	for _, m := range list {
		c := content{Media: m.Name}
		if s := m.Value.Schema; s != nil {
			if all || s.Ref == "" {
				c.object = d.object("", d.resolve(s))
			}
			c.Type = d.typeOf(s)
			if all {
				c.Variants = d.variants(s)
			}
		}
		if text := asJSON(&m.Value.Example, ""); text != "" {
			c.Examples = append(c.Examples, sample{"Example", text})
		}
		for _, e := range m.Value.Examples {
			c.Examples = append(c.Examples, sample{e.Value.Summary, asJSON(&e.Value.Value, "")})
		}
		out = append(out, c)
	}
	return out
}

// variants are the named schemas of which a schema is one.
func (d *document) variants(s *schema) (out []object) {
	for _, one := range d.resolve(s).OneOf {
		if one.Ref != "" {
			out = append(out, d.object(refName(one.Ref), d.resolve(one)))
		}
	}
	return out
}

func (d *document) outcome(status string, r response) outcome {
	if r.Ref != "" {
		r = d.Components.Responses.find(refName(r.Ref))
	}
	out := outcome{Status: status, Description: r.Description, Contents: d.contents(r.Content, false)}
	for _, h := range r.Headers {
		value := h.Value
		if value.Ref != "" {
			value = d.Components.Headers.find(refName(value.Ref))
		}
		one := row{Name: h.Name, Description: value.Description}
		if value.Schema != nil {
			one.Type, one.Bounds = d.typeOf(value.Schema), d.bounds(value.Schema)
		}
		out.Headers = append(out.Headers, one)
	}
	return out
}
