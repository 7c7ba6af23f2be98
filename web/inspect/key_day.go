package inspect

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/internal/history"
	"sluice/rules/match"
	"sluice/web/view"
)

// hoursOfDay is the number of hours that KeyDay shows.
const hoursOfDay = 24

// KeyDay are the decisions on a key or a tenant in 24 hours, by the rules that made them. Keys are counted in bounded
// sketches, so only the hours are known in which the key was among the most active ones of a rule.
type KeyDay struct {
	From, To time.Time
	// Layers are the rules with the most decisions, the most active first. The last one may stand for the rest.
	Layers []KeyLayer
	// Unreadable means that the figures of some rule could not be read. Partial describes other missing data, nil if
	// there is none.
	Unreadable bool
	Partial    error
	// Marks are the events between From and To.
	Marks view.Marks
}

// KeyLayer is a part of the bars of a KeyDay.
type KeyLayer struct {
	// Rule is the name of a rule, or words for the rest.
	Rule string
	// Hours are the decisions of each hour, -1 for unknown hours.
	Hours []int64
}

// mostLayers is the largest number of rules that have a separate color.
const mostLayers = 5

// RuleDay counts the decisions of a rule on a key or a tenant in the range of a KeyDay.
type RuleDay struct {
	Rule string
	// Day are the decisions, nil if it was never among the most active ones.
	Day *history.Row
	// Hours are the decisions of each hour, -1 for unknown hours.
	Hours []int64
}

// dayOf reads the decisions of rules on the key or the tenant (by) called name, into list.
func (p *Pages) dayOf(ctx context.Context, by, name string, list []*RuleDay) KeyDay {
	end := p.Now().UTC().Truncate(time.Hour).Add(time.Hour)
	d := KeyDay{From: end.Add(-hoursOfDay * time.Hour), To: end}
	for _, r := range list {
		row, partial, err := p.readRow(ctx, history.Query{Rule: r.Rule, By: by, From: d.From, To: d.To, Step: time.Hour},
			name)
		r.Day, r.Hours = row, partsKnown(row, d.From, d.To, time.Hour)
		d.Partial = cmp.Or(d.Partial, partial)
		if err != nil { // neither could the others be read
			d.Unreadable = true
			break
		}
	}
	d.stack(list)
	return d
}

// rowOf is readRow without partial.
func (p *Pages) rowOf(ctx context.Context, q history.Query, name string) (*history.Row, error) {
	row, _, err := p.readRow(ctx, q, name)
	return row, err
}

// readRow returns the row of a name in an answer, nil if the answer does not contain it. partial describes missing data
// of the answer.
func (p *Pages) readRow(ctx context.Context, q history.Query, name string) (row *history.Row, partial, err error) {
	res, err := p.Stats.Stats(ctx, q)
	if err != nil {
		p.Logger.Warn("the console could not read figures of a key", "error", err)
		return nil, nil, err
	}
	for i := range res.Top {
		if res.Top[i].Key == name {
			return &res.Top[i], res.Partial, nil
		}
	}
	return nil, res.Partial, nil
}

// partsKnown returns the decisions of each step of a range, -1 for unknown steps. A part of a row by key or tenant is
// one step long: the parts of such a row are hours or days.
func partsKnown(row *history.Row, from, to time.Time, step time.Duration) []int64 {
	out := slices.Repeat([]int64{history.LineUnknown}, int(to.Sub(from)/step))
	if row != nil && len(row.Line) == len(out) {
		copy(out, row.Line)
	}
	return out
}

// stack makes the layers of the rules with known decisions.
func (d *KeyDay) stack(list []*RuleDay) {
	active := slices.Clone(list)
	active = slices.DeleteFunc(active, func(r *RuleDay) bool { return r.Day == nil })
	slices.SortStableFunc(active, func(a, b *RuleDay) int {
		return cmp.Compare(b.Day.Allowed+b.Day.Denied, a.Day.Allowed+a.Day.Denied)
	})
	for i, r := range active {
		if i < mostLayers || len(active) == mostLayers+1 {
			d.Layers = append(d.Layers, KeyLayer{r.Rule, slices.Clone(r.Hours)})
			continue
		}
		if i == mostLayers {
			others := view.Plural(int64(len(active)-mostLayers), "other rule")
			d.Layers = append(d.Layers, KeyLayer{others, slices.Clone(r.Hours)})
			continue
		}
		rest := d.Layers[mostLayers].Hours
		for h, n := range r.Hours {
			if n >= 0 {
				rest[h] = max(0, rest[h]) + n
			}
		}
	}
}

// total returns the known decisions of an hour, -1 if none are known.
func (d *KeyDay) total(hour int) int64 {
	sum := int64(-1)
	for i := range d.Layers {
		if n := d.Layers[i].Hours[hour]; n >= 0 {
			sum = max(0, sum) + n
		}
	}
	return sum
}

// values is the axis of the values, on which the largest rate fits.
func (d *KeyDay) values() view.Values {
	top := int64(0)
	for i := range hoursOfDay {
		top = max(top, d.total(i))
	}
	return view.ValuesTo(rateOf(top))
}

