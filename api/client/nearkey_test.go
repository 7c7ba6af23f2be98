package client

import (
	"reflect"
	"testing"
)

// A new member of a check must tell questions apart, or be asked each time.
func TestNear_EveryMemberOfACheckTellsQuestionsApart(t *testing.T) {
	apart := map[string]func(*Check){
		"Key": func(c *Check) { c.Key = "k" }, "Limit": func(c *Check) { c.Limit = &Limit{Count: 1, WindowMS: 1} },
		"Limits": func(c *Check) { c.Limits = []DirectLimit{{Key: "k"}} }, "Method": func(c *Check) { c.Method = "PUT" },
		"Route": func(c *Check) { c.Route = "/x" }, "Host": func(c *Check) { c.Host = "x" },
		"IP": func(c *Check) { c.IP = "192.0.2.1" }, "User": func(c *Check) { c.User = "x" },
		"APIKey": func(c *Check) { c.APIKey = "x" }, "Tier": func(c *Check) { c.Tier = "x" },
		"Attributes": func(c *Check) { c.Attributes = map[string]string{"a": "b"} },
		"Fields":     func(c *Check) { c.Fields = map[string]int64{"a": 1} },
		"Weight":     func(c *Check) { c.Weight = new(int64(2)) },
	}
	// Those that decide nothing, and those with which Near.Check asks each time.
	other := map[string]bool{"UserAgent": true, "TraceID": true, "RequestID": true, "Payload": true, "Dialect": true,
		"OnExpire": true}
	fields := reflect.TypeFor[Check]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		change := apart[name]
		if (change == nil) != other[name] {
			t.Errorf("%s is in neither list, or in both", name)
			continue
		}
		if change == nil {
			continue
		}
		one, two := user("ada"), user("ada")
		change(&two)
		if weight := int64(1); one.same(&two, weight) {
			t.Errorf("two checks with another %s are one question", name)
		}
	}
}

func TestNear_ACheckWithADialectIsAskedEachTime(t *testing.T) {
	s := newNearService(t, leasedRule("r", "user", "fixed_window", 1000, 3_600_000))
	_, n := s.client(Options{})
	q := user("ada")
	q.Dialect = "openai"
	for range 100 {
		a, err := n.Check(t.Context(), q)
		if err != nil || !a.Allowed || a.Headers["x-ratelimit-remaining-requests"] == "" {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if st := n.Stats(); st.Granted != 0 || s.checks.Load() != 100 {
		t.Errorf("%d requests were granted, and %d checks asked", st.Granted, s.checks.Load())
	}
}
