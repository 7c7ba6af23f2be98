package view

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"sluice/internal/fleet"
	"sluice/rules"
)

// Editor is the page on which a rule is written.
type Editor struct {
	Form Form
	// ID and Version are of the rule that is edited, 0 for a new one. Name is how
	// it is called in the database.
	ID, Version int64
	Name        string
	// YAML: the rule is edited as text, which is in the field yaml of the form.
	YAML bool
	// Problem is what is wrong as a whole, Problems with which fields.
	Problem  string
	Problems []rules.FieldError
	// Pools and Tiers are offered.
	Pools []string
	// TierRows and WindowRows are how many rows the lists have.
	TierRows, WindowRows int
	Preview              RulePreview
	// CanEdit: the form may be saved by who looks at it.
	CanEdit bool
}

// RulePreview is what a rule would do.
type RulePreview struct {
	// Warnings are what looks wrong with the rule and yet can be saved.
	Warnings []rules.FieldError
	// Summary says it in words, "" while the form cannot be read.
	Summary string
	// Limit is how the limit behaves; nil while it is not valid.
	Limit *Preview
	// Silent: it only counts, and clients are told nothing. Jitter is by how many ms
	// retry-after grows at most.
	Silent bool
	Jitter int64
	// Denials are recent ones that the rule would apply to, of Looked at.
	Denials []fleet.Denial
	Looked  int
	// DenialsAway: they cannot be read. Unmatched: why none were tried.
	DenialsAway bool
	Unmatched   string
}

// Preview is a limit tried on traffic.
type Preview struct {
	Shape string
	// Load is in percent of the limit, Window and Span are in ms, Unit is how many
	// units each request that was tried stands for.
	Load, Window, Span, Unit, Limit int64
	// Slots are the steps of the picture, Rows those of the table behind it.
	Slots, Rows               []Slot
	AllowedUnits, DeniedUnits int64
	// Delay is the longest of a leaky queue, in ms.
	Delay int64
	// Headers are of the first denied answer, or if Denied is false of the last.
	Headers []HeaderLine
	Denied  bool
}

// Slot is one step of time in a Preview, in units.
type Slot struct{ Allowed, Denied int64 }

// HeaderLine is one header of an answer.
type HeaderLine struct{ Name, Value string }

// Conflict is two people's edits of one rule.
type Conflict struct {
	ID int64
	// Theirs is the stored version, by whom, if known.
	Theirs *rules.Rule
	By     rules.Actor
	Fields []ConflictField
	// Ours is what was to be saved, as JSON, carried along.
	Ours string
	// YAML is the same for people, Reason why it was to be saved.
	YAML    string
	Reason  string
	Problem string
}

// ConflictField is a field in which the two differ. OnlyOurs: theirs is as it
// was when the edit began; OnlyTheirs the other way round; neither: both changed
// it, or nobody knows, and someone has to choose.
type ConflictField struct {
	Field                string
	Theirs, Ours         any
	OnlyOurs, OnlyTheirs bool
}

const (
	plotWidth  = 360
	plotHeight = 110
)

// tallest is the most units of a slot, at least 1.
func (p *Preview) tallest() int64 {
	top := int64(1)
	for _, s := range p.Slots {
		top = max(top, s.Allowed+s.Denied)
	}
	return top
}

// bars draws what was admitted, or on top of it what was denied.
func (p *Preview) bars(denied bool) string {
	top, width := float64(p.tallest()), float64(plotWidth)/float64(max(1, len(p.Slots)))
	var b strings.Builder
	for i, s := range p.Slots {
		value, base := s.Allowed, int64(0)
		if denied {
			value, base = s.Denied, s.Allowed
		}
		if value == 0 {
			continue
		}
		height, bottom := float64(value)/top*(plotHeight-4), plotHeight-float64(base)/top*(plotHeight-4)
		fmt.Fprintf(&b, "M%s %sv-%sh%sv%sz", short(float64(i)*width), short(bottom), short(height), short(width*.9), short(height))
	}
	return b.String()
}

// borders are the lines between windows.
func (p *Preview) borders() string {
	var b strings.Builder
	for at := p.Window; at < p.Span; at += p.Window {
		fmt.Fprintf(&b, "M%s 0v%d", short(float64(at)/float64(p.Span)*plotWidth), plotHeight)
	}
	return b.String()
}

// previewRow is a stretch of a preview for the table behind the picture.
type previewRow struct {
	From            string
	Allowed, Denied int64
}

// rows are the rows of the table.
func (p *Preview) rows() []previewRow {
	rows := make([]previewRow, len(p.Rows))
	for i, s := range p.Rows {
		rows[i] = previewRow{From: spanShort(p.Span * int64(i) / int64(len(p.Rows))), Allowed: s.Allowed, Denied: s.Denied}
	}
	return rows
}

