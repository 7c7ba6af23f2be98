package match

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/rules"
)

func TestForRoute_ListsTheRulesThatMatchApplies(t *testing.T) {
	routes := []*string{nil, new("/"), new("/v1/charges"), new("/v1/*"), new("/v1/{what}"), new("/v2/charges")}
	methods := []*string{nil, new("POST"), new("GET")}
	var list []rules.Rule
	for i, r := range routes {
		for j, m := range methods {
			rule := rules.Rule{ID: int64(len(list) + 1), Name: fmt.Sprintf("r%d-%d", i, j), Scope: "global", Route: r, Method: m,
				Limit: 1, WindowMS: 1000, IsActive: true, Version: 1}
			rule.Normalize()
			list = append(list, rule)
		}
	}
	set, err := Compile(list, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"/", "/v1/charges", "/v1//charges/", "/v1/charges/7", "/v1", "/V1/charges", "/v3", "", "no"}
	for _, path := range paths {
		for _, method := range []string{"POST", "post", "GET", "DELETE"} {
			var got, want []int64
			for _, c := range set.ForRoute(method, path) {
				got = append(got, c.Rule.ID)
			}
			for _, m := range set.Match(&Descriptor{Method: method, Route: path}, 1, time.Unix(1e9, 0), nil) {
				want = append(want, m.Rule.Rule.ID)
			}
			if !slices.Equal(got, want) || len(want) == 0 {
				t.Errorf("%s %s: got %v, want %v", method, path, got, want)
			}
		}
	}
}
