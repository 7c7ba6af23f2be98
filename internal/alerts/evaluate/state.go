package evaluate

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/internal/alerts"
)

// Bounds of what is remembered.
const (
	// maxSubjects is how many subjects of a kind are known at once. Sightings of further ones are ignored and counted.
	maxSubjects = 1000
	// maxNodes is how many nodes that see a condition are known. It ends when all of them no longer see it.
	maxNodes = 100
	// keptCounted is how long a subject is known of which alerts were counted and not told.
	keptCounted = 24 * time.Hour
)

// States is what the evaluator remembers. The zero value remembers nothing.
type States struct {
	subjects map[string]*subject
	budgets  map[string]*budget
	// ofKind counts the subjects.
	ofKind map[alerts.Kind]int
	// unsaved are the names of states that the database does not have in this form.
	unsaved map[string]bool
}

// subject is what is remembered of a subject.
type subject struct {
	Subject alerts.Subject `json:"subject"`
	// On: the condition is met, since Since (ms since the epoch).
	On    bool  `json:"on"`
	Since int64 `json:"since,omitempty"`
	// Told is the state that was told last, "" for none, and ToldAt when On was last told (ms).
	Told   string `json:"told,omitempty"`
	ToldAt int64  `json:"told_at,omitempty"`
	// Counted is how many alerts were not told since then.
	Counted int64 `json:"counted,omitempty"`
	// Data says what is on now, or was last. Its numbers are of the instant Figures (ms), reported by the node By.
	Data    alerts.Data `json:"data"`
	Figures int64       `json:"figures,omitempty"`
	By      string      `json:"by,omitempty"`
	// Seen are the places that see the condition, by node.
	Seen map[string]*seen `json:"seen,omitempty"`
	// Changed is when this was last changed, ms since the epoch.
	Changed int64 `json:"changed"`
}

// seen is one place that sees a condition.
type seen struct {
	Seq     int64  `json:"seq,omitempty"`
	Address string `json:"address,omitempty"`
	LifeMS  int64  `json:"life_ms,omitempty"`
	// last is when it was last seen. It is not stored: after a restart the life begins anew.
	last time.Time
}

// budget bounds the messages of a kind to a webhook: in the minute from Began (ms) on, Sent were told one by one. The
// Counted other alerts wait for a summary, with the first of them. Ended of them are ends.
type budget struct {
	Began   int64         `json:"began"`
	Sent    int           `json:"sent"`
	Counted int64         `json:"counted,omitempty"`
	Ended   int64         `json:"ended,omitempty"`
	First   []alerts.Data `json:"first,omitempty"`
	// UID is that of the first event that waits.
	UID     string `json:"uid,omitempty"`
	Changed int64  `json:"changed"`
}

// budgetPrefix begins the names of budgets among the names of states. No kind is called so.
const budgetPrefix = "budget|"

// LoadStates reads stored states. It leaves out those that it does not understand.
func LoadStates(stored []alerts.State, now time.Time) *States {
	st := &States{}
	st.init()
	for i := range stored {
		name, data := stored[i].Subject, stored[i].Data
		if strings.HasPrefix(name, budgetPrefix) {
			if b := (&budget{}); json.Unmarshal(data, b) == nil {
				st.budgets[name] = b
			}
			continue
		}
		s := &subject{}
		if json.Unmarshal(data, s) != nil || s.Subject.String() != name {
			continue
		}
		for node, at := range s.Seen {
			if at == nil {
				delete(s.Seen, node)
				continue
			}
			at.last = now
		}
		st.add(name, s)
	}
	return st
}

func (st *States) init() {
	if st.subjects == nil {
		st.subjects, st.budgets, st.ofKind = map[string]*subject{}, map[string]*budget{}, map[alerts.Kind]int{}
	}
}

func (st *States) add(name string, s *subject) {
	if st.subjects[name] == nil {
		st.ofKind[s.Subject.Kind]++
	}
	st.subjects[name] = s
}

func (st *States) remove(name string) {
	if s := st.subjects[name]; s != nil {
		st.ofKind[s.Subject.Kind]--
		delete(st.subjects, name)
	}
}

// adopt takes over what newer remembers and these states do not: the database may come back as it was before a change.
// The next evaluation stores it again.
func (st *States) adopt(newer *States) {
	st.unsaved = map[string]bool{}
	for name, s := range newer.subjects {
		if mine := st.subjects[name]; mine == nil || mine.Changed < s.Changed {
			st.add(name, s)
			st.unsaved[name] = true
		}
	}
	for name, b := range newer.budgets {
		if mine := st.budgets[name]; mine == nil || mine.Changed < b.Changed {
			st.budgets[name] = b
			st.unsaved[name] = true
		}
	}
}

// compare notes what the database does not have in this form, although it was stored there. The next evaluation stores
// it again.
func (st *States) compare(database *States) {
	st.unsaved = map[string]bool{}
	for name, s := range st.subjects {
		if has := database.subjects[name]; has == nil || has.Changed < s.Changed {
			st.unsaved[name] = true
		}
	}
	for name, b := range st.budgets {
		if has := database.budgets[name]; has == nil || has.Changed < b.Changed {
			st.unsaved[name] = true
		}
	}
}

// clone is a copy to which an evaluation may add. What it contains is shared.
func (st *States) clone() *States {
	out := &States{subjects: maps.Clone(st.subjects), budgets: maps.Clone(st.budgets), ofKind: maps.Clone(st.ofKind)}
	out.init()
	return out
}

// clone is a copy that an evaluation may change.
func (s *subject) clone() *subject {
	c := *s
	c.Seen = make(map[string]*seen, len(s.Seen))
	for node, at := range s.Seen {
		own := *at
		c.Seen[node] = &own
	}
	return &c
}

// stored returns states as they are stored; a state that is gone has no data.
func (st *States) stored(changed map[string]bool) []alerts.State {
	out := make([]alerts.State, 0, len(changed))
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		var value any
		if s := st.subjects[name]; s != nil {
			value = s
		} else if b := st.budgets[name]; b != nil {
			value = b
		}
		state := alerts.State{Subject: name}
		if value != nil {
			state.Data, _ = json.Marshal(value) // the types have nothing that cannot be encoded
		}
		out = append(out, state)
	}
	return out
}

// addresses are those of the nodes that see a condition, in order.
func (s *subject) addresses() []string {
	var out []string
	for _, at := range s.Seen {
		if at.Address != "" {
			out = append(out, at.Address)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// active is the event of a condition that is met.
func (s *subject) active() alerts.Event {
	return alerts.Event{UID: s.uid(alerts.On), At: time.UnixMilli(s.Since).UTC(), Kind: s.Subject.Kind, State: alerts.On,
		Subject: s.Subject, Data: s.Data}
}