// rateOf is a number of decisions in an hour as decisions per second.
func rateOf(n int64) float64 { return float64(n) / time.Hour.Seconds() }

// rateWords is rateOf for people, "" for an unknown number.
func rateWords(n int64) string {
	if n < 0 {
		return ""
	}
	return view.PerSecond(rateOf(n))
}

// Sizes of the drawn chart, in its own units.
const (
	dayWidth  = 600.0
	dayHeight = 160.0
)

// bars draws a layer.
func (d *KeyDay) bars(layer int, axis view.Values) string {
	var b strings.Builder
	const width = dayWidth / hoursOfDay
	for h, n := range d.Layers[layer].Hours {
		if n <= 0 {
			continue
		}
		below := int64(0)
		for i := range layer {
			below += max(0, d.Layers[i].Hours[h])
		}
		fmt.Fprintf(&b, "M%s %sh%sv-%sh-%sz", view.Tenths(float64(h)*width+.5),
			view.Tenths(dayHeight-axis.Height(rateOf(below))), view.Tenths(width-1),
			view.Tenths(max(axis.Height(rateOf(n)), .5)), view.Tenths(width-1))
	}
	return b.String()
}

// gaps draws the unknown hours.
func (d *KeyDay) gaps() string {
	var b strings.Builder
	const width = dayWidth / hoursOfDay
	for h := range hoursOfDay {
		if d.total(h) < 0 {
			fmt.Fprintf(&b, "M%s 0h%sv%sh-%sz", view.Tenths(float64(h)*width), view.Tenths(width), view.Tenths(dayHeight),
				view.Tenths(width))
		}
	}
	return b.String()
}

// at is the start of an hour.
func (d *KeyDay) at(hour int) time.Time { return d.From.Add(time.Duration(hour) * time.Hour) }

// words describes the chart.
func (d *KeyDay) words() string {
	known := 0
	for h := range hoursOfDay {
		if d.total(h) >= 0 {
			known++
		}
	}
	if known == 0 {
		return "Nothing is known of the last 24 hours."
	}
	var parts []string
	for i := range d.Layers {
		sum := int64(0)
		for _, n := range d.Layers[i].Hours {
			sum += max(0, n)
		}
		parts = append(parts, d.Layers[i].Rule+" "+view.Count(sum))
	}
	return "Decisions in " + view.Plural(int64(known), "known hour") + " of the last 24: " +
		strings.Join(parts, ", ") + "."
}

// layerClass is the color of a layer.
func layerClass(i int) string { return "layer-" + view.Digits(i+1) }

// most is the largest number of units that can be in use within the limit, 0 for a blocked key.
func (b *BucketFigures) most() int64 {
	if b.Burst != nil {
		return *b.Burst
	}
	return b.Limit
}

// usedPercent is the part of a limit that is in use, in percent. It may exceed 100. For a limit of 0 it is 100.
func (b *BucketFigures) usedPercent() int64 {
	limit := b.most()
	if limit <= 0 {
		return 100
	}
	return int64(math.Ceil(float64(b.Used) / float64(limit) * 100))
}

// usedWidth is the width of the used part of a bar of 100.
func (b *BucketFigures) usedWidth() string { return view.Digits(min(100, b.usedPercent())) }

// usedWords is usedPercent for people, "" if there is nothing to use.
func (b *BucketFigures) usedWords() string {
	if b.NoLimit || b.most() <= 0 {
		return ""
	}
	return view.Percent(b.Used, b.most())
}

// barWords describes the bar of the used part.
func (b *BucketFigures) barWords() string {
	if words := b.usedWords(); words != "" {
		return words + " in use"
	}
	return "limit 0"
}

// overridesLink is the address of the override of a bucket.
func overridesLink(r *KeyRule) string {
	return view.RulePath(r.Bucket.Rule.Rule.ID) + "/overrides?" + url.Values{"q": {r.Bucket.Exception}}.Encode()
}

// countWords writes a number, "–" if it is not known.
func countWords(n int64) string {
	if n < 0 {
		return "–"
	}
	return view.Count(n)
}

// rowWords writes a figure of a row with its error, "not known" without a row.
func rowWords(row *history.Row, figure func(*history.Row) int64) string {
	if row == nil {
		return "not known"
	}
	s := view.Count(figure(row))
	if row.Error > 0 {
		s += " ± " + view.Count(row.Error)
	}
	return s
}

func allowedOf(r *history.Row) int64 { return r.Allowed }
func deniedOf(r *history.Row) int64  { return r.Denied }

// effectWords describes the effect of the override of a bucket, "" if there is no override.
func effectWords(b *match.Bucket) string {
	switch {
	case b.Override.ID == 0:
		return ""
	case b.Override.Blocked:
		return "blocked"
	case b.Override.Unlimited:
		return "unlimited"
	}
	if b.Override.KeepsLimit {
		return "periods of its own"
	}
	return "limit " + view.Count(b.Limit.Count)
}
