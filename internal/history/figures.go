package history

import "time"

// Figures are the counts of a period, in requests. For a rule they count the decisions of its limit, without a rule the
// decisions on requests as a whole.
type Figures struct {
	// Allowed and Denied were enforced. Denied includes Shed; for requests as a whole it also includes overload
	// denials, which no rule decided.
	Allowed, Denied int64
	// Soft and Elastic count requests that were allowed above the limit. Allowed includes them.
	Soft, Elastic int64
	// Shed counts requests that were denied because a pool had no room.
	Shed int64
	// Degraded counts decisions of fail modes. Allowed and Denied include them.
	Degraded int64
	// WouldDeny were allowed by the rule, and its candidate or the shadow rule denies them.
	WouldDeny int64
	// WouldAllow were denied by the rule, and its candidate allows them; or they were denied by rules that a shadow rule
	// would replace, and it allows them.
	WouldAllow int64
	// Use is the highest use of the limit by one key, as UseOf returns it; 0 if it is unknown. It is always unknown for
	// requests as a whole.
	Use int64
	// Failed is how often the condition of the rule failed, so that the rule applied.
	Failed int64
	// DegradedDenied counts the decisions of Degraded that denied. The points of GET /ratelimit/stats contain neither
	// DegradedDenied nor Use nor Failed.
	DegradedDenied int64
}

// maxUse bounds a use, in percent.
const maxUse = 999

// UseOf returns the use of a limit in percent, plus 1, so that 0 means unknown. A limit of 0 is always used up.
func UseOf(used, limit int64) int64 {
	if limit <= 0 {
		return 100 + 1
	}
	return min(max(0, used)*100/limit, maxUse) + 1 // used is at most twice limiter.MaxExact
}

// UsePercent is the use in percent, 0 to 999, -1 if it is not known.
func (f *Figures) UsePercent() int64 { return f.Use - 1 }

// NumFigures is the number of counts.
const NumFigures = 8

// FigureNames are the names of the counts in the order of Array, as the API and CSV have them.
var FigureNames = [NumFigures]string{"allowed", "denied", "soft", "elastic", "shed", "degraded", "would_deny",
	"would_allow"}

// Array returns the counts in the order of the points of GET /ratelimit/stats.
func (f *Figures) Array() (a [NumFigures]int64) {
	for i := range a {
		a[i] = *f.at(i)
	}
	return a
}

// FiguresOf is the reverse of Array.
func FiguresOf(a [NumFigures]int64) (f Figures) {
	for i, n := range a {
		*f.at(i) = n
	}
	return f
}

// Decided is the decision on a request, or on one limit of it. The fields correspond to the fields of Figures.
type Decided struct {
	Allowed, Soft, Elastic, Shed, Degraded, WouldDeny, WouldAllow, Failed bool
	// Use is UseOf the limit, 0 if it is not known.
	Use int64
}

// counts says which of the counts, in the order of Array, a decision raises.
func (d *Decided) counts() [NumFigures]bool {
	return [...]bool{d.Allowed, !d.Allowed, d.Soft, d.Elastic, d.Shed, d.Degraded, d.WouldDeny, d.WouldAllow}
}

// allFigures are the counts, Use, Failed and DegradedDenied, as nodes post and pack them.
type allFigures [NumFigures + 3]int64

func (f *Figures) all() (a allFigures) {
	for i := range a {
		a[i] = *f.at(i)
	}
	return a
}

func (a *allFigures) figures() (f Figures) {
	for i, n := range a {
		*f.at(i) = n
	}
	return f
}

// at is the count with a place in the order of Array, then Use, Failed and DegradedDenied.
func (f *Figures) at(i int) *int64 {
	switch i {
	case 0:
		return &f.Allowed
	case 1:
		return &f.Denied
	case 2:
		return &f.Soft
	case 3:
		return &f.Elastic
	case 4:
		return &f.Shed
	case 5:
		return &f.Degraded
	case 6:
		return &f.WouldDeny
	case 7:
		return &f.WouldAllow
	case NumFigures:
		return &f.Use
	case NumFigures + 1:
		return &f.Failed
	}
	return &f.DegradedDenied
}

// Add adds o. The use is the higher one.
func (f *Figures) Add(o Figures) {
	f.Allowed += o.Allowed
	f.Denied += o.Denied
	f.Soft += o.Soft
	f.Elastic += o.Elastic
	f.Shed += o.Shed
	f.Degraded += o.Degraded
	f.WouldDeny += o.WouldDeny
	f.WouldAllow += o.WouldAllow
	f.Use = max(f.Use, o.Use)
	f.Failed += o.Failed
	f.DegradedDenied += o.DegradedDenied
}

// Total is the number of enforced decisions.
func (f Figures) Total() int64 { return f.Allowed + f.Denied }

// Point are the figures of the period that begins at At. Unless Known is set, nothing is known of it, which is not 0.
type Point struct {
	At    time.Time
	Known bool
	Figures
	// Peak is the largest number of enforced decisions in a second of the period, -1 if it is not known.
	Peak int64
}

// Series are the points of one rule, or of all requests, without gaps, oldest first.
type Series struct {
	// Rule is the name of a rule, "" for all requests.
	Rule   string
	Points []Point
}

// Sum adds up what is known.
func (s *Series) Sum() (sum Figures, peak int64) {
	peak = -1
	for i := range s.Points {
		if p := &s.Points[i]; p.Known {
			sum.Add(p.Figures)
			peak = max(peak, p.Peak)
		}
	}
	return sum, peak
}

// Row is one line of a table of the most active keys, routes, tenants, nodes or rules.
type Row struct {
	Key             string
	Allowed, Denied int64
	// Error is by how much each of the two may differ from what was decided: the counts are of a bounded sketch, which
	// counts a sample under heavy traffic. 0 for rules and nodes, which are counted exactly.
	Error int64
	// Peak is the largest number of decisions in a second, -1 if it is not known.
	Peak int64
	// Line are the decisions of equal parts of the range, oldest first, for a small chart; LineUnknown for a part of which
	// they are not known.
	Line []int64
}

// LineUnknown is the part of a Line of which nothing is known.
const LineUnknown = -1
