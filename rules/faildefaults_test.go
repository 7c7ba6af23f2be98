package rules

import (
	"strings"
	"testing"

	"sluice/rules/entries"
)

func TestFailDefaults_FirstMatchByMethodOrRoute(t *testing.T) {
	d, err := ParseFailDefaults(" post, PUT=closed ; /payments*=closed;/search=local;GET=local;")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ method, route, want, from string }{
		"method":                        {"PUT", "", FailClosed, "post, PUT=closed"},
		"the first of two":              {"POST", "/search", FailClosed, "post, PUT=closed"},
		"route that begins so":          {"DELETE", "/payments/{id}", FailClosed, "/payments*=closed"},
		"route itself":                  {"", "/payments", FailClosed, "/payments*=closed"},
		"exact route":                   {"", "/search", FailLocal, "/search=local"},
		"below an exact route":          {"", "/search/a", FailOpen, "no entry"},
		"neither method nor route":      {"", "", FailOpen, "no entry"},
		"another method without routes": {"PATCH", "", FailOpen, "no entry"},
	} {
		r := Rule{Name: "a", Scope: "user", Limit: 1, WindowMS: 1000, Method: &c.method, Route: &c.route}
		r.Normalize()
		d.Fill(&r)
		if r.FailMode != c.want || !strings.Contains(r.FailFrom, c.from) || !strings.Contains(r.FailModeWords(), c.want) {
			t.Errorf("%s: %q %q", name, r.FailMode, r.FailFrom)
		}
	}
}

func TestFailDefaults_FoldedComparesWithoutCase(t *testing.T) {
	d, err := ParseFailDefaults("/Payments*=closed;/search=local")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][2]string{
		"/payments/x": {FailOpen, FailClosed}, "/PAYMENTS/x": {FailOpen, FailClosed}, "/Payments": {FailClosed, FailClosed},
		"/Search": {FailOpen, FailLocal}, "/searches": {FailOpen, FailOpen},
	} {
		for i, defaults := range []FailDefaults{d, d.Folded()} {
			r := Rule{Name: "a", Scope: "user", Limit: 1, WindowMS: 1000, Route: &path}
			r.Normalize()
			if defaults.Fill(&r); r.FailMode != want[i] {
				t.Errorf("%s, folded %v: got %s, want %s", path, i == 1, r.FailMode, want[i])
			}
		}
	}
}

func TestFailDefaults_WarnOfOpenWritesOfDescriptors(t *testing.T) {
	for value, want := range map[string]bool{"POST": true, "DELETE": true, "GET": false, "post": false, "": false} {
		r := Rule{Name: "a", Limit: 1, WindowMS: 1000, IsActive: true, Descriptor: &RuleDescriptor{Domain: "shop",
			Entries: []entries.Element{{Key: "user"}, {Key: "verb", Value: value}}}}
		r.Normalize()
		got := FailDefaults(nil).OpenWrites(&r)
		if (len(got) == 1) != want || want && strings.Contains(got[0].Message, "SLUICE_FAIL_DEFAULTS") {
			t.Errorf("%q: got %v", value, got)
		}
	}
}

func TestFailDefaults_WarnOfOpenWritesWhereNoneAreSet(t *testing.T) {
	some, err := ParseFailDefaults("GET=closed")
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "GET", "HEAD"} {
		r := Rule{Name: "a", Scope: "user", Limit: 1, WindowMS: 1000, Method: &method, IsActive: true}
		r.Normalize()
		closed := r.Clone()
		closed.FailMode = FailClosed
		want := method != "GET" && method != "HEAD"
		if got := FailDefaults(nil).OpenWrites(&r); (len(got) == 1 && got[0].Field == "fail_mode") != want {
			t.Errorf("%s: got %v", method, got)
		}
		if some.OpenWrites(&r) != nil || FailDefaults(nil).OpenWrites(&closed) != nil {
			t.Errorf("%s: a warning without cause", method)
		}
		plan := MakePlan(nil, []Rule{r}, false)
		FailDefaults(nil).NoteIn(&plan)
		if strings.Contains(plan.String(), "fail mode open, and SLUICE_FAIL_DEFAULTS is not set") != want {
			t.Errorf("%s: the plan says %s", method, &plan)
		}
	}
}

func TestFailDefaults_ChangeOnlyNewRulesThatLeaveItOut(t *testing.T) {
	d, err := ParseFailDefaults("POST=closed")
	if err != nil {
		t.Fatal(err)
	}
	method := "POST"
	given := Rule{Name: "given", Scope: "user", Limit: 1, WindowMS: 1000, Method: &method, FailMode: FailOpen}
	left := given.Clone()
	left.Name, left.FailMode = "left", ""
	for _, r := range []*Rule{&given, &left} {
		r.Normalize()
		d.Fill(r)
	}
	if given.FailMode != FailOpen || given.FailFrom != "" || left.FailMode != FailClosed {
		t.Errorf("got %+v and %+v", given, left)
	}
	stored := left.Clone()
	stored.FailMode, stored.FailFrom, stored.Version = FailLocal, "", 7
	plan := MakePlan([]Rule{stored}, []Rule{left}, false)
	if !plan.Empty() || len(plan.FailModes) != 0 {
		t.Errorf("a file that leaves it out changes a stored rule: %s", &plan)
	}
	plan = MakePlan(nil, []Rule{given, left}, false)
	if len(plan.FailModes) != 1 || plan.FailModes[0].Rule != "left" ||
		!strings.Contains(plan.String(), "left: fail_mode closed (from SLUICE_FAIL_DEFAULTS, POST=closed)") {
		t.Errorf("got %s", &plan)
	}
	// Without the setting a file that leaves it out means open, as ever.
	left.FailMode, left.FailFrom = FailOpen, FailLeftOut
	if plan = MakePlan([]Rule{stored}, []Rule{left}, false); len(plan.Update) != 1 {
		t.Errorf("got %s", &plan)
	}
}

func TestParseFailDefaults_RefusesAndNamesTheEntry(t *testing.T) {
	for text, want := range map[string]string{
		"POST":                 "entry 1",
		"POST=closed;GET=shut": "entry 2",
		"POST=Closed":          "=open, =closed or =local",
		"payments/*=closed":    "entry 1",
		"=closed":              "entry 1",
		"POST,,PUT=closed":     "entry 1",
		"PO ST=closed":         "entry 1",
		"/payments/=closed":    "write /payments",
		"/pay//ments*=closed":  "write /pay/ments*",
		"/a?b=closed":          "write /a",
		strings.Repeat("A=open;", MaxFailDefaults+1): "at most",
	} {
		if _, err := ParseFailDefaults(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	if _, err := ParseFailDefaults("/=open;/*=open;/a/*=open;/a/{id}=open;/a.=open;/a/.*=open"); err != nil {
		t.Error(err)
	}
	if d, err := ParseFailDefaults(" ; "); err != nil || len(d) != 0 {
		t.Errorf("%v, %v", d, err)
	}
}
