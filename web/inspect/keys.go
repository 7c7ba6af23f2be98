package inspect

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/internal/history"
	"sluice/internal/usage"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
	"sluice/web/kit"
	"sluice/web/view"
)

// recentOfKey is how many requests the page of a key shows.
const recentOfKey = 10

// keyPage shows a key: the decisions of all rules on it, its remaining quota, its override, and recent requests.
// Without a rule it redirects to the rule with the most denials that counts the key. Without a rule and a key it shows
// a form for both.
func (p *Pages) keyPage(v *kit.Visit) error {
	q := v.QueryParams()
	if q.Get("rule") == "" && q.Get("key") == "" {
		return p.lookup(v, http.StatusOK, q, nil)
	}
	if q.Get("rule") == "" {
		return p.findKey(v, q)
	}
	b, errs := p.bucketOf(q)
	if errs != nil {
		return p.lookup(v, http.StatusUnprocessableEntity, q, errs)
	}
	return p.bucket(v, http.StatusOK, b, url.Values{"does": {"blocked"}}, nil)
}

// findKey redirects to the page of a key. The form uses POST, so that a typed credential is not in an address. The
// address of the page contains its hash.
func (p *Pages) findKey(v *kit.Visit, form url.Values) error {
	if key := strings.TrimSpace(form.Get("key")); strings.TrimSpace(form.Get("rule")) == "" && key != "" {
		if b := p.rulesFor(v.Ctx, key); b != nil {
			return v.SeeOther(view.KeyLink(b.Rule.Rule.Name, b.Name))
		}
		return p.lookup(v, http.StatusUnprocessableEntity, form, []field.Problem{{Field: "key",
			Message: "no active rule counts such a key; write what it is, as in user:42, or name a rule"}})
	}
	b, errs := p.bucketOf(form)
	if errs != nil {
		return p.lookup(v, http.StatusUnprocessableEntity, form, errs)
	}
	return v.SeeOther(view.KeyLink(b.Rule.Rule.Name, b.Name))
}

func (p *Pages) lookup(v *kit.Visit, status int, form url.Values, errs []field.Problem) error {
	m := KeyPage{Lookup: view.NewForm(form, errs), Rules: p.RuleNames()}
	return v.Page(status, keyLookupPage(v.Frame("Inspect a key", kit.PathRequests), m))
}

// bucketOf finds the bucket of the rule and key in a form or an address.
func (p *Pages) bucketOf(form url.Values) (*match.Bucket, []field.Problem) {
	set, c := p.Sets.Load(), (*match.Compiled)(nil)
	if set != nil {
		c = set.Named(strings.TrimSpace(form.Get("rule")))
	}
	if c == nil {
		return nil, []field.Problem{{Field: "rule", Message: "must be the name of an active rule"}}
	}
	b, err := set.FindBucket(c, form.Get("key"), p.Now())
	if err != nil {
		return nil, []field.Problem{{Field: "key", Message: err.Error()}}
	}
	return &b, nil
}

// bucket shows a bucket, with the form for an override of it.
func (p *Pages) bucket(v *kit.Visit, status int, b *match.Bucket, form url.Values, errs []field.Problem) error {
	m := KeyPage{Bucket: b, Edit: view.NewForm(form, errs), Now: p.Now()}
	recent, err := p.lastRequests(v.Ctx, b)
	m.Recent, m.RecentUnreadable, m.IDs = recent, kit.Unreadable(err), p.RuleIDs(recent)
	if own := (*history.OwnError)(nil); errors.As(err, &own) {
		m.RecentOwn, m.RecentSince = true, own.Since
	}
	if b.Key == "" { // a recent request may have the full hash
		for i := range m.Recent {
			if whole, errs := p.bucketOf(url.Values{"rule": {b.Rule.Rule.Name}, "key": {m.Recent[i].Bucket}}); errs == nil &&
				whole.Exception == b.Exception && whole.Key != "" {
				b, m.Bucket = whole, whole
				break
			}
		}
	}
	if b.Key != "" {
		if p.Home != nil {
			m.Home = p.Home(b.Key)
		}
		peeked, err := p.peek(v.Ctx, b)
		m.Peeked, m.CountersDown, m.HomeDown = peeked, err != nil, limiter.CauseOf(err) == limiter.CauseHome
		if node := p.Node(); b.Rule.Spans(b.Key) {
			m.CutOff = node.CutOff
		}
		if row, kept := usage.RowOf(b.Key); kept {
			m.Statement = p.StatementOf(v.Ctx, &b.Rule.Rule, row.Key)
		}
	}
	if id := b.Override.ID; id > 0 {
		o, err := p.Overrides.GetOverride(v.Ctx, b.Rule.Rule.ID, id)
		switch {
		case err == nil:
			m.Override = &o
		case errors.Is(err, rules.ErrNotFound): // it was just deleted
		default:
			m.OverrideUnknown = true
		}
	}
	p.investigate(v, &m)
	f := v.Frame("Inspect a key", kit.PathRequests)
	m.Acts = actsOf(f, b)
	return v.Page(status, keyBucketPage(f, m))
}

