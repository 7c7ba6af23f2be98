package history

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/wire"
)

// maxTrials is the largest number of trials that a node counts in an hour. It does not count requests of further
// trials.
const maxTrials = 1000

// Trial names a limit on trial, which never denies, by the version of its rule.
type Trial struct{ Rule, Version int64 }

// TrialCounts counts the requests of a trial since it began.
type TrialCounts struct {
	// Seen counts all requests, Denied the requests that the trial would have denied.
	Seen, Denied int64
	// Compared counts the requests of Seen for which the decision of the present rule is also known; for a shadow rule,
	// the decision of the rules that it would replace. It is less than Seen if a fail mode decided.
	Compared int64
	// NewlyDenied counts requests that the rule allowed and the trial denied, NewlyAllowed requests that the rule
	// denied and the trial allowed.
	NewlyDenied, NewlyAllowed int64
	// Keys are the keys of the requests that would change, in the form of samples of denials. Denied of an entry counts
	// newly denied requests, Allowed newly allowed ones.
	Keys Top
	// First is the time of the first request, zero without requests.
	First time.Time
}

// Changes is the number of requests that would change.
func (c *TrialCounts) Changes() int64 { return c.NewlyDenied + c.NewlyAllowed }

// Add adds o.
func (c *TrialCounts) Add(o TrialCounts) {
	c.Seen += o.Seen
	c.Denied += o.Denied
	c.Compared += o.Compared
	c.NewlyDenied += o.NewlyDenied
	c.NewlyAllowed += o.NewlyAllowed
	if len(o.Keys.Entries) > 0 {
		c.Keys = MergeTops([]Tops{{ByKey: c.Keys}, {ByKey: o.Keys}})[ByKey]
	}
	if c.First.IsZero() || !o.First.IsZero() && o.First.Before(c.First) {
		c.First = o.First
	}
}

// Tried is the decision of a limit on trial on a request.
type Tried struct {
	Allowed bool
	// Was is the decision of the present rule, or of the rules that a shadow rule would replace. It is valid only if
	// Compared is set.
	Was, Compared bool
}

// Trial counts one request that a limit on trial decided. It calls key if the request would change.
func (r *Recorder) Trial(t Trial, d Tried, key func() string) {
	c, ok := r.trials.Load(t)
	if !ok {
		if r.knownTrials.Load() >= maxTrials {
			return
		}
		if c, ok = r.trials.LoadOrStore(t, &trialFigures{}); !ok {
			r.knownTrials.Add(1)
		}
	}
	f, _ := c.(*trialFigures) // the map holds nothing else
	f.seen.Add(1)
	if !d.Allowed {
		f.denied.Add(1)
	}
	if !d.Compared {
		return
	}
	f.compared.Add(1)
	if d.Allowed != d.Was {
		f.change(key(), d.Allowed)
	}
}

type trialFigures struct {
	seen, denied, compared atomic.Int64

	mu                        sync.Mutex
	newlyDenied, newlyAllowed int64
	keys                      *Sketches // nil until a request would change
}

// change counts a request that would change.
func (f *trialFigures) change(key string, allowed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys == nil {
		f.keys = NewSketches()
	}
	f.keys.Add(ByKey, key, allowed, 1)
	if allowed {
		f.newlyAllowed++
	} else {
		f.newlyDenied++
	}
}

