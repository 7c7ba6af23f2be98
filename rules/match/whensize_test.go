package match

import (
	"fmt"
	"strings"
	"testing"

	"sluice/rules"
)

// Each of these would take memory or time without end at every check.
func TestWhen_VariablesDoNotMultiply(t *testing.T) {
	for _, form := range []struct{ first, next, end string }{
		{"user", "%[1]s + %[1]s", `len(%s) > 0`},
		{"[1]", "[%[1]s, %[1]s]", `max(%s) == 1`},
		{"[1]", "[%[1]s, %[1]s]", `%s == [1]`},
	} {
		var b strings.Builder
		last := "a0"
		fmt.Fprintf(&b, "let a0 = %s;", form.first)
		for i := 1; i < 28; i++ {
			value := fmt.Sprintf(form.next, last)
			last = fmt.Sprintf("a%d", i)
			fmt.Fprintf(&b, "let %s = %s;", last, value)
		}
		fmt.Fprintf(&b, form.end, last)
		r := conditional(b.String())
		if err := rules.Validate(&r); err == nil || !strings.Contains(err.Error(), "the variables are used too often") {
			t.Errorf("%s: %v", b.String(), err)
		}
	}
	for _, when := range []string{
		`let a = attributes.a; let b = attributes.b; let c = lower(a + "/" + b); ` +
			strings.Repeat(`a == "x" or b == c or `, 24) + `c == ""`,
		`let n = fields.in; let m = fields.out; let sum = n + m; sum > 10 ? sum % 3 == 0 : n > m or sum == m`,
	} {
		r := conditional(when)
		if err := rules.Validate(&r); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
}
