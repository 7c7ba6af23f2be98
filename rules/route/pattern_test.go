package route

import "testing"

func TestPattern_Matches(t *testing.T) {
	for pattern, paths := range map[string]map[string]bool{
		"/":              {"/": true, "/v1": false, "": false},
		"/*":             {"/": true, "/v1": true, "": false},
		"/v1/users":      {"/v1/users": true, "/v1": false, "/v1/users/42": false},
		"/v1/users/{id}": {"/v1/users/42": true, "/v1/users": false, "/v1/users/42/cards": false},
		"/v1/{id}/*":     {"/v1/42": true, "/v1/42/a/b": true, "/v1": false},
	} {
		p, err := Parse(pattern)
		if err != nil {
			t.Fatalf("%s: %v", pattern, err)
		}
		for path, want := range paths {
			if p.Matches(path) != want {
				t.Errorf("%s and %q: want %v", pattern, path, want)
			}
		}
	}
}

func TestParse_RefusesWhatNoRequestHas(t *testing.T) {
	for _, pattern := range []string{"", "v1", "/v1/", "/v1//a", "/v1/../a", "/v1/*/a", "/v1/a{id}", "/v1/{a b}", "/v1?q",
		"/v1/\n", "/%61"} {
		if p, err := Parse(pattern); err == nil {
			t.Errorf("%q was read as %+v", pattern, p)
		}
	}
}