// investigate reads what all rules know about the key of m.
func (p *Pages) investigate(v *kit.Visit, m *KeyPage) {
	b, live := m.Bucket, p.Fleet.Live(v.Ctx)
	name := cmp.Or(b.Exception, b.Name)
	m.Link = v.Base() + view.KeyLink(b.Rule.Rule.Name, b.Name)
	m.Counting, m.CountingAll = p.rulesThatCount(b, &live)
	m.Nodes, m.NodesKnown = partsOf(b, &live)
	p.fill(v.Ctx, m)
	list := make([]*RuleDay, len(m.Counting))
	for i := range m.Counting {
		list[i] = &m.Counting[i].RuleDay
		list[i].Rule = m.Counting[i].Bucket.Rule.Rule.Name
	}
	m.Day = p.dayOf(v.Ctx, history.ByKey, name, list)
	m.Day.Marks = v.Marks(b.Rule.Rule.Name, m.Day.From, m.Day.To)
	m.Seen = p.seen(v, name, m)
}

// Peeked is the content of a bucket, its ban, and its candidate's bucket.
type Peeked struct {
	// Figures and Candidate are the numbers of the buckets, nil if unknown.
	Figures, Candidate *BucketFigures
	// Ban is the decision of the ban, nil if it is unknown or the rule has none.
	Ban *limiter.Decision
}

// peek reads the bucket of b, its ban and its candidate's bucket. Nothing is charged.
func (p *Pages) peek(ctx context.Context, b *match.Bucket) (m Peeked, err error) {
	asks := asksOf(b)
	var res limiter.Result
	if err := p.Buckets(ctx, b.Rule, limiter.OpPeek, asks, &res); err != nil {
		p.Logger.Warn("the console could not look at a bucket", "error", err)
		return m, err
	}
	for i, d := range res.Limits {
		switch {
		case i == 0:
			m.Figures = FiguresOf(asks[i].Limit, d)
		case asks[i].Limit.Algorithm == limiter.Ban:
			m.Ban = &d
			m.Figures = FiguresOf(asks[0].Limit, res.Limits[0].WithBan(d))
		default:
			m.Candidate = FiguresOf(asks[i].Limit, d)
		}
	}
	if m.Figures != nil && b.Rule.Spans(b.Key) { // there are regions
		m.Figures.Regions = p.Spent(ctx, b.Key, b.Limit)
	}
	if m.Figures != nil {
		m.Figures.HeldBy = p.Held(ctx, b.Rule, b.Key)
	}
	return m, nil
}

// asksOf returns the asks for a rule's bucket, its ban, and its candidate's bucket.
func asksOf(b *match.Bucket) []limiter.Ask {
	asks := append([]limiter.Ask{{Key: b.Key, Limit: b.Limit, Weight: 1}}, bansOf(b)...)
	if b.Former != nil {
		asks[0].Former = &b.Former.Limit
	}
	if b.Candidate != "" {
		asks = append(asks, limiter.Ask{Key: b.Candidate, Limit: b.CandidateLimit, Weight: 1})
	}
	return asks
}

// bansOf returns the ask for the ban of a bucket, if its rule has one.
func bansOf(b *match.Bucket) []limiter.Ask {
	if b.Rule.Ban == nil {
		return nil
	}
	return []limiter.Ask{{Key: limiter.BanKey(b.Key), Limit: *b.Rule.Ban}}
}

// resets names the act of resetKey. resetKey says what is wrong with an invalid key.
func (p *Pages) resets(_ *kit.Visit, form url.Values) (string, error) {
	b, errs := p.bucketOf(form)
	if errs != nil {
		return "reset the usage of a key", nil
	}
	return "reset the usage of " + kit.Named(b.Name) + " of the rule " + b.Rule.Rule.Name, nil
}

// resetKey resets a bucket.
func (p *Pages) resetKey(v *kit.Visit, form url.Values) error {
	return p.reset(v, form, "", asksOf, "Usage reset: the key has its full quota again.")
}

