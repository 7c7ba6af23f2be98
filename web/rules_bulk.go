package web

import (
	"errors"
	"strconv"
	"strings"

	"sluice/rules"
	"sluice/web/view"
)

// bulkActs are what can be done to several rules at once.
var bulkActs = map[string]struct {
	done, ask string
	edit      func(*rules.Rule)
}{
	"on":      {"on", "Turn on", func(r *rules.Rule) { r.IsActive = true }},
	"off":     {"off", "Turn off", func(r *rules.Rule) { r.IsActive = false }},
	"enforce": {"enforced", "Enforce", func(r *rules.Rule) { r.Mode = rules.ModeEnforce }},
	"shadow":  {"in shadow mode", "Make shadow rules of", func(r *rules.Rule) { r.Mode = rules.ModeShadow }},
}

// bulkRules does one thing to the rules that are ticked, each as an edit of its
// own with an audit entry of its own. One that cannot be changed does not keep
// the others from it; the next page says which.
func (s *Server) bulkRules(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	back := local(form.Get("back"))
	if back == pathHome {
		back = pathRules
	}
	act, known := bulkActs[form.Get("act")]
	switch {
	case known && form.Get("seen") != "":
		return s.bulkSeen(v, form, back)
	case known && form.Get("all") != "":
		return s.bulkConfirm(v, form, back)
	}
	ticked := form["rule"]
	if !known || len(ticked) == 0 {
		v.flash("Nothing was changed: tick rules, and choose what to do with them.")
		return v.redirect(back)
	}
	var changed, same int
	var left []string
	for _, text := range ticked[:min(len(ticked), rulesPerPage)] {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			continue
		}
		name, did, err := s.bulkOne(v, id, act.edit)
		switch {
		case err != nil && (problemOf(err) == nil || changed == 0 && errors.Is(err, rules.ErrUnavailable)):
			if changed > 0 {
				s.changed(v, s.deps.Changed)
			}
			return err
		case err != nil:
			left = append(left, name+" ("+problemOf(err).reason(err)+")")
		case did:
			changed++
		default:
			same++
		}
	}
	if changed > 0 {
		s.changed(v, s.deps.Changed)
	}
	v.flash("%s", bulkWords(changed, same, left, act.done))
	return v.redirect(back)
}

// bulkOne edits one rule as it is now, so that nothing else of it changes.
func (s *Server) bulkOne(v *visit, id int64, edit func(*rules.Rule)) (name string, changed bool, err error) {
	name = "rule " + strconv.FormatInt(id, 10)
	for range bulkAttempts {
		r, err := s.deps.Writer.GetRule(v.ctx, id)
		if err != nil {
			return name, false, err
		}
		name = r.Name
		edited := r.Clone()
		edit(&edited)
		if len(rules.Diff(&r, &edited)) == 0 {
			return name, false, nil
		}
		_, err = s.deps.Writer.UpdateRule(v.ctx, v.actor(), edited, r.Version)
		if !errors.Is(err, rules.ErrStale) {
			return name, err == nil, err
		}
	}
	return name, false, rules.ErrStale
}

// bulkAttempts is how often an edit is tried when others come between.
const bulkAttempts = 3

// reason is why one of several was left alone, in a few words.
func (p *problem) reason(err error) string {
	var invalid *rules.ValidationError
	switch {
	case errors.As(err, &invalid):
		return invalid.Fields[0].Field + " " + invalid.Fields[0].Message
	case errors.Is(err, rules.ErrNotFound):
		return "it was deleted"
	}
	return strings.ToLower(p.title)
}

// namedLeft is how many rules that were left alone are named.
const namedLeft = 20

func bulkWords(changed, same int, left []string, done string) string {
	noun := func(n int) string {
		if n == 1 {
			return "1 rule is"
		}
		return view.Count(int64(n)) + " rules are"
	}
	var s []string
	if changed > 0 || same == 0 && len(left) == 0 {
		s = append(s, noun(changed)+" "+done+" now.")
	}
	if same > 0 {
		verb := " were"
		if same == 1 {
			verb = " was"
		}
		s = append(s, view.Count(int64(same))+verb+" so already.")
	}
	if more := len(left) - namedLeft; more > 0 {
		left = append(left[:namedLeft:namedLeft], view.Count(int64(more))+" more")
	}
	if len(left) > 0 {
		s = append(s, "Left alone: "+strings.Join(left, ", ")+".")
	}
	return strings.Join(s, " ")
}
