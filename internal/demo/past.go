package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"sluice/api/decide"
	"sluice/internal/alerts"
	"sluice/internal/database"
	"sluice/internal/history"
	"sluice/internal/history/incident"
	"sluice/internal/trouble"
	"sluice/rules"
	"sluice/rules/match"
)

const (
	// pastHours is how many whole hours of figures there are before the running one.
	pastHours = 25
	// writer is the number of the process that decided the past.
	writer = 1
	// starvedAge is how long before the start the node lacked CPU, and starvedSeconds for how long.
	starvedAge, starvedSeconds = 7 * time.Hour, 95
)

// past writes what an earlier process on the node at an address decided until now.
type past struct {
	db      *database.DB
	now     time.Time
	address string
	rules   map[string]rules.Rule
	// begun is the second at which the node lacked CPU, flood that at which the first flood after the start begins.
	begun, flood int64
}

func newPast(db *database.DB, now time.Time, firstFlood time.Duration, address string, byName map[string]rules.Rule,
) *past {
	return &past{db: db, now: now, address: address, rules: byName, begun: now.Add(-starvedAge).Unix(),
		flood: now.Add(firstFlood).Unix()}
}

// decided is what was decided in a second.
func (p *past) decided(second int64) counted {
	into := (second - p.flood) % (floodMinutes * 60)
	if into < 0 {
		into += floodMinutes * 60
	}
	return decidedAt(second, p.starved(second), into < floodSeconds)
}

// starved reports whether the node lacked CPU at a second.
func (p *past) starved(second int64) bool {
	return second >= p.begun && second < p.begun+starvedSeconds
}

