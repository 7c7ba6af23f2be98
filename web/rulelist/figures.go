package rulelist

import (
	"fmt"

	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/web/kit"
	"sluice/web/view"
)

// Row is a row of the list of rules.
type Row struct {
	view.RuleLine
	// Line are the requests of the last ten minutes, oldest first, nil if there were none.
	Line []float64
	// Sum are the figures of these ten minutes.
	Sum history.Figures
	// Uses are the highest uses of the limit by one key in parts of the ten minutes, oldest first; see view.UsesOf.
	Uses []int64
}

// denies reports whether the row has denials to show a share of.
func (r *Row) denies() bool { return r.Known && r.Sum.Total() > 0 }

// maxDenying is how many rules that deny requests come first in the order of denials.
const maxDenying = 500

// mostDenied lists the rules in force that denied requests in the last minute, the most denied first.
func mostDenied(set *match.Set, live *history.Live) []int64 {
	ids := []int64{}
	if set == nil || live.Err != nil && !live.Own {
		return ids
	}
	for i := range live.Rules { // these are in order already
		if live.Rules[i].Minute.Denied == 0 || len(ids) == maxDenying {
			break
		}
		if c := set.Named(live.Rules[i].Name); c != nil {
			ids = append(ids, c.Rule.ID)
		}
	}
	return ids
}

// browseDenied is a page in the order of denials: first the rules that deny, then all others by name.
func browseDenied(v *kit.Visit, b rules.Browse, first []int64) (rules.Listing, error) {
	denying, rest := b, b
	denying.Sort, denying.Offset, denying.PageSize = "name", 0, maxDenying
	denying.IDs = first
	if b.IDs != nil {
		denying.IDs = common(first, b.IDs)
	}
	top, err := v.Browse(denying)
	if err != nil {
		return rules.Listing{}, err
	}
	byID := make(map[int64]*rules.Rule, len(top.Rules))
	for i := range top.Rules {
		byID[top.Rules[i].ID] = &top.Rules[i]
	}
	out := rules.Listing{Editors: top.Editors}
	place := 0
	for _, id := range first {
		r := byID[id]
		if r == nil {
			continue
		}
		if place >= b.Offset && place < b.Offset+b.PageSize {
			out.Rules = append(out.Rules, *r)
		}
		place++
	}
	rest.Sort, rest.Desc, rest.Except = "name", false, first
	rest.Offset = max(0, b.Offset-place)
	others, err := v.Browse(rest)
	if err != nil {
		return rules.Listing{}, err
	}
	out.Total = int64(place) + others.Total
	for i := range others.Rules[:min(len(others.Rules), b.PageSize-len(out.Rules))] {
		r := &others.Rules[i]
		out.Rules = append(out.Rules, *r)
		if by, ok := others.Editors[r.ID]; ok {
			if out.Editors == nil {
				out.Editors = map[int64]rules.Actor{}
			}
			out.Editors[r.ID] = by
		}
	}
	return out, nil
}

// common are the ids of a that b has too, in the order of a.
func common(a, b []int64) []int64 {
	has := make(map[int64]bool, len(b))
	for _, id := range b {
		has[id] = true
	}
	out := []int64{}
	for _, id := range a {
		if has[id] {
			out = append(out, id)
		}
	}
	return out
}

// tensAUse is how many periods of ten seconds a cell of the strip of uses has.
const tensAUse = 3

// withFigures adds what the rules of a page did in the last ten minutes, if that is known: on all nodes, or on this one
// while the metrics of others cannot be read.
func withFigures(lines []view.RuleLine, live *history.Live) []Row {
	rows := make([]Row, len(lines))
	byName := make(map[string]*Row, len(lines))
	for i := range lines {
		rows[i] = Row{RuleLine: lines[i]}
		byName[lines[i].Rule.Name] = &rows[i]
	}
	if live.Err != nil && !live.Own {
		return rows
	}
	for i := range rows {
		rows[i].Known, rows[i].Own = true, live.Own
	}
	for i := range live.Rules {
		l := &live.Rules[i]
		row := byName[l.Name]
		if row == nil {
			continue
		}
		row.Denied = l.Minute.Denied
		var part history.Figures
		for j := range l.Tens {
			row.Sum.Add(l.Tens[j].Figures)
			row.Line = append(row.Line, float64(l.Tens[j].Total()))
			if part.Add(l.Tens[j].Figures); (j+1)%tensAUse == 0 {
				row.Uses = append(row.Uses, view.UseOf(&part))
				part = history.Figures{}
			}
		}
	}
	return rows
}

// lineWords describes the drawing of a row.
func (r *Row) lineWords() string {
	return fmt.Sprintf("%s allowed, %s denied in ten minutes", view.Count(r.Sum.Allowed), view.Count(r.Sum.Denied))
}
