package kit

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"sluice/rules"
	"sluice/web/view"
)

const (
	// bulkTime is how long an edit of many rules may take, instead of the server's timeout for pages.
	bulkTime = 30 * time.Second
	// namedSkipped is how many skipped rules are listed.
	namedSkipped = 20
)

// AllowBulkTime gives the answer the time that an edit of many rules needs.
func (v *Visit) AllowBulkTime() {
	_ = http.NewResponseController(v.Response()).SetWriteDeadline(
		time.Now().Add(bulkTime)) //nolint:forbidigo // sockets go by the machine's clock; tests have none
}

// SkippedWords lists the rules that a bulk edit skipped, each with the reason: "Skipped: a (changed in the meantime)."
// It is "" for none.
func SkippedWords(skipped []rules.SkippedRule) string {
	if len(skipped) == 0 {
		return ""
	}
	var named []string
	for _, s := range skipped[:min(len(skipped), namedSkipped)] {
		name := s.Name
		if name == "" {
			name = "rule " + view.Digits(s.ID)
		}
		named = append(named, name+" ("+skippedReason(s.Err)+")")
	}
	if more := len(skipped) - len(named); more > 0 {
		named = append(named, view.Count(int64(more))+" more")
	}
	return "Skipped: " + strings.Join(named, ", ") + "."
}

// skippedReason is why a rule was skipped, in a few words.
func skippedReason(err error) string {
	switch p := ProblemOf(err); {
	case p == nil, errors.Is(err, rules.ErrStale):
		return "changed in the meantime"
	case FieldsOf(err) != nil:
		return FieldsOf(err)[0].Field + " " + FieldsOf(err)[0].Message
	case errors.Is(err, rules.ErrNotFound):
		return "deleted"
	default:
		return strings.ToLower(p.Title)
	}
}
