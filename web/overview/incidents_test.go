package overview

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/history/incident"
)

func TestLengthWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 20 * time.Millisecond: "0 s", 600 * time.Millisecond: "0.6 s", 3 * time.Second: "3 s",
		8340 * time.Millisecond: "8.3 s", 48900 * time.Millisecond: "48 s", 95 * time.Second: "1 min 35 s",
		125 * time.Minute: "2 h 5 min",
	} {
		if got := lengthWords(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

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
