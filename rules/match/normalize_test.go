package match

import (
	"testing"

	"sluice/rules"
)

func TestNormalize_StarIsEveryMethod(t *testing.T) {
	star := "*"
	r := rules.Rule{ID: 1, Name: "all", Scope: "global", Method: &star, Limit: 1, WindowMS: 1000, IsActive: true}
	set, err := Compile([]rules.Rule{r}, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"GET", "POST", ""} {
		if got := set.Match(&Descriptor{Method: method}, 1, noon, nil); len(got) != 1 {
			t.Errorf("method %q: %d rules apply, want 1", method, len(got))
		}
	}
}
