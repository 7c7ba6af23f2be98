package api

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"sluice"
	"sluice/rules/profile"
)

// The tests of this file keep openapi.yaml readable for generators of clients. docs/clients.md says what each
// generator makes of it.

var committed = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromData(sluice.OpenAPI)
})

func loadCommitted(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := committed()
	if err != nil {
		t.Fatalf("openapi.yaml: %v", err)
	}
	return doc
}

// walk visits a schema and all that it is made of, each component once.
func walk(path string, ref *openapi3.SchemaRef, seen map[string]bool,
	visit func(path string, ref *openapi3.SchemaRef)) {
	if ref == nil || seen[ref.Ref] {
		return
	}
	if ref.Ref != "" {
		seen[ref.Ref] = true
		path = ref.Ref[strings.LastIndex(ref.Ref, "/")+1:]
	}
	visit(path, ref)
	s := ref.Value
	for name, p := range s.Properties {
		walk(path+"."+name, p, seen, visit)
	}
	walk(path+"[]", s.Items, seen, visit)
	walk(path+"{}", s.AdditionalProperties.Schema, seen, visit)
	for _, alternatives := range []openapi3.SchemaRefs{s.OneOf, s.AnyOf, s.AllOf} {
		for i, a := range alternatives {
			walk(fmt.Sprintf("%s|%d", path, i), a, seen, visit)
		}
	}
}

// bodies are the schemas of requests or of answers, by operation and media type.
func bodies(doc *openapi3.T, answers bool) map[string]*openapi3.SchemaRef {
	found := map[string]*openapi3.SchemaRef{}
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			if answers {
				for status, r := range op.Responses.Map() {
					for media, m := range r.Value.Content {
						found[op.OperationID+" "+status+" "+media] = m.Schema
					}
				}
			} else if op.RequestBody != nil {
				for media, m := range op.RequestBody.Value.Content {
					found[op.OperationID+" "+media] = m.Schema
				}
			}
		}
	}
	return found
}

func walkBodies(doc *openapi3.T, answers bool, visit func(path string, ref *openapi3.SchemaRef)) {
	seen := map[string]bool{}
	for path, ref := range bodies(doc, answers) {
		walk(path, ref, seen, visit)
	}
}

func walkAll(doc *openapi3.T, visit func(path string, ref *openapi3.SchemaRef)) {
	walkBodies(doc, false, visit)
	walkBodies(doc, true, visit)
}

// Generated clients send the default of a member that the caller leaves out. In a patch that resets what the
// caller does not name.
func TestGenerators_NoDefaultInBodies(t *testing.T) {
	walkAll(loadCommitted(t), func(path string, ref *openapi3.SchemaRef) {
		if ref.Value.Default != nil {
			t.Errorf("%s has the default %v: write it into the description", path, ref.Value.Default)
		}
	})
}

func TestGenerators_APatchHasTheMembersThatCanBeWritten(t *testing.T) {
	schemas := loadCommitted(t).Components.Schemas
	var want []string
	for name, p := range schemas["RuleInput"].Value.Properties {
		if !p.Value.ReadOnly {
			want = append(want, name)
		}
	}
	patch := schemas["RulePatch"].Value
	got := slices.Sorted(maps.Keys(patch.Properties))
	slices.Sort(want)
	if !slices.Equal(got, want) || len(patch.Required) > 0 {
		t.Errorf("RulePatch has %v and requires %v, want %v and nothing", got, patch.Required, want)
	}
}

// Generated clients select an alternative by luck, or refuse the answer.
func TestGenerators_NoAlternativesInAnswers(t *testing.T) {
	walkBodies(loadCommitted(t), true, func(path string, ref *openapi3.SchemaRef) {
		if s := ref.Value; len(s.OneOf) > 0 || len(s.AnyOf) > 0 || len(s.AllOf) > 1 || s.Not != nil {
			t.Errorf("%s has alternatives", path)
		}
	})
}

// Some generators try alternatives in the order of their names. One that requires nothing fits everything.
func TestGenerators_TheAlternativeWithoutRequiredMembersSortsLast(t *testing.T) {
	walkBodies(loadCommitted(t), false, func(path string, ref *openapi3.SchemaRef) {
		var names []string
		for i, a := range ref.Value.OneOf {
			if a.Ref == "" {
				continue
			}
			names = append(names, a.Ref)
			if a.Value.Type.Is("object") && len(a.Value.Required) == 0 && i < len(ref.Value.OneOf)-1 {
				t.Errorf("%s: %s requires nothing and is not the last", path, a.Ref)
			}
		}
		if !slices.IsSorted(names) {
			t.Errorf("%s: the alternatives %v are not sorted", path, names)
		}
	})
}

// An object without a name of its own gets one like InlineObject17, which changes with the document.
func TestGenerators_NoObjectWithoutAName(t *testing.T) {
	walkAll(loadCommitted(t), func(path string, ref *openapi3.SchemaRef) {
		if s := ref.Value; ref.Ref == "" && (len(s.Properties) > 0 || len(s.Required) > 0) {
			t.Errorf("%s is an object without a name", path)
		}
	})
	for _, answers := range []bool{false, true} {
		for path, ref := range bodies(loadCommitted(t), answers) {
			if len(ref.Value.OneOf) > 0 && ref.Ref == "" {
				t.Errorf("%s has alternatives without a name", path)
			}
		}
	}
}

func closed(s *openapi3.Schema) bool {
	return s.AdditionalProperties.Has != nil && !*s.AdditionalProperties.Has
}

