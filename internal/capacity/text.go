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
	row := func(what, result, how string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\t%s\n", what, result, fmt.Sprintf(how, args...))
	}
	row("node cores", fmt.Sprintf("%.1f", p.Cores), "%s checks/s × %.1f µs = %.2f cores busy, ÷ %.0f %%",
		Number(l.PerSecond), p.Micros, p.BusyCores, s.Busy*100)
	row("nodes", fmt.Sprint(p.Nodes), "%d cores each, including one spare node", s.NodeCores)
	row("Redis shards for load", fmt.Sprint(p.ShardsForLoad), "%s checks/s × %.1f µs = %.2f threads busy, ÷ %.0f %%",
		Number(l.PerSecond), p.RedisMicros, p.BusyShards, s.Busy*100)
	logs := ""
	if l.Entries != nil {
		logs = fmt.Sprintf(" (a log of %s entries)", Number(float64(*l.Entries)))
	}
	row("Redis memory", Bytes(p.Memory), "%s keys × %.0f bytes%s × %.2g", Number(l.Keys), p.KeyBytes, logs, s.Overhead)
	row("Redis shards for memory", fmt.Sprint(p.ShardsForMemory), "%s each", Bytes(s.ShardBytes))
	row("Redis servers", fmt.Sprint(p.RedisServers), "shards: %d, each with a replica", p.Shards)
	row("hours per month", Number(p.NodeHours+p.ShardHours), "%s for nodes and %s for Redis servers, %d hours per month",
		Number(p.NodeHours), Number(p.ShardHours), HoursAMonth)
	if p.Cost > 0 {
		row("cost per month", fmt.Sprintf("%.2f", p.Cost), "%.4g per node hour, %.4g per Redis server hour", s.NodePrice,
			s.ShardPrice)
	}
	_ = w.Flush() // a strings.Builder does not fail
	return b.String()
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
