package overview

import (
	"net/http"

	"github.com/a-h/templ"

	"sluice/internal/history"
	"sluice/web/kit"
	"sluice/web/view"
)

// nodes shows the state of every node.
func (p *Pages) nodes(v *kit.Visit) error {
	return v.Page(http.StatusOK, nodesPage(v.Frame("Nodes", kit.PathNodes), p.fleet(v)))
}

// NodeFeed returns the live parts of the page of nodes.
func (p *Pages) NodeFeed(v *kit.Visit) kit.Feed {
	return func() templ.Component { return nodesParts(p.fleet(v)) }
}

// fleet returns the state of every node.
func (p *Pages) fleet(v *kit.Visit) Fleet {
	node := p.Node()
	m := Fleet{ID: node.ID, Region: node.Region, Live: p.Fleet.Live(v.Ctx)}
	for i := range m.Live.Nodes {
		if n := &m.Live.Nodes[i]; !n.Unknown {
			m.Newest = max(m.Newest, n.SetVersion)
		}
	}
	return m
}

// Fleet is the state of every node.
type Fleet struct {
	// ID is the node that served the page.
	ID string
	// Region is the region whose nodes these are, "" without regions.
	Region string
	Live   history.Live
	// Newest is the newest rules version of any node.
	Newest int64
}

// ofRegion says after a noun which nodes are meant, " of eu"; "" without regions.
func (m *Fleet) ofRegion() string {
	if m.Region == "" {
		return ""
	}
	return " of " + m.Region
}

// versionsDiffer reports whether nodes run different versions of the rules.
func (m *Fleet) versionsDiffer() bool {
	for i := range m.Live.Nodes {
		if n := &m.Live.Nodes[i]; !n.Silent && !n.Unknown && n.SetVersion != m.Newest {
			return true
		}
	}
	return false
}

// troubled are the nodes that do not report or are not ready, as words after their number; "" if there are none.
func (m *Fleet) troubled() string {
	silent, unready := 0, 0
	for i := range m.Live.Nodes {
		switch n := &m.Live.Nodes[i]; {
		case n.Unknown:
		case n.Silent:
			silent++
		case !n.Ready:
			unready++
		}
	}
	switch {
	case silent > 0:
		return view.Count(silent) + " not reporting"
	case unready > 0:
		return view.Count(unready) + " not ready"
	}
	return ""
}
