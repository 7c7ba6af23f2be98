package rulefile

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
	"unicode/utf8"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
	"sluice/rules/profile"

	"github.com/google/go-cmp/cmp"
)

// FuzzValidateRule: whatever JSON makes of a rule, Normalize settles it, and
// Validate either names the fields at fault or gives a rule that compiles and
// survives a file.
func FuzzValidateRule(f *testing.F) {
	for _, s := range []string{
		`{"name":"a","scope":"user","limit":5,"window_ms":1000}`,
		`{"name":"a","scope":"ip+attr:t","route":"/v1/{id}/*","method":"post","limit":5,"window_ms":1000,"weight_field":"b"}`,
		`{"name":"a","scope":"global","algorithm":"fixed_window","align":"first_hit","limit":0,"window_ms":1}`,
		`{"name":"a","scope":"user","algorithm":"sliding_window_buckets","buckets":7,"limit":9007199254740991,"window_ms":1}`,
		`{"name":"A b","scope":"user+user","route":"//","method":"é","limit":-1,"window_ms":9223372036854775807,"burst":-1,"mode":""}`,
		`{"name":"\u0000","description":"\u202e","throttle":"soft","soft_percent":10,"fail_mode":"x"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := rules.Rule{IsActive: true}
		if json.Unmarshal(data, &r) != nil {
			return
		}
		r.Normalize()
		again := r.Clone()
		if again.Normalize(); len(rules.Diff(&r, &again)) != 0 {
			t.Fatalf("normalising twice changed %v", rules.Diff(&r, &again))
		}
		r.ID, r.IsActive = 1, true
		err := rules.Validate(&r)
		_, compileErr := match.Compile([]rules.Rule{r}, 1, match.Options{})
		if (err == nil) != (compileErr == nil) {
			t.Fatalf("validate says %v, compile %v", err, compileErr)
		}
		if err != nil {
			checkFieldErrors(t, err)
			return
		}
		text, err := Format(rules.File{Rules: []rules.Rule{r}})
		if err != nil {
			t.Fatal(err)
		}
		back, err := parseRules(text)
		if err != nil || len(back) != 1 || len(rules.Diff(&r, &back[0])) != 0 {
			t.Fatalf("came back as %+v, %v\n%s", back, err, text)
		}
	})
}

// checkFieldErrors: a refusal names fields and says something printable.
func checkFieldErrors(t *testing.T, err error) {
	var ve *field.ValidationError
	if !errors.As(err, &ve) || len(ve.Fields) == 0 {
		t.Fatalf("got %T %v, want a *ValidationError with fields", err, err)
	}
	for _, f := range ve.Fields {
		if f.Field == "" || f.Message == "" || !utf8.ValidString(f.Field+f.Message) || len(f.Field+f.Message) > 3000 {
			t.Fatalf("bad field error %q: %q", f.Field, f.Message)
		}
	}
}

// FuzzParse: any bytes are either refused as input or give valid rules that
// can be written and read back.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		sampleYAML, policiesYAML, `{"rules": [{"name": "a", "scope": "user", "limit": 1, "window_ms": 1}]}`, "rules: []",
		"rules: [", "rules:\n- - a",
		"rules:\n- name: |\n    a\n  scope: >-\n    user\n  limit: 1\n  window_ms: 1\n", "a: &x [*x]\n<<: *x", "? a\n: b",
		"---\n...\n---",
		"rules: {a: [b, {c: d}]}", "\ufeffrules: []", "rules:\n\t- a", `rules: "\ud800"`, "'", `{"rules":`,
		"rules: []\n...\n", "%YAML 1.2\n---\n",
		"rules:\n- {name: a, scope: user, limit: 010, window_ms: 0x10, burst: 1_0, is_active: TRUE}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rs, err := Parse(data)
		if err != nil {
			checkFieldErrors(t, err)
			return
		}
		text, err := Format(rs)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if p := rules.MakeFilePlan(rs, back, true); !p.Empty() {
			t.Fatalf("came back changed:\n%s", p.String())
		}
	})
}

// FuzzValidateProfile is the same for profiles, which survive their column too.
func FuzzValidateProfile(f *testing.F) {
	for _, s := range []string{
		`{"name":"a"}`,
		`{"name":"a","facts":{"user":[{"header":"X"},{"value":"|>"}],"attributes":{"t":[{"claim":"é"}]},"fields":{"b":null}}}`,
		`{"name":"a","routes":["/a/{b}","/a/*"],"skip_methods":["get"],"headers":["x-ratelimit-*"],"weight":{"header":"W"}}`,
		`{"name":"a","missing":{"ip":"deny","attr:x":{"value":"- #"}},"proof":{"networks":["::1","10.0.0.0/8"],"certificates":["*"]}}`,
		`{"name":"a","claims":"x","client_ip":{"header":"","trusted":["x"]},"path":null,"missing":{"a b":""}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := profile.New()
		if json.Unmarshal(data, &p) != nil {
			return
		}
		p.Version, p.CreatedAt, p.UpdatedAt = 0, time.Time{}, time.Time{}
		p.Normalize()
		again := p.Clone()
		if again.Normalize(); len(profile.Diff(&p, &again)) != 0 {
			t.Fatalf("normalising twice changed %v", profile.Diff(&p, &again))
		}
		err := profile.Validate(&p)
		_, compileErr := match.CompileSource(rules.Source{Profiles: []profile.Profile{p}}, match.Options{})
		if (err == nil) != (compileErr == nil) {
			t.Fatalf("validate says %v, compile %v", err, compileErr)
		}
		if err != nil {
			checkFieldErrors(t, err)
			return
		}
		text, err := Format(rules.File{Profiles: []profile.Profile{p}})
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(text)
		if err != nil || len(back.Profiles) != 1 || cmp.Diff(p, back.Profiles[0]) != "" {
			t.Fatalf("came back as %+v, %v\n%s", back, err, text)
		}
		column, err := p.MarshalPolicies()
		if err != nil {
			t.Fatal(err)
		}
		stored := profile.Profile{Name: p.Name, Description: p.Description}
		if err := stored.UnmarshalPolicies(column); err != nil || cmp.Diff(p, stored) != "" {
			t.Fatalf("stored as %s, came back as %+v, %v", column, stored, err)
		}
	})
}