// Readers accept new members, so that servers of two versions can run beside each other. What a caller sends
// is read strictly.
func TestGenerators_AnswersAreOpenAndRequestsAreStrict(t *testing.T) {
	doc := loadCommitted(t)
	walkBodies(doc, true, func(path string, ref *openapi3.SchemaRef) {
		if closed(ref.Value) {
			t.Errorf("%s is part of an answer and does not accept new members", path)
		}
	})
	walkBodies(doc, false, func(path string, ref *openapi3.SchemaRef) {
		if len(ref.Value.Properties) > 0 && !closed(ref.Value) {
			t.Errorf("%s is part of a request and does not refuse unknown members", path)
		}
	})
}

func TestGenerators_EachPropertyHasADescription(t *testing.T) {
	walkAll(loadCommitted(t), func(path string, ref *openapi3.SchemaRef) {
		if ref.Ref != "" && ref.Value.Description == "" {
			t.Errorf("the schema %s has no description", path)
		}
		for name, p := range ref.Value.Properties {
			if p.Value.Description == "" {
				t.Errorf("%s.%s has no description", path, name)
			}
		}
	})
}

// In OpenAPI 3.0.3 nullable changes only a type that stands beside it.
func TestGenerators_NullableOnlyBesideAType(t *testing.T) {
	walkAll(loadCommitted(t), func(path string, ref *openapi3.SchemaRef) {
		if ref.Value.Nullable && ref.Value.Type == nil {
			t.Errorf("%s is nullable without a type", path)
		}
		for _, part := range ref.Value.AllOf {
			if ref.Value.Nullable && !part.Value.Nullable {
				t.Errorf("%s is nullable, but allOf has a part that is not, so null is not valid", path)
			}
		}
	})
}

// Generators give bytes the type of a file, which has no length.
func TestGenerators_NoLengthOfBytes(t *testing.T) {
	walkAll(loadCommitted(t), func(path string, ref *openapi3.SchemaRef) {
		if s := ref.Value; s.Format == "binary" && (s.MaxLength != nil || s.MinLength > 0) {
			t.Errorf("%s has a length", path)
		}
	})
}

func TestGenerators_EachOperationIsDescribed(t *testing.T) {
	doc := loadCommitted(t)
	described := func(where, text string) {
		if text == "" {
			t.Errorf("%s has no description", where)
		}
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			at := method + " " + path
			described(at, op.Description)
			for _, p := range slices.Concat(item.Parameters, op.Parameters) {
				described(at+": the parameter "+p.Value.Name, p.Value.Description)
			}
			for status, r := range op.Responses.Map() {
				for name, h := range r.Value.Headers {
					described(at+": the header "+name+" of "+status, h.Value.Description)
				}
			}
		}
	}
}

func TestGenerators_EachOperationHasAnExampleAnswer(t *testing.T) {
	for path, item := range loadCommitted(t).Paths.Map() {
		for method, op := range item.Operations() {
			for status, r := range op.Responses.Map() {
				if !strings.HasPrefix(status, "2") {
					continue
				}
				for media, m := range r.Value.Content {
					if m.Example == nil && len(m.Examples) == 0 && m.Schema.Value.Format != "binary" {
						t.Errorf("%s %s: the answer %s in %s has no example", method, path, status, media)
					}
				}
			}
		}
	}
}

// What a caller passes on to its client is marked, for those who read the document and not the pages.
func TestGenerators_WhatGoesToTheClientIsMarked(t *testing.T) {
	doc := loadCommitted(t)
	schemas := doc.Components.Schemas
	answer, rls := schemas["Answer"].Value.Properties, schemas["RateLimitResponse"].Value.Properties
	for name, s := range map[string]*openapi3.Schema{
		"Answer.headers": answer["headers"].Value, "Answer.body": answer["body"].Value,
		"Denial": schemas["Denial"].Value, "GatewayRefusal": schemas["GatewayRefusal"].Value,
		"RateLimitResponse.responseHeadersToAdd": rls["responseHeadersToAdd"].Value,
		"RateLimitResponse.rawBody":              rls["rawBody"].Value,
	} {
		if s.Extensions["x-for-client"] != true {
			t.Errorf("%s is not marked with x-for-client", name)
		}
		if !strings.Contains(strings.ToLower(s.Description), "client") {
			t.Errorf("the description of %s does not name the client", name)
		}
	}
	// X-RateLimit-Delay-Ms is for the gateway, X-RateLimit-Lease for the application.
	unmarked := []string{"X-RateLimit-Delay-Ms", "X-RateLimit-Lease"}
	for path, statuses := range map[string][]string{
		"/ratelimit/forward/{profile}":          {"200", "429", "503"},
		"/ratelimit/nginx/{profile}":            {"200", "403"},
		"/ratelimit/ext_authz/{profile}/{path}": {"200", "429", "503"},
	} {
		for _, status := range statuses {
			headers := doc.Paths.Value(path).Get.Responses.Value(status).Value.Headers
			for _, name := range profile.ClientHeaders {
				h := headers[name]
				if h == nil {
					t.Errorf("%s %s lacks the header %s", path, status, name)
				} else if marked := h.Value.Extensions["x-for-client"] == true; marked == slices.Contains(unmarked, name) {
					t.Errorf("%s %s: %s is marked with x-for-client: %v", path, status, name, marked)
				}
			}
		}
	}
}

// The operations stand in the order of the tags, which is that of generated clients and pages.
func TestGenerators_OperationsAreInTheOrderOfTheTags(t *testing.T) {
	var tags []string
	for _, tag := range loadCommitted(t).Tags {
		tags = append(tags, tag.Name)
	}
	last := 0
	for _, m := range regexp.MustCompile(`(?m)^      tags: \[(.*)\]$`).FindAllSubmatch(sluice.OpenAPI, -1) {
		at := slices.Index(tags, string(m[1]))
		if at < last {
			t.Errorf("an operation with the tag %s stands after one with %s", m[1], tags[last])
		}
		last = max(last, at)
	}
}
