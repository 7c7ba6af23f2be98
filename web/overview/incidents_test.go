package overview

import (
	"strings"
	"testing"

	"sluice/internal/history/incident"
)

// TestRunningWords_NameTheNodeOrCountThem: an outage that several nodes have is one incident.
func TestRunningWords_NameTheNodeOrCountThem(t *testing.T) {
	one := incident.Incident{Kind: incident.Database, Node: "10.0.0.1:8080", Nodes: []string{"10.0.0.1:8080"}}
	if got := runningWords([]incident.Incident{one}); !strings.HasPrefix(got, "Incident running on 10.0.0.1:8080: ") {
		t.Errorf("one node: %q", got)
	}
	one.Nodes = append(one.Nodes, "10.0.0.2:8080")
	if got := runningWords([]incident.Incident{one}); !strings.HasPrefix(got, "Incident running on 2 nodes: ") {
		t.Errorf("two nodes: %q", got)
	}
}
