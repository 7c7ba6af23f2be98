package capacity

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
)

// String is the plan for people, with its arithmetic.
func (p Plan) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	l, s := &p.Load, &p.Sizing
	few := func(func(*Plan) string) string { return "" }
	row := func(what, result, how string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\t%s\n", what, result, fmt.Sprintf(how, args...))
	}
	// both adds a row whose second column may differ.
	both := func(what string, result func(*Plan) string, how string, args ...any) {
		row(what, result(&p)+few(result), how, args...)
	}
	if p.Few != nil {
		few = func(result func(*Plan) string) string { return "\t" + result(p.Few) }
		one := row
		row = func(what, result, how string, args ...any) {
			if !strings.Contains(result, "\t") {
				result += "\t="
			}
			one(what, result, how, args...)
		}
		row("", "full calls\tfew gateways", "")
	}
	perSecond, keys := l.PerSecond, l.Keys
	each, ofAll, nodes, exchange := "", "", "", ""
	r := p.Regions
	if r != nil {
		perSecond, keys, each, ofAll = r.LeftPerSecond, r.Keys, " in each region", " of all regions"
		row("regions", fmt.Sprint(l.Regions.Count), "%s checks/s each, %s when one is lost", Number(r.PerSecond),
			Number(r.LeftPerSecond))
		for i := range r.Work {
			work := &r.Work[i]
			row(work.What, Number(work.PerSecond)+"/s", "at most in each region, %s", work.each())
			exchange = " + the rows above"
		}
		if l.Regions.Span == SpanGlobal {
			nodes = fmt.Sprintf(", at least %d to tell of the buckets", r.LeastNodes)
		}
	}
	both("node cores", func(p *Plan) string { return fmt.Sprintf("%.1f", p.Cores) },
		"%s checks/s × %.1f µs%s = %.2f cores busy, ÷ %.0f %%",
		Number(perSecond), p.Micros, exchange, p.BusyCores, s.Busy*100)
	both("nodes"+each, func(p *Plan) string { return fmt.Sprint(p.Nodes) },
		"%d cores each, including one spare node%s", s.NodeCores, nodes)
	both("Redis shards for load", func(p *Plan) string { return fmt.Sprint(p.ShardsForLoad) },
		"%s checks/s × %.1f µs%s = %.2f threads busy, ÷ %.0f %%",
		Number(perSecond), p.RedisMicros, exchange, p.BusyShards, s.Busy*100)
	more := ""
	if l.Entries != nil {
		more = fmt.Sprintf(" (a log of %s entries)", Number(float64(*l.Entries)))
	}
	more += fmt.Sprintf(" × %.2g", s.Overhead)
	if r != nil && r.RecordBytes > 0 {
		more += fmt.Sprintf(" + %s of records", Bytes(r.RecordBytes))
	}
	row("Redis memory", Bytes(p.Memory), "%s keys × %.0f bytes%s", Number(keys), p.KeyBytes, more)
	row("Redis shards for memory", fmt.Sprint(p.ShardsForMemory), "%s each", Bytes(s.ShardBytes))
	both("Redis servers"+each, func(p *Plan) string { return fmt.Sprint(p.RedisServers) },
		"shards: %d, each with a replica", p.Shards)
	if r != nil {
		p.exchangeRows(row)
	}
	both("hours per month"+ofAll, func(p *Plan) string { return Number(p.NodeHours + p.ShardHours) },
		"%s for nodes and %s for Redis servers, %d hours per month", Number(p.NodeHours), Number(p.ShardHours), HoursAMonth)
	if p.Cost > 0 {
		both("cost per month", func(p *Plan) string { return fmt.Sprintf("%.2f", p.Cost) },
			"%.4g per node hour, %.4g per Redis server hour", s.NodePrice, s.ShardPrice)
	}
	_ = w.Flush() // a strings.Builder does not fail
	if p.Few != nil {
		fmt.Fprintf(&b, "full calls: script calls of Redis carry %d checks, as while more than a hundred requests wait for "+
			"Redis at each node\n"+
			"few gateways: %d busy connections to each node, %.1f µs of a node and %.1f µs of Redis a check\n",
			p.CallChecks, p.Few.Connections, p.Few.Micros, p.Few.RedisMicros)
	}
	return trimmed(b.String())
}

// trimmed cuts off the blanks at the ends of lines.
func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// each is what one costs.
func (w *Work) each() string {
	if w.RedisMicros == 0 {
		return fmt.Sprintf("%.1f µs of a node each", w.Micros)
	}
	return fmt.Sprintf("%.1f µs of a node and %.1f µs of Redis each", w.Micros, w.RedisMicros)
}

// exchangeRows adds the rows about the exchange of regions.
func (p Plan) exchangeRows(row func(what, result, how string, args ...any)) {
	r, in, f := p.Regions, p.Load.Regions, p.Regions.costs
	others := in.Count - 1
	switch in.Span {
	case SpanRegion:
		return
	case SpanGlobal:
		row("to each other region", Bytes(r.Bytes)+"/s",
			"%s buckets/s × %.0f bytes + %s messages/s × %.0f bytes, and as much from it",
			Number(r.Work[0].PerSecond), f.BucketWire, Number(r.Messages), f.MessageWire)
		over := fmt.Sprintf("(%g ms + %d ms) × %d/%d", in.DelayMS, RegionInterval, others, in.Count)
		if in.KeyPerSecond == 0 {
			row("over-admission", fmt.Sprintf("%.0f ms", r.OverMS), "of what a key is asked for, at most: %s", over)
			break
		}
		if in.Limit > 0 {
			over += fmt.Sprintf(", %.1f %% of the limit", r.OverPercent)
		}
		row("over-admission", Number(math.Ceil(r.OverUnits))+" units", "at most: %s/s of a key × %s",
			Number(in.KeyPerSecond), over)
	case SpanShares:
		row("to each other region", fmt.Sprintf("%.3g/min", r.Messages*60),
			"messages, up to four times as many while a share is missing")
		row("until a share is lent", fmt.Sprintf("%g s", r.LendMS/1000),
			"at most: 3 intervals of %d s, %g s for nodes and clocks, %g s in which spent units count",
			ShareInterval/1000, f.LendMS/1000, (r.LendMS-f.LendMS-3*ShareInterval)/1000)
	case SpanExact:
		row("to each other region", Bytes(r.Bytes)+"/s",
			"%s calls/s × %.0f bytes + %s messages/s × %.0f bytes, and as much from it",
			Number(r.Work[0].PerSecond/float64(others)), f.CallWire, Number(r.Messages), f.MessageWire)
		row("added latency", fmt.Sprintf("%g ms", r.RoundTripMS), "a round trip, for %.0f %% of the checks", 100*r.Away)
		row("decided by fail modes", fmt.Sprintf("%.0f %%", 100/float64(in.Count)),
			"of the keys while a region is lost, until it is off the list")
	}
	row("connections of a node", fmt.Sprint(r.Connections), "at most, with one address for each other region")
}

// Number writes a count with commas between thousands.
func Number(v float64) string {
	digits := fmt.Sprintf("%.0f", math.Round(v))
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// Bytes writes an amount of memory in binary units.
func Bytes(v float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; v >= 1024 && i < len(units)-1; i++ {
		v /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%.0f B", v)
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}
