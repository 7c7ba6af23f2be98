package rulepage

import (
	"strings"
	"testing"

	"github.com/a-h/templ"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/web/view"
)

func TestRollback_SaysWhetherCountersAreKept(t *testing.T) {
	for member, kept := range map[string]bool{"limit": true, "cut_off": true, "span": false, "algorithm": true} {
		m := Rollback{Changes: []field.Change{{Field: "owner"}, {Field: member}}}
		if got := m.counterWords(); (got == "Counters are kept.") != kept || !kept && !strings.Contains(got, member) {
			t.Errorf("%s: %q", member, got)
		}
	}
}

// A rollback and a promotion say before that what was spent no longer counts, and only where that is so.
func TestKeptWords_SayWhatAnEditOfTheAlgorithmLoses(t *testing.T) {
	limit := int64(5)
	for _, tt := range []struct {
		from, to, span string
		kept           bool
	}{
		{"fixed_window", "token_bucket", "region", true}, {"concurrency", "gcra", "region", false},
		{"fixed_window", "token_bucket", "global", false},
	} {
		was := rules.Rule{Algorithm: tt.from, Span: tt.span, Candidate: &rules.Candidate{Algorithm: tt.to, Limit: &limit}}
		is := rules.Rule{Algorithm: tt.to, Span: tt.span}
		rollback := Rollback{Rule: was, To: rules.Revision{Rule: is}, Changes: []field.Change{{Field: "algorithm"}}}
		promotion := Confirm{Rule: was, After: is, To: "promote"}
		for _, page := range []templ.Component{
			rollbackPage(view.Frame{}, rollback), confirmPage(view.Frame{}, promotion),
		} {
			var b strings.Builder
			if err := page.Render(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			said := b.String()
			if strings.Contains(said, "Counters are kept.") != tt.kept ||
				strings.Contains(said, "no longer counts") == tt.kept ||
				strings.Contains(said, `<p class="notice warn">`) == tt.kept {
				t.Errorf("%+v: %s", tt, said)
			}
		}
	}
}
