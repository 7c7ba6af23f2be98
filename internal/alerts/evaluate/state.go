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
	// unsaved are the names of states that differ from the database.
	unsaved map[string]bool
}

// subject is the state of a subject.
type subject struct {
	Subject alerts.Subject `json:"subject"`
	// On: the condition is met, since Since (ms since the epoch).
	On    bool  `json:"on"`
	Since int64 `json:"since,omitempty"`
	// Told is the state of the last event, "" for none, and ToldAt the time of the last event with On (ms).
	Told   string `json:"told,omitempty"`
	ToldAt int64  `json:"told_at,omitempty"`
	// Muted: the last event with On was not sent, because the subject was silenced or acknowledged.
	Muted bool `json:"muted,omitempty"`
	// Counted is the number of alerts without an event since the last event with On that was sent.
	Counted int64 `json:"counted,omitempty"`
	// Data describes the active condition, or the last one. Its numbers were true at Figures (ms), and the node By
	// reported them.
	Data    alerts.Data `json:"data"`
	Figures int64       `json:"figures,omitempty"`
	By      string      `json:"by,omitempty"`
	// Seen are the places that observe the condition, by node.
	Seen map[string]*seen `json:"seen,omitempty"`
	// Changed is when this was last changed, ms since the epoch.
	Changed int64 `json:"changed"`
}

// seen is one place that observes a condition.
type seen struct {
	Seq     int64  `json:"seq,omitempty"`
	Address string `json:"address,omitempty"`
	LifeMS  int64  `json:"life_ms,omitempty"`
	// last is the time of the last observation. It is not stored: after a restart the life begins again.
	last time.Time
}

// budget bounds the messages of a kind to a webhook. In the minute from Began (ms) on, Sent alerts were sent one by
// one. Counted other alerts wait for a summary; First are the first of them, and Ended of them are ends of conditions.
type budget struct {
	Began   int64         `json:"began"`
	Sent    int           `json:"sent"`
	Counted int64         `json:"counted,omitempty"`
	Ended   int64         `json:"ended,omitempty"`
	First   []alerts.Data `json:"first,omitempty"`
	// UID is the UID of the first waiting event.
	UID     string `json:"uid,omitempty"`
	Changed int64  `json:"changed"`
}

// budgetPrefix begins the names of budgets among the names of states. No kind has this name.
const budgetPrefix = "budget|"

// LoadStates reads stored states. It leaves out states that it does not understand.
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

// clone returns a copy to which an evaluation may add. The copy shares its subjects and budgets with the original.
func (st *States) clone() *States {
	out := &States{subjects: maps.Clone(st.subjects), budgets: maps.Clone(st.budgets), ofKind: maps.Clone(st.ofKind)}
	out.init()
	return out
}

// clone returns a copy that an evaluation may change.
func (s *subject) clone() *subject {
	c := *s
	c.Seen = make(map[string]*seen, len(s.Seen))
	for node, at := range s.Seen {
		own := *at
		c.Seen[node] = &own
	}
	return &c
}

// stored returns states as they are stored; a deleted state has no data.
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

// addresses returns the addresses of the nodes that observe a condition, in order.
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
