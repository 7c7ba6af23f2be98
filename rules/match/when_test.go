package match

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"sluice/rules"
	"sluice/rules/field"
)

func conditional(when string) rules.Rule {
	return rule(1, func(r *rules.Rule) { r.Scope, r.When = "global", &when })
}

func TestWhen_DecidesWhetherTheRuleApplies(t *testing.T) {
	d := Descriptor{
		Method: "post", Route: "/v1/charges/", User: "ada", APIKey: "k-1", Tier: "free", Host: "api.example.com",
		IP:         netip.MustParseAddr("::ffff:203.0.113.7"),
		Attributes: map[string]string{"plan": "trial", "region": "eu-1"}, Fields: map[string]int64{"bytes": 2048},
	}
	for when, want := range map[string]bool{
		`attributes.plan == "trial" && weight > 10`:       true,
		`attributes.plan == "trial" && weight > 12`:       false,
		`attributes["plan"] != "trial"`:                   false,
		`attributes.nothing == ""`:                        true,
		`fields.nothing == 0`:                             true,
		`fields.bytes >= 2048 and method == "POST"`:       true,
		`route startsWith "/v1/" and not (user == "bo")`:  true,
		`route == "/v1/charges"`:                          true,
		`ip == "203.0.113.7"`:                             true,
		`api_key == "k-1"`:                                true,
		`tier in ["free", "trial"]`:                       true,
		`tier in ["pro"]`:                                 false,
		`user matches "^a.a$"`:                            true,
		`len(user) == 3 ? upper(user) == "ADA" : false`:   true,
		`attributes.region contains "us"`:                 false,
		"method == \"GET\"\n|| weight == 11":              true,
		`true`:                                            true,
		`host == "api.example.com"`:                       true,
		`host endsWith ".example.com"`:                    true,
		`host == ""`:                                      false,
		`cidr(ip, "203.0.113.0/24")`:                      true,
		`cidr(ip, "10.0.0.0/8", "203.0.113.7")`:           true,
		`cidr(ip, "10.0.0.0/8", "2001:db8::/32", "::/0")`: false,
		`not cidr(ip, "10.0.0.0/8") && user == "ada"`:     true,
		`weight % 4 == 3`:                                 true,
	} {
		s := compile(t, conditional(when))
		if got := len(s.Match(&d, 11, noon, nil)) == 1; got != want {
			t.Errorf("%s: applies %v, want %v", when, got, want)
		}
		con := s.Explain(&d, 11, noon)[0]
		if con.Matched != want || !want &&
			(con.Reason != ReasonCondition || !strings.Contains(con.Sentence, "condition is false")) {
			t.Errorf("%s: explained %+v", when, con)
		}
	}
	// Without any fact.
	if s := compile(t, conditional(`attributes.a == "" && fields.b == 0 && ip == "" && user == "" && host == "" &&
		!cidr(ip, "0.0.0.0/0", "::/0")`)); len(
		s.Match(&Descriptor{}, 1, noon, nil)) != 1 {
		t.Error("absent facts are not empty")
	}
}

func TestWhen_WeightIsTheRulesOwn(t *testing.T) {
	r := conditional(`weight == 7`)
	r.WeightField = ptr("bytes")
	d := Descriptor{Fields: map[string]int64{"bytes": 7}}
	if s := compile(t, r); len(s.Match(&d, 1, noon, nil)) != 1 {
		t.Error("the condition does not see the field's weight")
	}
}

func TestWhen_ErrorsPointAtThePlace(t *testing.T) {
	for when, want := range map[string]string{
		`plan == "trial"`:               "line 1, column 1: unknown name plan",
		`weight > 1 && usr == "a"`:      "line 1, column 15: unknown name usr",
		"weight > 1 &&\n  usr == \"a\"": "line 2, column 3: unknown name usr",
		`weight > "a"`:                  "line 1, column 8: invalid operation: > (mismatched types",
		`attributes.plan > 1`:           "line 1, column 17: invalid operation",
		`attributes.plan.x == "a"`:      "line 1, column 17: type string has no field x",
		`weight +`:                      "line 1, column 8: unexpected token EOF",
		`weight`:                        "line 1, column 1: expected bool",
		`user`:                          "line 1, column 1: expected bool",
		`len(user) + 1`:                 "line 1, column 11: expected bool",
		`now().Unix() > 1`:              "line 1, column 1: unknown name now",
		`any([1, 2], # > 2)`:            "not available",
		`weight in 1..1000000000`:       "line 1, column 12: ranges are not supported",
		`user matches attributes.p`:     "line 1, column 6: the pattern of matches must be text",
		`user matches "("`:              "line 1, column 6: error parsing regexp",
		`user = "a"`:                    "line 1, column 6",
		`cidr(ip)`:                      `line 1, column 1: write cidr(ip, "10.0.0.0/8")`,
		`cidr("10.0.0.0/8", ip)`:        "line 1, column 6: the first argument of cidr must be ip",
		`cidr(user, "10.0.0.0/8")`:      "line 1, column 6: the first argument of cidr must be ip",
		`cidr(ip, user)`:                "line 1, column 10: the networks of cidr must be texts in quotes",
		`user == "" ||
  cidr(ip, "10.0.0.0/8", "10.0.0.1/8")`: "line 2, column 26: the network must be the address of a network; write",
		`cidr(ip, "10.0.0.0/33")`:                "line 1, column 10: the network must be an address such as 192.0.2.7",
		`cidr == 1`:                              "line 1, column 6: invalid operation",
		`cidr == nil`:                            "line 1, column 1: a function has no value",
		`let f = cidr; user == "a"`:              "line 1, column 9: a function has no value",
		`user == "a" || max != nil`:              "line 1, column 16: a function has no value",
		`len == nil`:                             "line 1, column 1: a function has no value",
		`let lower = user; lower == "a"`:         "cannot redeclare",
		`let host = ""; host == user`:            "cannot redeclare",
		`let cidr = "x"; cidr == user`:           "cidr is a function",
		`repeat(user, 1000000) == ""`:            "unknown name repeat",
		`get(attributes, "a") == ""`:             "unknown name get",
		"user == \"\u202e\"":                     "control characters",
		"user == \"\x00\"":                       "control characters",
		"user == \"\xff\"":                       "UTF-8",
		strings.Repeat("true || ", 128) + "true": "longer than 1024",
		strings.Repeat("!", 400) + "true":        "exceeds maximum allowed nodes",
		strings.Repeat("(", 1000):                "",
	} {
		r := conditional(when)
		err := rules.Validate(&r)
		var ve *field.ValidationError
		if !errors.As(err, &ve) || len(ve.Fields) != 1 || ve.Fields[0].Field != "when" ||
			!strings.Contains(ve.Fields[0].Message, want) ||
			strings.Contains(ve.Fields[0].Message, "\n") || len(ve.Fields[0].Message) > 400 {
			t.Errorf("%.60q: got %v, want %s", when, err, want)
		}
	}
}

