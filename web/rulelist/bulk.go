package rulelist

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sluice/rules"
	"sluice/rules/rulefile"
	"sluice/web/kit"
	"sluice/web/view"
)

// bulkRules applies an action to the selected rules, as one edit with one audit entry. A rule that cannot be changed is
// skipped and listed on the next page.
func (p *Pages) bulkRules(v *kit.Visit, form url.Values) error {
	back := kit.Local(form.Get("back"))
	if back == kit.PathHome {
		back = kit.PathRules
	}
	act, err := bulkActOf(form)
	if err != nil {
		return err
	}
	ticked, all := tickedIDs(form), form.Get("all") != ""
	switch {
	case form.Get("act") == actExport && (all || len(ticked) > 0):
		return p.bulkExport(v, back, ticked, all)
	case act != nil && act.edit != nil && form.Get("seen") != "":
		return p.bulkSeen(v, form, act, back)
	case act != nil && (all || act.edit == nil && len(ticked) > 0):
		return p.bulkConfirm(v, act, back, ticked, all)
	case act == nil || len(ticked) == 0:
		v.Flash("Nothing was changed. Select rules first, then choose an action.")
		return v.SeeOther(back)
	}
	seen := make([]rules.SeenVersion, len(ticked))
	for i, id := range ticked {
		seen[i].ID = id
	}
	return p.bulkDone(v, act, back, func() (rules.BulkResult, error) {
		return p.Rules.EditRules(v.Ctx, v.Actor(), seen, act.edit)
	})
}