func (p *past) write(ctx context.Context) error {
	for _, part := range []func(context.Context) error{p.writeFigures, p.writeIncident, p.writeAlert} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// writeFigures writes the rows of every hour, and adds up the older ones, as nodes do.
func (p *past) writeFigures(ctx context.Context) error {
	var rows []history.LiveRow
	last := p.now.Unix() / 3600
	for hour := last - pastHours; hour <= last; hour++ {
		rows = append(rows, p.hour(hour)...)
	}
	if err := p.db.WritePastStats(ctx, rows); err != nil {
		return fmt.Errorf("figures: %w", err)
	}
	for n := 1; n > 0; {
		var err error
		if n, err = p.db.FoldStats(ctx, len(rows)); err != nil {
			return fmt.Errorf("figures: %w", err)
		}
	}
	return nil
}

// hour are the rows of an hour, of its seconds before now.
func (p *past) hour(hour int64) []history.LiveRow {
	// The figures by flow, then of quota, then of all requests.
	points := make([][]history.Point, len(flows)+2)
	sums := make([]history.Figures, len(flows)+2)
	var flood int64
	for minute := hour * 60; minute < hour*60+60 && minute*60 < p.now.Unix(); minute++ {
		of := make([]history.Point, len(points))
		for i := range of {
			of[i] = history.Point{At: time.Unix(minute*60, 0), Known: true}
		}
		for second := minute * 60; second < minute*60+60 && second < p.now.Unix(); second++ {
			c := p.decided(second)
			for i, f := range c.byRule() {
				of[i].Add(f)
				of[i].Peak = max(of[i].Peak, f.Total())
			}
			flood += c.flood
		}
		for i := range of {
			points[i] = append(points[i], of[i])
			sums[i].Add(of[i].Figures)
		}
	}
	all := history.Tops{}
	var rows []history.LiveRow
	for i := range flows {
		f := &flows[i]
		tops := topsOf(f, sums[i], flood)
		all = history.MergeTops([]history.Tops{all, tops})
		rows = append(rows, history.PackHour(writer, f.rule, hour, points[i], tops))
		if trial := p.trial(f, sums[i]); trial != nil {
			trial.First = time.Unix(max(hour*3600, p.now.Add(-pastHours*time.Hour).Unix()), 0)
			of := history.Trial{Rule: p.rules[f.rule].ID, Version: p.rules[f.rule].Version}
			rows = append(rows, history.PackTrial(writer, of, hour, trial))
		}
	}
	of := len(flows)
	quotaTops := topsOfQuota(sums[of])
	all[history.ByKey] = history.MergeTops([]history.Tops{{history.ByKey: all[history.ByKey]},
		{history.ByKey: quotaTops[history.ByKey]}})[history.ByKey]
	return append(rows,
		history.PackHour(writer, quota, hour, points[of], quotaTops),
		history.PackHour(writer, "", hour, points[of+1], all),
		history.PackHour(writer, history.NodePrefix+p.address, hour, points[of+1], nil))
}

// byRule returns the figures of each flow, including the flood in the flow of logins, followed by the figures of quota,
// which counts requests with a tenant, and by the figures of all requests.
func (c *counted) byRule() []history.Figures {
	out := make([]history.Figures, 0, len(flows)+2)
	var tenants history.Figures
	for i, f := range c.flows {
		tenants.Allowed += f.Total()
		tenants.Degraded += f.Degraded
		if c.flood > 0 && flows[i].rule == logins {
			f.Denied, f.Use = f.Denied+c.flood, history.UseOf(105, 100)
		}
		out = append(out, f)
	}
	c.all.Use = 0 // it belongs to no limit
	return append(out, tenants, c.all)
}

// trial is what the limit on trial of a rule counted of its requests, nil if there is none.
func (p *past) trial(f *flow, sum history.Figures) *history.TrialCounts {
	r := p.rules[f.rule]
	c := &history.TrialCounts{Seen: sum.Total(), Compared: sum.Total() - sum.Degraded}
	switch {
	case r.Candidate != nil:
		c.Denied, c.NewlyAllowed = sum.Denied-sum.WouldAllow, sum.WouldAllow
	case r.Mode == rules.ModeShadow:
		c.Denied, c.NewlyDenied = sum.WouldDeny, sum.WouldDeny
	default:
		return nil
	}
	sketch := history.NewSketches()
	for i := range c.Changes() {
		sketch.Add(history.ByKey, "user:"+userName(overAt(i)), c.NewlyAllowed > 0, 1)
	}
	c.Keys = sketch.Tops()[history.ByKey]
	return c
}

// overAt is the user that makes the denial with a number: mostly a heavy one.
func overAt(i int64) int {
	if i%8 == 7 {
		return heavyUsers + 1 + int(i/8%regularUsers)
	}
	return 1 + int(i%heavyUsers)
}

// topsOf are the most active keys, routes and tenants of a flow in an hour.
func topsOf(f *flow, sum history.Figures, flood int64) history.Tops {
	sketch := history.NewSketches()
	keys, byTenant := map[string]*history.TopEntry{}, map[string]*history.TopEntry{}
	count := func(of map[string]*history.TopEntry, key string, allowed bool, n int64) {
		e := of[key]
		if e == nil {
			e = &history.TopEntry{Key: key}
			of[key] = e
		}
		if allowed {
			e.Allowed += n
		} else {
			e.Denied += n
		}
	}
	for user := 1; user <= users; user++ { // a part of what is allowed each
		n := sum.Allowed * weight(user) / weights
		count(keys, keyOf(f, user), true, n)
		count(byTenant, tenantOf(user), true, n)
	}
	for i := range sum.Denied {
		user := overAt(i)
		count(keys, keyOf(f, user), false, 1)
		count(byTenant, tenantOf(user), false, 1)
		sketch.Denied(keyOf(f, user))
	}
	if f.rule == logins {
		count(keys, "ip:"+flooder, false, flood)
		sketch.Denied("ip:" + flooder)
	} else {
		flood = 0
	}
	out := history.Tops{
		history.ByKey:    {Entries: entries(keys), Denied: sketch.Tops()[history.ByKey].Denied},
		history.ByTenant: {Entries: entries(byTenant)},
		history.ByRoute: {Entries: []history.TopEntry{{Key: f.method + " " + f.route, Allowed: sum.Allowed,
			Denied: sum.Denied + flood}}},
	}
	return out
}

// keyOf is the key by which the rule of a flow counts a user.
func keyOf(f *flow, user int) string {
	switch f.rule {
	case logins:
		return "ip:" + ipOf(user).String()
	case reports:
		return "attr:tenant:" + tenantOf(user)
	}
	return "user:" + userName(user)
}

// topsOfQuota are the tenants in an hour.
func topsOfQuota(sum history.Figures) history.Tops {
	keys, byTenant := map[string]*history.TopEntry{}, map[string]*history.TopEntry{}
	for user := 1; user <= users; user++ {
		tenant, n := tenantOf(user), sum.Allowed*weight(user)/weights
		if keys[tenant] == nil {
			keys[tenant] = &history.TopEntry{Key: "attr:tenant:" + tenant}
			byTenant[tenant] = &history.TopEntry{Key: tenant}
		}
		keys[tenant].Allowed += n
		byTenant[tenant].Allowed += n
	}
	return history.Tops{history.ByKey: {Entries: entries(keys)}, history.ByTenant: {Entries: entries(byTenant)}}
}

func entries(of map[string]*history.TopEntry) (out []history.TopEntry) {
	for _, e := range of {
		if e.Allowed+e.Denied > 0 {
			out = append(out, *e)
		}
	}
	return out
}

// writeIncident writes that the node lacked CPU for a while, so that fail modes decided some requests.
func (p *past) writeIncident(ctx context.Context) error {
	clock := &settable{at: time.Unix(p.begun, 0)}
	log := incident.NewLog("demo", "", clock.now)
	lacked := &trouble.Trouble{Condition: &trouble.Condition{Code: incident.CodeStarved, Incident: incident.Starved},
		Since: clock.at, Cause: "this node lacks CPU: raise its CPU limit"}
	log.Started(p.address)
	log.Note(lacked, true)
	for second := p.begun; p.starved(second); second++ {
		clock.at = time.Unix(second, 0)
		c := p.decided(second)
		for i, f := range c.flows {
			rule, mode := flows[i].rule, p.rules[flows[i].rule].FailMode
			for range f.Degraded {
				log.Decided(incident.CodeStarved, incident.ByFailMode{Mode: mode},
					[]incident.ByFailMode{{Rule: rule, Mode: mode}})
			}
		}
	}
	clock.at = time.Unix(p.begun+starvedSeconds, 0)
	log.Note(lacked, false)
	incident.NewWriter(log, p.db, nil).Write(ctx)
	return nil
}

// writeAlert writes the alert of a flood of the night, which began and ended.
func (p *past) writeAlert(ctx context.Context) error {
	const holder = "demo"
	held, err := p.db.HoldAlerts(ctx, holder, time.Minute)
	if err != nil || !held {
		return fmt.Errorf("lease of alerts: held %v: %w", held, err)
	}
	begun := time.Unix(p.flood-90*floodMinutes*60+6, 0) // of the ninetieth flood before the start
	subject := alerts.Subject{Kind: alerts.KindRuleDenials, Rule: logins, Level: level()}
	var events []alerts.Event
	for i, state := range []string{alerts.On, alerts.Off} {
		at := begun.Add(time.Duration(i) * 70 * time.Second)
		d := alerts.Data{State: state, Rule: logins, Text: "The rule " + logins + " denies fewer requests again."}
		if state == alerts.On {
			d.Text = "The rule " + logins + " denied 112 of 149 requests (75%) in the minute before " +
				at.UTC().Format(time.TimeOnly) + " UTC."
			d.Numbers = map[string]int64{"denied": 112, "requests": 149, "denied_percent": 75}
		}
		d.Since = &begun
		d.Path = fmt.Sprint("/console/rules/", p.rules[logins].ID)
		events = append(events, alerts.Event{UID: fmt.Sprint("demo-", i), At: at, Kind: subject.Kind, State: state,
			Subject: subject, Data: d})
	}
	if err := p.db.SaveAlerts(ctx, holder, &alerts.Changes{Events: events}); err != nil {
		return err
	}
	return p.db.ReleaseAlerts(ctx, holder)
}

func level() string {
	w := alerts.NewWebhook()
	return w.Thresholds()
}

// boardMinutes is for how many minutes before the start the figures by second are known.
const boardMinutes = 10

// board returns the figures of the last minutes by second, with samples, as the earlier process posted them.
func (p *past) board(ctx context.Context, now func() time.Time) (*history.Memory, error) {
	src, err := p.db.LoadRules(ctx)
	if err != nil {
		return nil, err
	}
	set, err := match.CompileSource(src, match.Options{})
	if err != nil {
		return nil, err
	}
	board, clock := history.NewMemory(now), &settable{}
	recorder := history.NewRecorder()
	status := func() history.Status { return history.Status{ID: history.NodeID(writer), Address: p.address} }
	post := history.NewPublisher(history.PublisherOptions{Recorder: recorder, Board: board, Status: status,
		Now: clock.now})
	rng := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // not a secret
	for second := p.now.Unix() - boardMinutes*60; second < p.now.Unix(); second++ {
		clock.at = time.Unix(second, 0)
		c := p.decided(second)
		for i, f := range c.byRule() {
			name := ""
			switch {
			case i < len(flows):
				name = flows[i].rule
			case i == len(flows):
				name = quota
			}
			record(recorder, name, &f)
		}
		sample(recorder, set, rng, second, &c)
		post.Post(ctx)
	}
	return board, board.Drop(ctx, "nodes", []string{history.NodeID(writer)})
}

// record counts figures of a rule, "" for all requests.
func record(r *history.Recorder, rule string, f *history.Figures) {
	plain := f.Allowed - f.Elastic - f.WouldDeny
	for _, one := range []struct {
		n int64
		d history.Decided
	}{
		{plain, history.Decided{Allowed: true}}, {f.Elastic, history.Decided{Allowed: true, Elastic: true}},
		{f.WouldDeny, history.Decided{Allowed: true, WouldDeny: true}}, {f.WouldAllow, history.Decided{WouldAllow: true}},
		{f.Denied - f.WouldAllow, history.Decided{}},
	} {
		switch {
		case one.n <= 0:
		case rule == "":
			r.Requests(&one.d, one.n)
		default:
			r.Limits(rule, &one.d, one.n)
		}
	}
}

// sample keeps denials of a second.
func sample(r *history.Recorder, set *match.Set, rng *rand.Rand, second int64, c *counted) {
	keep := func(rule string, q decide.Question, banned bool) {
		r.Denied(rule, func() history.Request {
			d := denied(set, rule, &q.Descriptor, second*1000+rng.Int64N(1000))
			d.Banned = banned
			return d
		})
	}
	for i, of := range c.flows {
		for n := range of.Denied {
			keep(flows[i].rule, question(&flows[i], overAt(second+n)), false)
		}
	}
	for range c.flood {
		keep(logins, attempt(), true)
	}
}

// denied is the sample of a request that a rule denied.
func denied(set *match.Set, rule string, d *match.Descriptor, at int64) history.Request {
	out := history.Request{At: at, Rule: rule, Mode: rules.ModeEnforce, Status: 429, Weight: 1, Method: d.Method,
		Route: d.Route, User: d.User, IP: d.IP.String(), Attributes: d.Attributes}
	for _, m := range set.Match(d, 1, time.UnixMilli(at), nil) {
		if of := &m.Rule.Rule; of.Name == rule {
			out.Key, out.Bucket, out.Limit = m.Display(), match.BucketName(m.Key), of.Limit
			out.RetryAfter = 1 + at%min(of.WindowMS, 60_000)
		}
	}
	return out
}
