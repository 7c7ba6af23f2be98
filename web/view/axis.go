package view

import (
	"math"
	"time"

	"sluice/internal/history"
	"sluice/rules/quantity"
)

// Sizes of a drawn chart over time, in its own units.
const (
	chartWidth  = 600
	chartHeight = 160
	chartTop    = 4 // the height above the largest tick, in which a strip is
)

// Values is the axis of the values of a chart, from 0 to its last tick, in requests per second.
type Values []float64

// mostSteps is the largest number of steps of an axis of values. The least is 3, because neighbouring steps differ by
// at most a factor of 2.5.
const mostSteps = 5

// ValuesTo is an axis with 4 to 6 ticks on which top fits. Its ticks are multiples of 1, 2 or 5 times a power of ten.
// If top is 0 or less, the axis ends at 1.
func ValuesTo(top float64) Values {
	if !(top > 0) {
		top = 1
	}
	power := int(math.Floor(math.Log10(top / mostSteps)))
	top *= 1 - 1e-9 // what a division has rounded up needs no step more
	for _, factor := range []int{1, 2, 5, 10, 20} {
		n := int(math.Ceil(top / roundValue(factor, power)))
		if n > mostSteps {
			continue
		}
		axis := make(Values, n+1)
		for i := range axis {
			axis[i] = roundValue(i*factor, power)
		}
		return axis
	}
	return Values{0, top} // not reached: 20 × 10^power is above a fifth of top
}

// roundValue is n × 10^power, with the rounding of a division, so that it has no superfluous decimals.
func roundValue(n, power int) float64 {
	if power < 0 {
		return float64(n) / math.Pow10(-power)
	}
	return float64(n) * math.Pow10(power)
}

// Top is the last tick.
func (v Values) Top() float64 { return v[len(v)-1] }

// Height is the height of a value in a drawn chart.
func (v Values) Height(value float64) float64 { return value / v.Top() * (chartHeight - chartTop) }

// grid draws a line at each tick.
func (v Values) grid() string {
	path := ""
	for _, tick := range v {
		path += "M0 " + Tenths(chartHeight-v.Height(tick)) + "H" + Digits(chartWidth)
	}
	return path
}

// place is where a tick is on the axis, in percent from the top.
func (v Values) place(tick float64) string { return Share(chartHeight-v.Height(tick), chartHeight) }

// Share is a part of a whole in percent, as a place in SVG.
func Share(part, whole float64) string { return Tenths(100*part/whole) + "%" }

// words writes a tick with its unit.
func (v Values) words(tick float64) string { return quantity.RoundRate(tick) }

// Times is the axis of the time of a chart.
type Times struct {
	From, To time.Time
	// Days means that points are days of UTC. Otherwise the script moves the ticks to round times in the viewer's zone.
	Days bool
}

// mostTicks is the largest number of ticks of an axis of time. The least is 3.
const mostTicks = 7

// timeSteps are the distances of ticks, smallest first: a length, or a number of months.
var timeSteps = func() (all []timeStep) {
	for _, s := range []int64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200} {
		all = append(all, timeStep{length: time.Duration(s) * time.Second})
	}
	for _, days := range []int64{1, 2, 4, 7, 14} {
		all = append(all, timeStep{length: time.Duration(days) * history.Day})
	}
	for _, months := range []int{1, 2, 3, 6, 12, 24, 60} {
		all = append(all, timeStep{months: months})
	}
	return all
}()

type timeStep struct {
	length time.Duration
	months int
}

// step is the distance of the ticks: the smallest with at most mostTicks.
func (t Times) step() timeStep {
	for _, s := range timeSteps {
		if (s.length == 0 || t.To.Sub(t.From) < (mostTicks+1)*s.length) && len(s.ticks(t.From, t.To)) <= mostTicks {
			return s
		}
	}
	return timeSteps[len(timeSteps)-1]
}

// ticks are the round times from an instant to another one, both included. Those at whole weeks are Mondays.
func (s timeStep) ticks(from, to time.Time) (out []time.Time) {
	at, next := from.Truncate(s.length), func(at time.Time) time.Time { return at.Add(s.length) }
	if s.months > 0 {
		years := max(1, s.months/12)
		at = time.Date(from.Year()-from.Year()%years, 1, 1, 0, 0, 0, 0, time.UTC)
		next = func(at time.Time) time.Time { return at.AddDate(0, s.months, 0) }
	}
	for ; !at.After(to); at = next(at) {
		if !at.Before(from) {
			out = append(out, at)
		}
	}
	return out
}

// Ticks are 3 to 7 round times, if the axis is at least 2 s long and has whole seconds.
func (t Times) Ticks() []time.Time { return t.step().ticks(t.From, t.To) }

// stepMillis is the distance of ticks that the script moves, "" for ticks that stay at their time in UTC.
func (t Times) stepMillis() string {
	if s := t.step(); !t.Days && s.months == 0 {
		return Digits(s.length.Milliseconds())
	}
	return ""
}

// place is where an instant is on the axis, in percent.
func (t Times) place(at time.Time) string {
	return Share(float64(at.Sub(t.From)), float64(max(1, t.To.Sub(t.From))))
}

// kind is how a label stands at its tick: those at the ends stay within the chart. On a narrow chart, labels that are
// odd are left out.
func (t Times) kind(i int, at time.Time) string {
	kind := "middle"
	part := float64(at.Sub(t.From)) / float64(max(1, t.To.Sub(t.From)))
	switch {
	case part < .04:
		kind = "start"
	case part > .96:
		kind = "end"
	}
	if i%2 == 1 {
		kind += " odd"
	}
	return kind
}

// words writes a tick in UTC.
func (t Times) words(i int, at time.Time) string {
	s := t.step()
	switch {
	case s.months >= 12:
		return at.Format("2006")
	case s.months > 0:
		return at.Format("Jan 2006")
	case s.length >= history.Day || at.Equal(at.Truncate(history.Day)):
		return at.Format("Jan 2")
	}
	text := at.Format("15:04")
	if s.length < time.Minute {
		text = at.Format("15:04:05")
	}
	if i == 0 {
		text += " UTC"
	}
	return text
}
