package pages

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// document is what the reference needs of openapi.yaml.
type document struct {
	Info struct {
		Description string `yaml:"description"`
	} `yaml:"info"`
	Tags []struct {
		Name        string `yaml:"name"`
		Description string `yaml:"description"`
	} `yaml:"tags"`
	Paths      ordered[pathItem] `yaml:"paths"`
	Components components        `yaml:"components"`
}

type components struct {
	SecuritySchemes ordered[secured]   `yaml:"securitySchemes"`
	Parameters      ordered[parameter] `yaml:"parameters"`
	Headers         ordered[header]    `yaml:"headers"`
	RequestBodies   ordered[body]      `yaml:"requestBodies"`
	Responses       ordered[response]  `yaml:"responses"`
	Schemas         ordered[*schema]   `yaml:"schemas"`
}

type secured struct {
	Description string `yaml:"description"`
	Scheme      string `yaml:"scheme"`
	In          string `yaml:"in"`
	Name        string `yaml:"name"`
}

type pathItem struct {
	Parameters []parameter `yaml:"parameters"`
	Get        *operation  `yaml:"get"`
	Post       *operation  `yaml:"post"`
	Put        *operation  `yaml:"put"`
	Patch      *operation  `yaml:"patch"`
	Delete     *operation  `yaml:"delete"`
}

type operation struct {
	ID          string               `yaml:"operationId"`
	Summary     string               `yaml:"summary"`
	Description string               `yaml:"description"`
	Tags        []string             `yaml:"tags"`
	Security    *[]ordered[[]string] `yaml:"security"`
	Parameters  []parameter          `yaml:"parameters"`
	RequestBody *body                `yaml:"requestBody"`
	Responses   ordered[response]    `yaml:"responses"`
}

type parameter struct {
	Ref         string  `yaml:"$ref"`
	Name        string  `yaml:"name"`
	In          string  `yaml:"in"`
	Description string  `yaml:"description"`
	Required    bool    `yaml:"required"`
	Schema      *schema `yaml:"schema"`
}

type header struct {
	Ref         string  `yaml:"$ref"`
	Description string  `yaml:"description"`
	Schema      *schema `yaml:"schema"`
}

type body struct {
	Ref         string         `yaml:"$ref"`
	Description string         `yaml:"description"`
	Content     ordered[media] `yaml:"content"`
}

type response struct {
	Ref         string          `yaml:"$ref"`
	Description string          `yaml:"description"`
	Headers     ordered[header] `yaml:"headers"`
	Content     ordered[media]  `yaml:"content"`
}

type media struct {
	Schema   *schema          `yaml:"schema"`
	Example  yaml.Node        `yaml:"example"`
	Examples ordered[example] `yaml:"examples"`
}

type example struct {
	Summary string    `yaml:"summary"`
	Value   yaml.Node `yaml:"value"`
}

type schema struct {
	Ref         string           `yaml:"$ref"`
	Type        string           `yaml:"type"`
	Format      string           `yaml:"format"`
	Description string           `yaml:"description"`
	Properties  ordered[*schema] `yaml:"properties"`
	Required    []string         `yaml:"required"`
	Items       *schema          `yaml:"items"`
	// Extra are the values of a map; nil if the schema says only whether others are allowed.
	Extra     extra     `yaml:"additionalProperties"`
	OneOf     []*schema `yaml:"oneOf"`
	AllOf     []*schema `yaml:"allOf"`
	Enum      []any     `yaml:"enum"`
	Known     []string  `yaml:"x-extensible-enum"`
	Nullable  bool      `yaml:"nullable"`
	ReadOnly  bool      `yaml:"readOnly"`
	Pattern   string    `yaml:"pattern"`
	Minimum   *int64    `yaml:"minimum"`
	Maximum   *int64    `yaml:"maximum"`
	MinLength *int64    `yaml:"minLength"`
	MaxLength *int64    `yaml:"maxLength"`
	MinItems  *int64    `yaml:"minItems"`
	MaxItems  *int64    `yaml:"maxItems"`
	Default   yaml.Node `yaml:"default"`
	Example   yaml.Node `yaml:"example"`
}

// extra is the value of additionalProperties: a schema, or a truth value, which says nothing about values.
type extra struct{ *schema }

// UnmarshalYAML implements yaml.Unmarshaler.
func (e *extra) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		return nil
	}
	return n.Decode(&e.schema)
}

// named is a member of a mapping.
type named[T any] struct {
	Name  string
	Value T
}

// ordered is a mapping in the order of the document.
type ordered[T any] []named[T]

// UnmarshalYAML implements yaml.Unmarshaler.
func (o *ordered[T]) UnmarshalYAML(n *yaml.Node) error {
	if n = followed(n); n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d of openapi.yaml: a mapping is missing", n.Line)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		one := named[T]{Name: n.Content[i].Value}
		if err := n.Content[i+1].Decode(&one.Value); err != nil {
			return err
		}
		*o = append(*o, one)
	}
	return nil
}

// find returns the member of a name, or the zero value.
func (o ordered[T]) find(name string) (value T) {
	for i := range o {
		if o[i].Name == name {
			return o[i].Value
		}
	}
	return value
}

// followed is the node that an alias stands for, or the node.
func followed(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// refName is the last segment of a reference.
func refName(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// asJSON writes a value as JSON, with members in the order of the document; "" if there is none.
func asJSON(n *yaml.Node, indent string) string {
	n = followed(n)
	open, end, values := "{", "}", n.Content
	switch n.Kind {
	case 0:
		return ""
	case yaml.ScalarNode:
		switch n.Tag {
		case "!!int", "!!float", "!!bool", "!!null":
			return n.Value
		}
		return quoted(n.Value)
	case yaml.SequenceNode:
		open, end = "[", "]"
	}
	var parts []string
	for i := 0; i < len(values); i++ {
		part := ""
		if n.Kind == yaml.MappingNode {
			part = quoted(values[i].Value) + ": "
			i++
		}
		parts = append(parts, indent+"  "+part+asJSON(values[i], indent+"  "))
	}
	if len(parts) == 0 {
		return open + end
	}
	return open + "\n" + strings.Join(parts, ",\n") + "\n" + indent + end
}

func quoted(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string has always a form in JSON
	return strings.TrimSuffix(b.String(), "\n")
}