// liftBan ends the ban of a key.
func (p *Pages) liftBan(v *kit.Visit, form url.Values) error {
	return p.reset(v, form, "ban", bansOf, "The ban has ended.")
}

// reset resets what asks are about, only a part of a bucket if only is not "".
func (p *Pages) reset(v *kit.Visit, form url.Values, only string, asks func(*match.Bucket) []limiter.Ask,
	done string) error {
	b, errs := p.bucketOf(form)
	if errs != nil {
		return p.lookup(v, http.StatusUnprocessableEntity, form, errs)
	}
	if b.Key == "" {
		return p.bucket(v, http.StatusUnprocessableEntity, b, url.Values{},
			[]field.Problem{{Field: "reset", Message: "The usage cannot be reset: only part of the key's hash is known."}})
	}
	parts := asks(b)
	if len(parts) == 0 { // the rule has lost its ban
		return kit.ErrStale
	}
	err := p.Resets.NoteReset(v.Ctx, v.Actor(), b.Rule.Rule.ID, b.Name, only, func(ctx context.Context) error {
		var res limiter.Result
		return p.Buckets(ctx, b.Rule, limiter.OpReset, parts, &res)
	})
	var store *limiter.StoreError
	switch {
	case errors.As(err, &store):
		return p.countersUnavailable(err)
	case err != nil:
		return err
	}
	v.Flash("%s", done)
	return v.SeeOther(view.KeyLink(b.Rule.Rule.Name, b.Name))
}

// overrideKey blocks a key, makes it unlimited, or gives it a custom limit.
func (p *Pages) overrideKey(v *kit.Visit, form url.Values) error {
	b, errs := p.bucketOf(form)
	if errs != nil {
		return p.lookup(v, http.StatusUnprocessableEntity, form, errs)
	}
	o := rules.Override{RuleID: b.Rule.Rule.ID, Key: b.Exception, Reason: form.Get("reason")}
	switch form.Get("does") {
	case "blocked":
		o.Blocked = true
		errs = kit.MustBeEmpty(form, "limit")
	case "unlimited":
		o.Unlimited = true
		errs = kit.MustBeEmpty(form, "limit")
	default:
		n, err := strconv.ParseInt(strings.TrimSpace(form.Get("limit")), 10, 64)
		if err != nil {
			errs = append(errs, field.Problem{Field: "limit", Message: "must be a whole number"})
		}
		o.Limit = &n
	}
	if text := form.Get("hours"); text != "" && text != "0" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 87_600 {
			errs = append(errs, field.Problem{Field: "hours", Message: "must be one of the options"})
		}
		at := p.Now().Add(time.Duration(n) * time.Hour)
		o.ExpiresAt = &at
	}
	if errs != nil {
		return p.bucket(v, http.StatusUnprocessableEntity, b, form, errs)
	}
	made, err := p.Overrides.CreateOverride(v.Ctx, v.Actor(), o, p.Sets.Load().Options())
	switch {
	case errors.Is(err, rules.ErrOverrideExists):
		return p.bucket(v, http.StatusConflict, b, form,
			[]field.Problem{{Field: "does", Message: "This key already has an override. Delete it first."}})
	case kit.FieldsOf(err) != nil:
		return p.bucket(v, http.StatusUnprocessableEntity, b, form, kit.FieldsOf(err))
	case errors.Is(err, rules.ErrUnavailable):
		return p.bucket(v, http.StatusServiceUnavailable, b, form,
			[]field.Problem{{Field: "save", Message: kit.NotSaved(err)}})
	case err != nil:
		return err
	}
	v.WaitInForce(p.Changed)
	v.OfferUndo(kit.UndoOfOverride(&made))
	v.Flash("Override saved.")
	return v.SeeOther(view.KeyLink(b.Rule.Rule.Name, b.Name))
}

// deleteOverride deletes the override of a key, unless someone changed it.
func (p *Pages) deleteOverride(v *kit.Visit, form url.Values) error {
	b, errs := p.bucketOf(form)
	if errs != nil {
		return p.lookup(v, http.StatusUnprocessableEntity, form, errs)
	}
	id, err := strconv.ParseInt(form.Get("id"), 10, 64)
	known := kit.Version(form)
	if err != nil || known < 1 {
		return kit.ErrStale
	}
	if err := p.Overrides.DeleteOverride(v.Ctx, v.Actor(), b.Rule.Rule.ID, id, known); err != nil {
		return err
	}
	v.WaitInForce(p.Changed)
	v.OfferUndo(kit.UndoOfDeleted(&rules.Override{RuleID: b.Rule.Rule.ID, ID: id}))
	v.Flash("Override deleted. The rule's own limit applies again.")
	return v.SeeOther(view.KeyLink(b.Rule.Rule.Name, b.Name))
}