// take returns the counts since the last call.
func (f *trialFigures) take() TrialCounts {
	c := TrialCounts{Seen: f.seen.Swap(0), Denied: f.denied.Swap(0), Compared: f.compared.Swap(0)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys != nil {
		c.NewlyDenied, c.NewlyAllowed, c.Keys = f.newlyDenied, f.newlyAllowed, f.keys.Tops()[ByKey]
		f.newlyDenied, f.newlyAllowed, f.keys = 0, 0, nil
	}
	return c
}

// gatherTrials returns the counts since the last call.
func (r *Recorder) gatherTrials() map[Trial]TrialCounts {
	out := map[Trial]TrialCounts{}
	r.trials.Range(func(k, v any) bool {
		t, _ := k.(Trial)
		f, _ := v.(*trialFigures)
		if c := f.take(); c.Seen > 0 || c.Compared > 0 || c.Changes() > 0 { // a request may be counted in two parts
			out[t] = c
		}
		return true
	})
	if r.knownTrials.Load() >= maxTrials {
		r.trials.Clear() // including trials that have ended
		r.knownTrials.Store(0)
	}
	return out
}

// TrialPrefix begins the names under which trials are stored. No rule has such a name.
const TrialPrefix = "%"

// name is the name of a trial in the store.
func (t Trial) name() string { return fmt.Sprintf("%s%d:%d", TrialPrefix, t.Rule, t.Version) }

// packedTrial is the first byte of a packed trial.
const packedTrial = 4

// pack writes the counts of a trial. Its keys are packed as tops.
func (c *TrialCounts) pack() []byte {
	out := []byte{packedTrial}
	for _, n := range []int64{c.Seen, c.Denied, c.First.UnixMilli(), c.Compared, c.NewlyDenied, c.NewlyAllowed} {
		out = binary.AppendUvarint(out, uint64(max(0, n)))
	}
	return out
}

// PackTrial packs what a process counted of a trial in an hour. It serves measurements and sluice demo, as PackHour
// does.
func PackTrial(writer int64, t Trial, hour int64, c *TrialCounts) LiveRow {
	return LiveRow{Writer: writer, Rule: t.name(), Hour: hour, Data: c.pack(),
		Tops: packTops(Tops{ByKey: c.Keys}, topKeys)}
}

// unpackTrial reads what pack wrote. Anything else counts as zero.
func unpackTrial(data, tops []byte) TrialCounts {
	in := wire.Read(data)
	if in.Byte() != packedTrial {
		return TrialCounts{}
	}
	var c TrialCounts
	var first int64
	for _, n := range []*int64{&c.Seen, &c.Denied, &first, &c.Compared, &c.NewlyDenied, &c.NewlyAllowed} {
		*n = in.Number(math.MaxInt64)
	}
	if !in.Done() {
		return TrialCounts{}
	}
	c.First, c.Keys = time.UnixMilli(first), unpackTops(tops)[ByKey]
	return c
}

// Trial adds up the counts of all nodes for a trial that several versions of a rule share. The counts of the last
// seconds come from the board, like the figures of the rule. While the board is unavailable, counts of other nodes are
// up to two minutes old. Errors wrap rules.ErrUnavailable.
func (r *Reader) Trial(ctx context.Context, rule int64, versions []int64) (TrialCounts, error) {
	names := make([]string, len(versions))
	for i, v := range versions {
		names[i] = Trial{rule, v}.name()
	}
	type ofHour struct {
		writer, hour int64
		name         string
	}
	newest := map[ofHour]TrialCounts{}
	var sum TrialCounts
	see := func(row *StoredRow) {
		c := unpackTrial(row.Data, row.Tops)
		if row.Kind != KindLive {
			sum.Add(c)
			return
		}
		of := ofHour{row.Writer, row.Period, row.Rule}
		if was := newest[of]; c.Seen+c.Compared+c.Changes() >= was.Seen+was.Compared+was.Changes() { // a row only grows
			newest[of] = c
		}
	}
	parts := []Part{{KindTrials, 0, math.MaxInt64, false}, {KindLive, 0, math.MaxInt64, false}}
	if err := r.read(ctx, names, parts, Both, see); err != nil {
		return TrialCounts{}, fmt.Errorf("read the trial of rule %d: %w", rule, err)
	}
	r.opt.Live.trials(ctx, names, see)
	for _, c := range newest {
		sum.Add(c)
	}
	return sum, nil
}

const (
	// trialsTTL is how long the rows of trials of an hour are kept on the board: until every node has written them.
	trialsTTL = 2 * time.Hour
	// maxPostedTrials is the largest number of rows of trials in a post. The others are in the next ones.
	maxPostedTrials = 100
)

// trialsTable has the rows of trials of an hour, by node and name.
func trialsTable(hour int64) string { return fmt.Sprintf("r:%d", hour) }

// appendTrials writes rows of trials.
func appendTrials(out []Entry, rows []LiveRow) []Entry {
	for i := range rows {
		r := &rows[i]
		packed := wire.AppendText(wire.AppendText(nil, string(r.Data)), string(r.Tops))
		out = append(out, Entry{Table: trialsTable(r.Hour), Field: NodeID(r.Writer) + " " + r.Rule, Value: string(packed),
			TTL: trialsTTL})
	}
	return out
}

// trials visits the rows of the named trials that nodes posted in this hour and the previous one. Rows of older hours
// are in the store.
func (r *LiveReader) trials(ctx context.Context, names []string, see func(*StoredRow)) {
	hour := r.now().Unix() / 3600
	read, _ := r.tables(ctx, []string{trialsTable(hour - 1), trialsTable(hour)}) // without the board, the store has most
	for i, fields := range read {
		for field, text := range fields {
			node, name, _ := strings.Cut(field, " ")
			writer, err := strconv.ParseInt(node, 36, 64)
			if err != nil || !slices.Contains(names, name) {
				continue
			}
			in := wire.Read([]byte(text))
			row := StoredRow{Kind: KindLive, Writer: writer, Rule: name, Period: hour - 1 + int64(i),
				Data: []byte(in.Text(maxRowBytes)), Tops: []byte(in.Text(maxRowBytes))}
			if in.Done() {
				see(&row)
			}
		}
	}
}
