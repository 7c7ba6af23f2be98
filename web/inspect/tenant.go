package inspect

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"

	"sluice/internal/history"
	"sluice/rules/match"
	"sluice/web/kit"
	"sluice/web/view"
)

// maxTenant is the longest name of a tenant in an address, in bytes.
const maxTenant = 1024

// rulesOfTenant is the largest number of rules whose figures the page of a tenant reads: the most denied, then the most
// active ones.
const rulesOfTenant = 10

// TenantPage contains the known data about the requests of a tenant, whether or not a rule counts by tenant.
type TenantPage struct {
	Name string
	// All are the decisions on all requests of the tenant in the range of Day, nil if they are not known.
	All *history.Row
	Day KeyDay
	// Rules are the rules with known decisions on the tenant, among Asked rules whose figures were read. Active is the
	// number of active rules.
	Rules         []RuleDay
	Asked, Active int
	// Counts are the keys of rules in force that count by tenant.
	Counts []KeyRule
	// Recent are the last requests.
	Recent           []history.Request
	RecentUnreadable bool
	// RecentOwn means that Recent contains only requests of this node, since RecentSince.
	RecentOwn   bool
	RecentSince time.Time
	IDs         map[string]int64
}

// requests is the address of the tenant's requests.
func (m *TenantPage) requests() string {
	return view.NewQuery(kit.PathRequests, nil).With("tenant", m.Name)
}

// tenantPage shows a tenant.
func (p *Pages) tenantPage(v *kit.Visit) error {
	name := v.QueryParams().Get("tenant")
	if name == "" || len(name) > maxTenant {
		return v.SeeOther(kit.PathTraffic + "?by=" + history.ByTenant)
	}
	m := TenantPage{Name: name}
	recent, err := p.Denials.Requests(v.Ctx, history.Filter{Attribute: p.TenantAttribute, Value: name}, recentOfKey)
	m.Recent, m.RecentUnreadable = recent, kit.Unreadable(err)
	if own := (*history.OwnError)(nil); errors.As(err, &own) {
		m.RecentOwn, m.RecentSince = true, own.Since
	}
	live := p.Fleet.Live(v.Ctx)
	list := p.rulesToAsk(&live, &m)
	m.Day = p.dayOf(v.Ctx, history.ByTenant, name, list)
	m.Day.Marks = v.Marks("", m.Day.From, m.Day.To)
	if !m.Day.Unreadable {
		m.All, err = p.rowOf(v.Ctx, history.Query{By: history.ByTenant, From: m.Day.From, To: m.Day.To, Step: time.Hour},
			name)
		m.Day.Unreadable = err != nil
	}
	for _, r := range list {
		if r.Day != nil {
			m.Rules = append(m.Rules, *r)
		}
	}
	var names []string
	for i := range recent {
		names = append(names, recent[i].Rule)
	}
	for i := range m.Rules {
		names = append(names, m.Rules[i].Rule)
	}
	m.IDs = p.IDs(names...)
	return v.Page(http.StatusOK, tenantPage(v.Frame("Tenant", kit.PathTraffic), m))
}

// rulesToAsk are the rules whose figures of a tenant are read. It notes in m which ones count by tenant.
func (p *Pages) rulesToAsk(live *history.Live, m *TenantPage) []*RuleDay {
	set := p.Sets.Load()
	if set == nil {
		return nil
	}
	rank := rankOf(live)
	var all []*match.Compiled
	for i := range set.Len() {
		c := set.At(i)
		all = append(all, c)
		if c.Rule.Descriptor == nil && c.Rule.Scope == "attr:"+p.TenantAttribute && len(m.Counts) < rulesOfKey {
			if b, err := set.FindBucket(c, m.Name, p.Now()); err == nil {
				m.Counts = append(m.Counts, KeyRule{Bucket: b})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *match.Compiled) int {
		return cmp.Or(cmp.Compare(rank[a.Rule.Name], rank[b.Rule.Name]), cmp.Compare(a.Rule.Name, b.Rule.Name))
	})
	m.Active = len(all)
	all = all[:min(len(all), rulesOfTenant)]
	m.Asked = len(all)
	list := make([]*RuleDay, len(all))
	for i, c := range all {
		list[i] = &RuleDay{Rule: c.Rule.Name}
	}
	return list
}
