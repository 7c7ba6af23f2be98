package client

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"sluice"
)

// members are the names that a struct has in JSON.
func members(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && name == "":
			names = append(names, members(inner)...)
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Every member that openapi.yaml describes has its place here, and no other.
func TestTypes_HaveTheMembersOfTheDocument(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(sluice.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	schema := func(name string) *openapi3.Schema { return doc.Components.Schemas[name].Value }
	rule := schema("ConsideredRule")
	for _, tt := range []struct {
		of      any
		schemas []*openapi3.Schema
		but     string // members that are arguments of methods, or of calls that the client does not make
		also    string // members that only another call has
	}{
		{of: Check{}, also: "on_expire",
			schemas: []*openapi3.Schema{schema("DirectCheck"), schema("LimitsCheck"), schema("RequestCheck")}},
		{of: DirectLimit{}, schemas: []*openapi3.Schema{schema("DirectLimit")}},
		{of: Check{}, but: "ttl_ms times least",
			schemas: []*openapi3.Schema{schema("DirectReserve"), schema("LimitsReserve"), schema("RequestCheck"),
				schema("RequestReserve")}},
		{of: lease{}, schemas: []*openapi3.Schema{schema("LeaseToken")}},
		{of: Settlement{}, schemas: []*openapi3.Schema{schema("Settlement")}},
		{of: CallerDecisions{}, schemas: []*openapi3.Schema{schema("CallerDecisions")}},
		{of: Answer{}, schemas: []*openapi3.Schema{schema("Answer")}},
		{of: LimitAnswer{}, schemas: []*openapi3.Schema{schema("LimitAnswer")}},
		{of: denial{}, schemas: []*openapi3.Schema{schema("Denial")}},
		{of: Problem{}, schemas: []*openapi3.Schema{schema("Problem")}},
		{of: Explanation{}, but: "domain descriptors", schemas: []*openapi3.Schema{schema("Explanation")}},
		{of: ConsideredRule{}, schemas: []*openapi3.Schema{rule}},
		{of: Bucket{}, schemas: []*openapi3.Schema{schema("BucketFigures")}},
		{of: UsedOverride{}, schemas: []*openapi3.Schema{rule.Properties["override"].Value}},
		{of: UsedPool{}, schemas: []*openapi3.Schema{rule.Properties["pool"].Value}},
		{of: PoolLoad{}, schemas: []*openapi3.Schema{schema("PoolLoad")}},
	} {
		described := map[string]bool{}
		for _, s := range tt.schemas {
			for name := range s.Properties {
				described[name] = !slices.Contains(strings.Fields(tt.but), name)
			}
		}
		for _, name := range strings.Fields(tt.also) {
			described[name] = true
		}
		maps.DeleteFunc(described, func(_ string, is bool) bool { return !is })
		if d := cmp.Diff(slices.Sorted(maps.Keys(described)), members(reflect.TypeOf(tt.of))); d != "" {
			t.Errorf("%T (-openapi.yaml +Go):\n%s", tt.of, d)
		}
	}
}
