package match

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/rules"

	"pgregory.net/rapid"
)

func TestWhen_ValuesAreWhatTheyRead(t *testing.T) {
	d := Descriptor{User: "ada", Fields: map[string]int64{"bytes": 1}}
	for when, want := range map[string]bool{
		`max(0, fields.bytes) == 1`:                 true,
		`max(0, fields.bytes) != 1`:                 false,
		`max(0, fields.bytes) in [1, 2]`:            true,
		`max(2, fields.bytes) in [1]`:               false,
		`max(0, fields.bytes) == max(weight, 0)`:    true,
		`-max(0, weight) == -1`:                     true,
		`abs(max(0, weight)) == 1`:                  true,
		`(weight > 0 ? max(0, weight) : 3) == 1`:    true,
		`min(len(user), weight) + 1 == 2`:           true,
		`max(0, weight) % 2 == 1`:                   true,
		`[10, 20][max(0, weight)] == 20`:            true,
		`weight | max(3) == 3`:                      true,
		`min(1.5, weight) == 1`:                     true,
		`min(weight, 0.5) == 0.5`:                   true,
		`max(1.5, weight, 2) in [2]`:                true,
		`max([weight, 0]) == 1`:                     true,
		`max(1, [2, [weight, 4]], [3.5]) == 4`:      true,
		`max({"a": 1}.a, 0) == 1`:                   true,
		`let n = max(0, weight); n == 1`:            true,
		`max(9007199254740993, weight) == 1`:        false,
		`(user == "bo" ? 1 : nil) == 1`:             false,
		`(user == "bo" ? "a" : nil) != "a"`:         true,
		`let x = user == "bo" ? 1 : nil; x == 1`:    false,
		`[[weight], [1]][0][0] == 1`:                true,
		`([weight] ?? [1])[0] == 1`:                 true,
		`({"a": 1}.a) in ["x"]`:                     false,
		`{"a": 1}.b in ["", "x"]`:                   false,
		`nil in ["", "x"]`:                          false,
		`(weight > 0 ? 1 : "a") in ["a", "b"]`:      false,
		`$env.user == "ada"`:                        true,
		`$env["user"] in ["ada"]`:                   true,
		`$env.ip == "203.0.113.7"`:                  false,
		`[weight, 1] == [1, 1] and [weight] != [0]`: true,
	} {
		if holds, failed := evaluate(t, when, &d); holds != want || failed {
			t.Errorf("%s: %v, want %v; failed: %v", when, holds, want, failed)
		}
	}
	for when, want := range map[string]string{
		`max() == 1`:                            "line 1, column 1: not enough arguments to call max",
		`max(user) == 1`:                        "line 1, column 5: min and max take numbers and lists of numbers",
		`max(1, [2, "a"]) == 1`:                 "line 1, column 12: min and max take numbers",
		`let x = ["a"]; min(1, x) == 1`:         "line 1, column 23: min and max take numbers",
		`max(nil) == 1`:                         "line 1, column 5: min and max take numbers",
		`max({"a": 1}) == 1`:                    "line 1, column 5: min and max take numbers",
		`max(weight, 0.5) % 2 == 1`:             "line 1, column 18: invalid operation: %",
		`max(0, weight) == "a"`:                 "line 1, column 16: invalid operation: ==",
		`(user == "" ? 1 : 2) in ["a"]`:         "line 1, column 22: cannot use int as type string in array",
		`let max = 1; max == 1`:                 "cannot redeclare",
		`{"a": weight} == {"a": 1}`:             "line 1, column 15: maps cannot be compared",
		`"user" in $env`:                        "line 1, column 11: write the name itself",
		`$env["us" + "er"] == "ada"`:            "line 1, column 1: write the name itself",
		`$env.user == "" || $env[user] == user`: "line 1, column 20: write the name itself",
	} {
		r := conditional(when)
		if err := rules.Validate(&r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", when, err, want)
		}
	}
}

// evaluate returns whether a condition applies to a request of weight 1, and whether it failed.
func evaluate(t rapid.TB, when string, d *Descriptor) (holds, failed bool) {
	t.Helper()
	set, err := Compile([]rules.Rule{conditional(when)}, 1, Options{ConditionFailed: func(*rules.Rule) { failed = true }})
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	return len(set.Match(d, 1, noon, nil)) == 1, failed
}

// expression is an expression, and what it reads as for a request of the user ada with weight 1 and 3 bytes.
type expression struct {
	text  string
	value func() any // an int, a text, a bool, nil, or an error
}

var errFails = errors.New("the expression fails")

// drawn draws expressions.
type drawn struct{ *rapid.T }

func (d drawn) oneOf(n int) int { return rapid.IntRange(0, n-1).Draw(d.T, "one of") }