// tickedIDs are the rules that were selected on a page of the list, each once.
func tickedIDs(form url.Values) []int64 {
	var ids []int64
	for _, text := range form["rule"][:min(len(form["rule"]), perPage)] {
		if id, err := strconv.ParseInt(text, 10, 64); err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func bulkWords(out *rules.BulkResult, done string) string {
	var s []string
	if out.Changed > 0 || out.Same == 0 && len(out.Skipped) == 0 {
		s = append(s, isOrAre(out.Changed)+" now "+done+".")
	}
	if out.Same > 0 {
		s = append(s, isOrAre(out.Same)+" already "+done+".")
	}
	if skipped := kit.SkippedWords(out.Skipped); skipped != "" {
		s = append(s, skipped)
	}
	return strings.Join(s, " ")
}

// isOrAre is a number of rules with its verb: "1 rule is", "2 rules are".
func isOrAre(n int) string {
	if n == 1 {
		return "1 rule is"
	}
	return view.Plural(int64(n), "rule") + " are"
}

// matchWords says how many rules match: "1 rule matches", "2 rules match".
func matchWords(n int64) string {
	if n == 1 {
		return "1 rule matches"
	}
	return view.Plural(n, "rule") + " match"
}

const (
	// bulkRead is how many rules are read at a time.
	bulkRead = 500
	// bulkSample is how many rules the confirmation page shows.
	bulkSample = 10
)

// bulkConfirm asks for confirmation before rules are deleted, or all rules that match the filters are edited. The page
// carries the versions of the rules that would change, so that rules that someone else changes before are skipped.
func (p *Pages) bulkConfirm(v *kit.Visit, act *bulkAct, back string, ticked []int64, all bool) error {
	m := Bulk{Act: act, Back: back, Most: rules.MaxBulk}
	b, q, err := p.bulkSelection(back, ticked, all)
	if err != nil {
		return err
	}
	m.Query, m.Ticked = q, !all
	var seen []string
	m.Total, err = p.eachSelected(v, b, func(l view.RuleLine) {
		r := l.Rule
		edited := r.Clone()
		if act.edit != nil {
			act.edit(&edited)
		}
		if act.edit != nil && len(rules.Diff(r, &edited)) == 0 {
			return
		}
		seen = append(seen, view.Digits(r.ID)+"."+view.Digits(r.Version))
		if len(m.Sample) < bulkSample {
			m.Sample = append(m.Sample, l)
		}
	})
	if err != nil {
		return err
	}
	m.Change, m.Seen = int64(len(seen)), strings.Join(seen, " ")
	status := http.StatusOK
	if m.Total > rules.MaxBulk {
		status = http.StatusUnprocessableEntity
	}
	return v.Page(status, bulkPage(v.Frame("Change many rules", kit.PathRules), m))
}

// bulkSelection are the ticked rules, or all rules of the list at back.
func (p *Pages) bulkSelection(back string, ticked []int64, all bool) (rules.Browse, view.Query, error) {
	list, err := url.Parse(back)
	if err != nil {
		return rules.Browse{}, view.Query{}, err
	}
	q := list.Query()
	b := p.selection(q)
	if !all {
		b = rules.Browse{Query: rules.Query{IDs: ticked}}
	}
	b.Sort, b.Desc, b.PageSize = "name", false, bulkRead
	return b, view.NewQuery(kit.PathRules, q, filters()...), nil
}

// eachSelected calls do for each selected rule and returns their number. It stops if that is above rules.MaxBulk.
func (p *Pages) eachSelected(v *kit.Visit, b rules.Browse, do func(view.RuleLine)) (total int64, err error) {
	known := map[int64]bool{}
	for ; ; b.Offset += bulkRead {
		found, err := p.Rules.BrowseRules(v.Ctx, b)
		if err != nil {
			return 0, err
		}
		if total = found.Total; total > rules.MaxBulk {
			return total, nil
		}
		for _, l := range view.RuleLines(&found) {
			if !known[l.Rule.ID] {
				known[l.Rule.ID] = true
				do(l)
			}
		}
		if len(found.Rules) < bulkRead {
			return total, nil
		}
	}
}

// bulkSeen edits the rules of the confirmation page that have not changed since.
func (p *Pages) bulkSeen(v *kit.Visit, form url.Values, act *bulkAct, back string) error {
	seen, err := readSeen(form.Get("seen"))
	if err != nil {
		return err
	}
	return p.bulkDone(v, act, back, func() (rules.BulkResult, error) {
		return p.Rules.EditRules(v.Ctx, v.ActorWithReason(form), seen, act.edit)
	})
}

// deleteRules deletes the rules of the confirmation page that have not changed since.
func (p *Pages) deleteRules(v *kit.Visit, form url.Values) error {
	back := kit.Local(form.Get("back"))
	if back == kit.PathHome {
		back = kit.PathRules
	}
	act, err := bulkActOf(url.Values{"act": {actDelete}})
	if err != nil {
		return err
	}
	seen, err := readSeen(form.Get("seen"))
	if err != nil {
		return err
	}
	return p.bulkDone(v, act, back, func() (rules.BulkResult, error) {
		return p.Rules.DeleteRules(v.Ctx, v.ActorWithReason(form), seen)
	})
}

// deletes names the act of deleteRules.
func deletes(_ *kit.Visit, form url.Values) (string, error) {
	seen, _ := readSeen(form.Get("seen"))
	return "delete " + view.Plural(len(seen), "rule"), nil
}

// bulkDone changes rules, and says what was done. An edit can be undone from the message.
func (p *Pages) bulkDone(v *kit.Visit, act *bulkAct, back string, change func() (rules.BulkResult, error)) error {
	v.AllowBulkTime()
	done, err := change()
	if err != nil {
		return err // also an invalid reason, the only field there
	}
	if done.Changed > 0 {
		v.WaitInForce(p.Changed)
	}
	if done.Bulk > 0 {
		v.OfferUndo(kit.Undo{Kind: kit.UndoBulk, ID: done.Bulk})
	}
	v.Flash("%s", bulkWords(&done, act.done))
	return v.SeeOther(back)
}

// bulkExport sends the selected rules as a rules file, with the pools that they use.
func (p *Pages) bulkExport(v *kit.Visit, back string, ticked []int64, all bool) error {
	b, q, err := p.bulkSelection(back, ticked, all)
	if err != nil {
		return err
	}
	var file rules.File
	pools := map[string]bool{}
	set := p.Sets.Load()
	total, err := p.eachSelected(v, b, func(l view.RuleLine) {
		file.Rules = append(file.Rules, *l.Rule)
		if l.Rule.Pool == nil || set == nil || pools[*l.Rule.Pool] {
			return
		}
		pools[*l.Rule.Pool] = true
		if pool := set.Pool(*l.Rule.Pool); pool != nil {
			file.Pools = append(file.Pools, pool.Pool)
		}
	})
	switch {
	case err != nil:
		return err
	case total > rules.MaxBulk:
		m := Bulk{Back: back, Total: total, Most: rules.MaxBulk, Query: q}
		return v.Page(http.StatusUnprocessableEntity, bulkPage(v.Frame("Export rules", kit.PathRules), m))
	}
	text, err := rulefile.Format(file)
	if err != nil {
		return err
	}
	if err := v.Save(); err != nil {
		return err
	}
	v.Response().Header().Set("Content-Disposition", `attachment; filename="rules.yaml"`)
	return v.Blob(http.StatusOK, "application/yaml", text)
}

// errSeen means that the versions in a form are not those of a page.
var errSeen = &kit.Problem{Status: http.StatusBadRequest, Title: "Invalid form",
	Detail: "The form does not match the page. Select the rules again."}

// readSeen reads the versions that the page carries, each rule once: "7.3 9.1" is version 3 of rule 7 and version 1 of
// rule 9.
func readSeen(text string) ([]rules.SeenVersion, error) {
	words := strings.Fields(text)
	if len(words) == 0 || len(words) > rules.MaxBulk {
		return nil, errSeen
	}
	out, known := make([]rules.SeenVersion, len(words)), map[int64]bool{}
	for i, w := range words {
		id, version, _ := strings.Cut(w, ".")
		var errs [2]error
		out[i].ID, errs[0] = strconv.ParseInt(id, 10, 64)
		out[i].Version, errs[1] = strconv.ParseInt(version, 10, 64)
		if errors.Join(errs[:]...) != nil || out[i].Version < 1 || known[out[i].ID] {
			return nil, errSeen
		}
		known[out[i].ID] = true
	}
	return out, nil
}

// Bulk is the page that asks for confirmation before many rules are changed.
type Bulk struct {
	Act *bulkAct
	// Total rules are selected, of which Change would change. Most is how many may be selected.
	Total, Change, Most int64
	// Ticked means that the rules were selected one by one; otherwise they are those that match Query.
	Ticked bool
	Query  view.Query
	// Sample are some of the rules that would change.
	Sample []view.RuleLine
	// Seen has the versions of the rules that would change, Back is the address of the list.
	Seen, Back string
}

// ask is the question, as in "Enable 3 rules".
func (m *Bulk) ask() string { return fmt.Sprintf(m.Act.ask, view.Plural(m.Change, "rule")) }

// about says which rules are selected.
func (m *Bulk) about() string {
	if m.Ticked {
		return "The rules that you selected."
	}
	return "All " + filterWords(m.Query) + "."
}

// action is where the confirmation goes.
func (m *Bulk) action() string {
	if m.deletes() {
		return kit.PathRules + "/delete"
	}
	return kit.PathRules + "/bulk"
}

func (m *Bulk) deletes() bool { return m.Act != nil && m.Act.edit == nil }

// filterWords describes the rules that the filters of the list select: "rules in mode shadow".
func filterWords(q view.Query) string {
	var out []string
	if method, path, ok := routeAsked(q.Get("q")); ok {
		out = append(out, "that apply to "+method+" "+path)
	} else if text := q.Get("q"); text != "" {
		out = append(out, "with “"+text+"” in name, description, route or host")
	}
	switch q.Get("state") {
	case "on":
		out = append(out, "that are enabled")
	case "off":
		out = append(out, "that are disabled")
	}
	if mode := q.Get("mode"); mode != "" {
		out = append(out, "in mode "+mode)
	}
	if mode := q.Get("fail_mode"); mode != "" {
		out = append(out, "with the fail mode "+mode)
	}
	if owner := q.Get("owner"); owner != "" {
		out = append(out, "with the owner “"+owner+"”")
	}
	return strings.TrimSpace("rules " + strings.Join(out, ", "))
}