// What cannot be evaluated limits all the same, and somebody hears of it.
func TestWhen_FailureMeansTheRuleAppliesAndIsReported(t *testing.T) {
	for _, when := range []string{
		`weight % fields.nothing == 1`,
		`user[99:100] == "a" || attributes.a[5:2] == "b" || weight % fields.nothing == 1`,
	} {
		var failed []string
		s, err := Compile([]rules.Rule{conditional(when)}, 1,
			Options{ConditionFailed: func(r *rules.Rule) { failed = append(failed, r.Name) }})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Match(&Descriptor{}, 1, noon, nil); len(got) != 1 || len(failed) != 1 || failed[0] != "rule-1" ||
			!got[0].ConditionFailed {
			t.Errorf("%s: %+v match, failures %v", when, got, failed)
		}
		if got := s.Explain(&Descriptor{}, 1, noon); len(got) != 1 || !got[0].Matched ||
			!strings.HasPrefix(got[0].Sentence, "The rule applies. Its condition failed, which counts as true: ") {
			t.Errorf("%s: explained as %+v", when, got)
		}
		d := Descriptor{User: strings.Repeat("a", 100), Fields: map[string]int64{"nothing": 1},
			Attributes: map[string]string{"a": "abcdef"}}
		if got := s.Match(&d, 1, noon, nil); len(got) == 1 && got[0].ConditionFailed {
			t.Errorf("%s: failed with every field", when)
		}
	}
}

func TestWhen_RulesWithoutConditionPayNothing(t *testing.T) {
	s := compile(t, rule(1, nil))
	d := Descriptor{User: "42"}
	dst := make([]Match, 0, 4)
	if n := testing.AllocsPerRun(100, func() { dst = s.Match(&d, 1, noon, dst[:0]) }); n > 1 {
		t.Errorf("%v allocations a match, want 1 (the key)", n)
	}
}

// FuzzWhen: whatever is typed is refused with a place or evaluates in bounds.
func FuzzWhen(f *testing.F) {
	for _, s := range []string{
		`attributes.plan == "trial" && weight > 10`, `tier in ["a","b"] ? true : user matches "x"`, `let x = weight; x > 1`,
		`fields.a ?? 1 > 0`, `[1,2,3][weight] == 2`, `{"a": 1}.a == 1`, `user[1:] == ""`, `"\u0041" == user`,
		`weight ** 9999 > 1`, `1..2`, `-weight`,
		"/* c */ true // x", `user?.x`, `nil == user`, `#`, `.a`, `$env`, `$env["user"] == ""`, `user | upper() == ""`,
	} {
		f.Add(s, "u", int64(1))
	}
	f.Fuzz(func(t *testing.T, when, user string, weight int64) {
		r := conditional(when)
		if err := rules.Validate(&r); err != nil {
			var bad *field.ValidationError
			if !errors.As(err, &bad) || len(bad.Fields) == 0 || bad.Fields[0].Message == "" ||
				!utf8.ValidString(bad.Error()) || len(bad.Error()) > 3000 {
				t.Fatalf("got %T %.4000v, want a *ValidationError that says what is wrong", err, err)
			}
			return
		}
		if r.When == nil {
			return
		}
		s := compile(t, r)
		d := Descriptor{User: user, Attributes: map[string]string{"plan": user}, Fields: map[string]int64{"a": weight}}
		if len(s.Match(&d, weight, noon, nil)) > 1 || len(s.Explain(&d, weight, noon)) != 1 {
			t.Fatal("a rule applied more than once")
		}
	})
}
