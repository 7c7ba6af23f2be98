package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/rules"
	"sluice/web/view"
)

const (
	// bulkPage is how many rules are read at a time.
	bulkPage = 500
	// bulkSample is how many rules the page that asks shows.
	bulkSample = 10
	// bulkTime is how long an edit of many rules may take; the server's own limit
	// is for pages.
	bulkTime = 30 * time.Second
)

// bulkConfirm asks whether all rules that the filters of the list select should
// be edited. The page carries the versions of those that would change, so that
// what someone changes before the answer is left alone.
func (s *Server) bulkConfirm(v *visit, form url.Values, back string) error {
	list, err := url.Parse(back)
	if err != nil {
		return err
	}
	b, q := browseOf(list.Query()), list.Query()
	b.Sort, b.Desc, b.PageSize = "name", false, bulkPage
	act := bulkActs[form.Get("act")]
	m := view.Bulk{Act: form.Get("act"), Ask: act.ask, Done: act.done, Back: back, Query: view.NewQuery(pathRules, q, "q", "mode", "fail_mode", "state"), Most: rules.MaxBulk}
	var seen []string
	known := map[int64]bool{}
	for ; ; b.Offset += bulkPage {
		found, err := s.deps.Rules.BrowseRules(v.ctx, b)
		if err != nil {
			return err
		}
		if m.Total = found.Total; m.Total > rules.MaxBulk {
			break
		}
		lines := ruleLines(&found)
		for i := range lines {
			r := lines[i].Rule
			edited := r.Clone()
			if act.edit(&edited); known[r.ID] || len(rules.Diff(r, &edited)) == 0 {
				continue
			}
			known[r.ID] = true
			seen = append(seen, fmt.Sprintf("%d.%d", r.ID, r.Version))
			if len(m.Sample) < bulkSample {
				m.Sample = append(m.Sample, lines[i])
			}
		}
		if len(found.Rules) < bulkPage {
			break
		}
	}
	m.Change, m.Seen = int64(len(seen)), strings.Join(seen, " ")
	status := http.StatusOK
	if m.Total > rules.MaxBulk {
		status = http.StatusUnprocessableEntity
	}
	return v.page(status, view.BulkPage(v.frame("Change many rules", pathRules), m))
}

// bulkSeen edits the rules that the page before has counted, as long as they are
// as they were then.
func (s *Server) bulkSeen(v *visit, form url.Values, back string) error {
	act := bulkActs[form.Get("act")]
	seen, ok := readSeen(form.Get("seen"))
	if !ok {
		return &problem{http.StatusBadRequest, "Not a form", "What was sent is not what the page had. Choose the rules again."}
	}
	_ = http.NewResponseController(v.Response()).SetWriteDeadline(time.Now().Add(bulkTime)) //nolint:forbidigo // sockets go by the machine's clock; tests have none
	done, err := s.deps.Bulk.EditRules(v.ctx, v.because(form), seen, act.edit)
	if err != nil {
		return err // a reason that is not valid too: nothing else is typed there
	}
	if done.Changed > 0 {
		s.changed(v, s.deps.Changed)
	}
	left := make([]string, len(done.Left))
	for i, l := range done.Left {
		name := l.Name
		if name == "" {
			name = "rule " + strconv.FormatInt(l.ID, 10)
		}
		left[i] = name + " (" + leftReason(l.Err) + ")"
	}
	v.flash("%s", bulkWords(done.Changed, done.Same, left, act.done))
	return v.redirect(back)
}

// leftReason is why a rule was left alone, in a few words.
func leftReason(err error) string {
	if p := problemOf(err); p != nil && !errors.Is(err, rules.ErrStale) {
		return p.reason(err)
	}
	return "someone changed it meanwhile"
}

// readSeen reads what the page carries: "7.3 9.1" is version 3 of rule 7 and
// version 1 of rule 9.
func readSeen(text string) ([]rules.Seen, bool) {
	words := strings.Fields(text)
	if len(words) > rules.MaxBulk {
		return nil, false
	}
	out := make([]rules.Seen, len(words))
	for i, w := range words {
		id, version, _ := strings.Cut(w, ".")
		var errs [2]error
		out[i].ID, errs[0] = strconv.ParseInt(id, 10, 64)
		out[i].Version, errs[1] = strconv.ParseInt(version, 10, 64)
		if errors.Join(errs[:]...) != nil {
			return nil, false
		}
	}
	return out, len(out) > 0
}