// spanShort writes ms as 0 s, 1.5 s, 15 min, 6 h, 2 d.
func spanShort(ms int64) string {
	for _, u := range []struct {
		ms   int64
		name string
	}{{86_400_000, "d"}, {3_600_000, "h"}, {60_000, "min"}, {1000, "s"}} {
		if ms >= u.ms {
			return strconv.FormatFloat(float64(ms)/float64(u.ms), 'g', 3, 64) + " " + u.name
		}
	}
	if ms == 0 {
		return "0 s"
	}
	return strconv.FormatInt(ms, 10) + " ms"
}

// label says what the picture shows.
func (p *Preview) label() string {
	return fmt.Sprintf("Of %s units over %s, %s are admitted and %s denied.", Count(p.AllowedUnits+p.DeniedUnits), spanShort(p.Span), Count(p.AllowedUnits), Count(p.DeniedUnits))
}

// row names a field of a row of a list.
func row(list string, i int, field string) string { return fmt.Sprintf("%s[%d].%s", list, i, field) }

// has reports whether the form has something under one of the names, or an
// error: then the part with these fields is shown open.
func (f Form) has(names ...string) bool {
	for _, n := range names {
		for field, vs := range f.Values {
			if strings.HasPrefix(field, n) && strings.Join(vs, "") != "" && !strings.HasSuffix(field, ".unit") && !strings.HasSuffix(field, ".zone") {
				return true
			}
		}
		for field := range f.errors {
			if strings.HasPrefix(field, n) {
				return true
			}
		}
	}
	return false
}

// differs reports whether a choice is not at its default, or wrong.
func (f Form) differs(name, standard string) bool {
	return f.Get(name) != "" && f.Get(name) != standard || f.Error(name) != ""
}

// holds reports whether a field with several values has one.
func (f Form) holds(name, value string) bool {
	for _, v := range f.Values[name] {
		if v == value {
			return true
		}
	}
	return false
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// rulePath is where a rule's pages are.
func rulePath(id int64) string { return "/console/rules/" + number(id) }

// action is where the form is sent.
func (m *Editor) action() string {
	if m.ID == 0 {
		return "/console/rules"
	}
	return rulePath(m.ID)
}

// fieldLabel is a field's name as people read it.
func fieldLabel(field string) string { return strings.ReplaceAll(field, "_", " ") }

var algorithmChoices = []Choice{
	{"sliding_window_counter", "Sliding window (counter), the usual one"}, {"sliding_window_log", "Sliding window (log), exact"},
	{"sliding_window_buckets", "Sliding window (sub-windows)"}, {"fixed_window", "Fixed window"}, {"token_bucket", "Token bucket"},
	{"gcra", "GCRA"}, {"leaky_bucket", "Leaky bucket"}, {"leaky_queue", "Leaky queue, delays"}, {"concurrency", "At a time (concurrency)"},
}

func candidateAlgorithms() []Choice {
	return append([]Choice{{"", "The rule's own"}}, algorithmChoices[:len(algorithmChoices)-1]...)
}

var unitChoices = []Choice{{"ms", "ms"}, {"second", "seconds"}, {"minute", "minutes"}, {"hour", "hours"}, {"day", "days"}, {"week", "weeks"}}

var dayChoices = []Choice{{"mon", "Mon"}, {"tue", "Tue"}, {"wed", "Wed"}, {"thu", "Thu"}, {"fri", "Fri"}, {"sat", "Sat"}, {"sun", "Sun"}}

var alignChoices = []Choice{{"", "The default"}, {"calendar", "by the calendar"}, {"first_hit", "with the first request"}}

// anchor is the id of a part of the form, to which its buttons lead back.
func anchor(title string) string {
	switch title {
	case "Limits by tier":
		return "more-tiers"
	case "By the clock and the calendar":
		return "more-schedule"
	}
	return "more-" + strings.ToLower(strings.Fields(title)[0]) + number(int64(len(title)))
}

// shownDenials is how many denials the preview shows.
const shownDenials = 5

func firstDenials(all []fleet.Denial) []fleet.Denial { return all[:min(len(all), shownDenials)] }

func more5(n int) string {
	if n > shownDenials {
		return ", the latest five:"
	}
	return ":"
}

// denialWords is the request and the rule of a denial.
func denialWords(d *fleet.Denial) string {
	s := d.Route
	if d.Method != "" {
		s = d.Method + " " + s
	}
	return s + " by " + d.Rule + ","
}

// headerText is the headers as they go over the wire.
func (p *Preview) headerText() string {
	var b strings.Builder
	for _, h := range p.Headers {
		b.WriteString(h.Name + ": " + h.Value + "\n")
	}
	return b.String()
}

// jsonWords writes a value of a field: plain ones as diffText does, the others
// as JSON.
func jsonWords(v any) string {
	switch v.(type) {
	case string, bool, int64, float64:
		return diffText(v)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return diffText(v)
	}
	return string(text)
}
