package capacity

import (
	"bytes"
	_ "embed" // the table
	"encoding/json"
	"fmt"
	"slices"
)

// Costs is the table that `make bench` writes into costs.json, and from which a plan takes what a check costs. CPU times
// are µs of a check.
type Costs struct {
	// Measured says on what machine, by which Go.
	Measured string `json:"measured"`
	// Connections has a check with one rule by the number of busy connections to the node, which decides how many checks
	// share a script call. They grow.
	Connections []ConnectionCost `json:"connections"`
	// FurtherRule is what each further rule adds, with 64 connections.
	FurtherRule Cost `json:"further_rule"`
	// BatchMicros is the time of the node for a check in a batch of a hundred.
	BatchMicros float64 `json:"batch_node_us"`
	// CallMicros is the time of Redis for a limit, by algorithm, in script calls of CallChecks checks.
	CallChecks int                `json:"call_checks"`
	CallMicros map[string]float64 `json:"call_redis_us"`
	// KeyBytes is the memory of a bucket with its key, by algorithm: of full sub-windows, and of a log of a hundred.
	KeyBytes map[string]float64 `json:"key_bytes"`
}

// Cost is the time of a node and of Redis.
type Cost struct {
	Node  float64 `json:"node_us"`
	Redis float64 `json:"redis_us"`
}

// ConnectionCost is the cost of a check with that many busy connections.
type ConnectionCost struct {
	Connections int `json:"connections"`
	Cost
}

//go:embed costs.json
var costsFile []byte

// measuredBy is the algorithm of the rules in Connections and FurtherRule.
const measuredBy = "sliding_window_counter"

// ReadCosts reads a table. An error names the missing member.
func ReadCosts(text []byte) (*Costs, error) {
	c := &Costs{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, err
	}
	if len(c.Connections) < 2 || c.CallChecks < 1 || c.CallMicros[measuredBy] <= 0 || c.BatchMicros <= 0 ||
		c.FurtherRule.Node <= 0 || c.FurtherRule.Redis <= 0 {
		return nil, fmt.Errorf("the costs need two numbers of connections, %s, a batch and a further rule", measuredBy)
	}
	for i, one := range c.Connections {
		if one.Node <= 0 || one.Redis <= 0 || i > 0 && one.Connections <= c.Connections[i-1].Connections {
			return nil, fmt.Errorf("the costs of %d connections are out of order or not above 0", one.Connections)
		}
	}
	for name, us := range c.CallMicros {
		if us <= 0 || c.KeyBytes[name] <= 0 {
			return nil, fmt.Errorf("the costs of %s must be above 0", name)
		}
	}
	return c, nil
}

// Write encodes the table as costs.json has it.
func (c *Costs) Write() ([]byte, error) {
	b, err := json.MarshalIndent(c, "", "  ")
	return append(b, '\n'), err
}

// apply sets the figures that the table has.
func (c *Costs) apply(f *Figures) {
	least, most := c.Connections[0], slices.MaxFunc(c.Connections, func(a, b ConnectionCost) int {
		return a.Connections - b.Connections
	})
	f.NodeMicros, f.RuleMicros, f.BatchMicros = most.Node, c.FurtherRule.Node, c.BatchMicros
	f.CallChecks, f.RedisMicros, f.KeyBytes = c.CallChecks, c.CallMicros, c.KeyBytes
	f.Few = &FewFigures{Connections: least.Connections, NodeMicros: least.Node,
		RedisMicros: least.Redis - c.CallMicros[measuredBy], RuleRedisMicros: c.FurtherRule.Redis - c.CallMicros[measuredBy]}
}

// measured adds the figures of costs.json to others. A test reads the file, so that it cannot be invalid here.
func measured(others Figures) Figures {
	c, err := ReadCosts(costsFile)
	if err != nil {
		panic(err)
	}
	c.apply(&others)
	return others
}