func (d drawn) number(depth int) expression {
	if depth == 0 {
		n := d.oneOf(4)
		return []expression{
			{fmt.Sprint(n), func() any { return n }},
			{"weight", func() any { return 1 }},
			{"fields.bytes", func() any { return 3 }},
			{"fields.none", func() any { return 0 }},
			{"len(user)", func() any { return 3 }},
		}[d.oneOf(5)]
	}
	depth--
	a, b, c := d.number(depth), d.number(depth), d.number(0)
	switch d.oneOf(9) {
	case 0:
		return numbers("(%s + %s)", func(n ...int) any { return n[0] + n[1] }, a, b)
	case 1:
		return numbers("(%s - %s)", func(n ...int) any { return n[0] - n[1] }, a, b)
	case 2:
		return numbers("(%s %% %s)", func(n ...int) any {
			if n[1] == 0 {
				return errFails
			}
			return n[0] % n[1]
		}, a, b)
	case 3:
		return numbers("max(%s, [%s, %s])", func(n ...int) any { return max(n[0], n[1], n[2]) }, a, b, c)
	case 4:
		return numbers("min(%s, %s, %s)", func(n ...int) any { return min(n[0], n[1], n[2]) }, a, b, c)
	case 5:
		return numbers("max(%s, %s)", func(n ...int) any { return max(n[0], n[1]) }, a, b)
	case 6:
		return numbers("abs(-%s)", func(n ...int) any { return max(n[0], -n[0]) }, a)
	case 7:
		return numbers("[[%s], [%s]][1][0]", func(n ...int) any { return n[1] }, a, b)
	}
	return d.either(d.truth(depth), a, b)
}

// any draws an expression that may be a number, a text or nil.
func (d drawn) any(depth int) expression {
	missing := expression{"nil", func() any { return nil }}
	text := expression{`"a"`, func() any { return "a" }}
	user := expression{"user", func() any { return "ada" }}
	n := d.number(depth)
	switch d.oneOf(6) {
	case 0:
		return d.either(d.truth(depth), n, missing)
	case 1:
		return d.either(d.truth(depth), text, missing)
	case 2:
		return d.either(d.truth(depth), n, text)
	case 3:
		return d.either(d.truth(depth), user, text)
	case 4:
		return numbers(`{"a": %s}.a`, func(n ...int) any { return n[0] }, n)
	}
	return n
}

func (d drawn) truth(depth int) expression {
	if depth == 0 {
		return []expression{
			{`user == "ada"`, func() any { return true }}, {"weight == 2", func() any { return false }},
		}[d.oneOf(2)]
	}
	depth--
	switch d.oneOf(5) {
	case 0:
		return numbers("(%s < %s)", func(n ...int) any { return n[0] < n[1] }, d.number(depth), d.number(depth))
	case 1:
		a, b := d.any(depth), d.any(depth)
		return values("(%s == %s)", func(v ...any) any { return v[0] == v[1] }, a, b)
	case 2:
		a, list := d.any(depth), []expression{d.any(0), d.any(0)}
		if d.oneOf(2) == 0 {
			list = []expression{{"3", func() any { return 3 }}, {"1", func() any { return 1 }}}
		}
		return values("(%s in [%s, %s])", func(v ...any) any { return v[0] == v[1] || v[0] == v[2] }, a, list[0], list[1])
	case 3:
		return values("(%s in [%s, %s])", func(v ...any) any { return v[0] == "a" || v[0] == "ada" }, d.any(depth),
			expression{`"a"`, func() any { return "a" }}, expression{`"ada"`, func() any { return "ada" }})
	}
	return values("not %s", func(v ...any) any { return v[0] == false }, d.truth(depth))
}

// either is a conditional.
func (d drawn) either(c, a, b expression) expression {
	return expression{fmt.Sprintf("(%s ? %s : %s)", c.text, a.text, b.text), func() any {
		switch c.value() {
		case true:
			return a.value()
		case false:
			return b.value()
		}
		return errFails
	}}
}

// values is an expression of others. It fails if one of them does.
func values(form string, value func(v ...any) any, of ...expression) expression {
	var texts []any
	for _, e := range of {
		texts = append(texts, e.text)
	}
	return expression{fmt.Sprintf(form, texts...), func() any {
		var list []any
		for _, e := range of {
			v := e.value()
			if v == errFails { //nolint:errorlint // the very value
				return errFails
			}
			list = append(list, v)
		}
		return value(list...)
	}}
}

// numbers is values of numbers.
func numbers(form string, value func(n ...int) any, of ...expression) expression {
	return values(form, func(v ...any) any {
		var list []int
		for _, n := range v {
			list = append(list, n.(int))
		}
		return value(list...)
	}, of...)
}

// Whatever compiles has the value that it reads as, or fails where that has no value.
func TestWhen_AgreesWithANaiveReader(t *testing.T) {
	d := Descriptor{User: "ada", Fields: map[string]int64{"bytes": 3}}
	compiled := 0
	rapid.Check(t, func(rt *rapid.T) {
		e := drawn{rt}.truth(3)
		r := conditional(e.text)
		if rules.Validate(&r) != nil {
			return // such as a comparison of a number and a text
		}
		want := e.value()
		if want == errFails { //nolint:errorlint // the very value
			return
		}
		compiled++
		if holds, failed := evaluate(rt, e.text, &d); failed || holds != want {
			rt.Fatalf("%s: %v, want %v; failed: %v", e.text, holds, want, failed)
		}
	})
	if compiled == 0 {
		t.Error("nothing compiled")
	}
}