// shut reports whether the rule allows nothing, because a region is cut off.
func (p *KeyPage) shut() bool {
	closed := p.Bucket.Rule.Rule.CutOff
	return len(p.CutOff) > 0 && closed != nil && *closed == rules.CutOffClosed
}

// cutWords say what this region may spend while others are cut off, and from which, "" if none is.
func (p *KeyPage) cutWords() string {
	if len(p.CutOff) == 0 {
		return ""
	}
	may := "an equal part of the limit, and regions that hear each other have their parts together"
	if cut := p.Bucket.Rule.Rule.CutOff; p.shut() {
		may = "nothing"
	} else if cut != nil && *cut == rules.CutOffAlone {
		may = "the whole limit"
	}
	return "Cut off from " + strings.Join(p.CutOff, ", ") + ". Meanwhile this region may spend " + may + "."
}

// partWords say that the figures are of this region's part of the limit, "" if the region may spend all of it.
func (p *KeyPage) partWords() string {
	if whole := p.Bucket.Limit.Count; p.Bucket.Rule.Shares && p.Figures.Limit < whole {
		return "The limit is the part of this region. All regions together have " + view.Count(whole) + "."
	}
	return ""
}

// over is the number of units that the key has spent above its limit in this period, 0 if within the limit.
func (p *KeyPage) over() int64 {
	if p.Figures.NoLimit || p.Bucket.Override.Unlimited {
		return 0
	}
	return max(0, p.Figures.Used-p.Figures.Limit)
}

// KeyPage is the page of one bucket.
type KeyPage struct {
	// Lookup is the form that finds a key; Rules are suggested names.
	Lookup view.Form
	Rules  []string
	// Bucket is nil until a bucket is found.
	Bucket *match.Bucket
	Peeked
	// CountersDown means that the counter store is unreachable, or the home region of the key if HomeDown.
	CountersDown, HomeDown bool
	// Statement is the spent units of the key in its periods, nil if the rule keeps none.
	Statement *kit.Statement
	// Home is the region that has the bucket, "" if each region has one.
	Home string
	// CutOff are the regions that are cut off from this one, if the limit spans regions.
	CutOff []string
	// Override is the override of the key, nil for none or if OverrideUnknown.
	Override *rules.Override
	// OverrideUnknown means that the override of the key cannot be read.
	OverrideUnknown bool
	// Counting are the rules that count the key, the rule of Bucket first, and CountingAll is their number.
	Counting    []KeyRule
	CountingAll int
	// Day contains the decisions of these rules, Seen their times.
	Day  KeyDay
	Seen Seen
	// Nodes are the nodes that report the key among their busiest keys. NodesKnown is false if that cannot be read.
	Nodes      []history.HotNode
	NodesKnown bool
	// Acts are the actions offered. Link is the address of the page for others; a credential in it is a hash.
	Acts Acts
	Link string
	// Recent are sampled requests of the key by all rules, whose IDs are IDs. RecentUnreadable means that they cannot be
	// read, RecentOwn that they are of this node only since RecentSince.
	Recent                      []history.Request
	RecentUnreadable, RecentOwn bool
	RecentSince                 time.Time
	IDs                         map[string]int64
	// Edit is the form of an override.
	Edit view.Form
	Now  time.Time
}

// banWords says when the ban ends, or after how many more denials a ban would begin. Denials by an override do not
// count towards a ban.
func banWords(d *limiter.Decision, b *match.Bucket) string {
	if !d.Allowed {
		return "ends " + waitWords(d.RetryAfter)
	}
	if b.Override.Blocked || b.Override.Unlimited {
		return "none"
	}
	return "none; " + view.Plural(d.Remaining, "more denial") + " would begin one"
}

// shownName is the name of the key with shortened hashes.
func (p *KeyPage) shownName() string {
	if p.Bucket.Exception == "" {
		return p.Bucket.Name
	}
	return p.Bucket.Exception
}

// requests is the address of all sampled requests of the key.
func (p *KeyPage) requests() string {
	q := view.NewQuery(kit.PathRequests, nil)
	if p.Bucket.Exception == "" {
		return q.With("rule", p.Bucket.Rule.Rule.Name)
	}
	return q.With("key", p.Bucket.Exception)
}
