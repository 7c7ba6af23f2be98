package rules

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/rules/field"
	"sluice/rules/route"
)

func TestValidate_AcceptsEveryFormOfRule(t *testing.T) {
	for name, edit := range map[string]func(*Rule){
		"plain":         func(*Rule) {},
		"global":        func(r *Rule) { r.Scope = "global" },
		"six facts":     func(r *Rule) { r.Scope = "ip+user+apikey+tier+route+method" },
		"attributes":    func(r *Rule) { r.Scope = "attr:a+attr:B.c_d-9" },
		"root":          func(r *Rule) { r.Route = ptr("/") },
		"everything":    func(r *Rule) { r.Route = ptr("/*") },
		"params":        func(r *Rule) { r.Route = ptr("/v1/{user_id}/x/{y}/*") },
		"unicode route": func(r *Rule) { r.Route = ptr("/café/a b") },
		"odd method":    func(r *Rule) { r.Method = ptr("M-SEARCH") },
		"lower method":  func(r *Rule) { r.Method = ptr("get") },
		"empty optionals": func(r *Rule) {
			r.Route, r.Method, r.WeightField, r.Align = ptr(""), ptr(" "), ptr(""),
				ptr("")
		},
		"blanks in scope": func(r *Rule) { r.Scope = " user + ip " },
		"calendar": func(r *Rule) {
			r.Algorithm, r.Align, r.AnchorMS = "fixed_window", ptr("calendar"),
				ptr(int64(-5))
		},
		"first hit":          func(r *Rule) { r.Algorithm, r.Align = "fixed_window", ptr("first_hit") },
		"buckets":            func(r *Rule) { r.Algorithm, r.Buckets = "sliding_window_buckets", ptr(int64(10)) },
		"burst above limit":  func(r *Rule) { r.Algorithm, r.Burst = "token_bucket", ptr(int64(50)) },
		"burst zero":         func(r *Rule) { r.Algorithm, r.Burst = "gcra", ptr(int64(0)) },
		"blocks everything":  func(r *Rule) { r.Limit = 0 },
		"shadow":             func(r *Rule) { r.Mode = ModeShadow },
		"fail local":         func(r *Rule) { r.FailMode = FailLocal },
		"weight":             func(r *Rule) { r.WeightField = ptr("bytes.sent") },
		"longest name":       func(r *Rule) { r.Name = strings.Repeat("a", MaxName) },
		"description":        func(r *Rule) { r.Description = "Für alle 🙂 <b>" },
		"ten years":          func(r *Rule) { r.WindowMS = 315_576_000_000 },
		"day of 104 million": func(r *Rule) { r.Limit, r.WindowMS = 104_249_991, 86_400_000 },
	} {
		t.Run(name, func(t *testing.T) {
			r := rule(1, edit)
			if err := Validate(&r); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestValidate_NamesTheFieldAtFault(t *testing.T) {
	big := int64(math.MaxInt64)
	for name, c := range map[string]struct {
		field string
		edit  func(*Rule)
	}{
		"no name":             {"name", func(r *Rule) { r.Name = "" }},
		"capital name":        {"name", func(r *Rule) { r.Name = "Charges" }},
		"long name":           {"name", func(r *Rule) { r.Name = strings.Repeat("a", MaxName+1) }},
		"name with newline":   {"name", func(r *Rule) { r.Name = "a\nb" }},
		"name beginning .":    {"name", func(r *Rule) { r.Name = ".a" }},
		"long description":    {"description", func(r *Rule) { r.Description = strings.Repeat("a", field.MaxDescription+1) }},
		"control character":   {"description", func(r *Rule) { r.Description = "a\x00b" }},
		"reversed text":       {"description", func(r *Rule) { r.Description = "a\u202eb" }},
		"line separator":      {"description", func(r *Rule) { r.Description = "a\u2028b" }},
		"paragraph separator": {"description", func(r *Rule) { r.Description = "a\u2029b" }},
		"invalid utf-8":       {"description", func(r *Rule) { r.Description = "a\xffb" }},
		"no scope":            {"scope", func(r *Rule) { r.Scope = "" }},
		"unknown fact":        {"scope", func(r *Rule) { r.Scope = "account" }},
		"bare attr":           {"scope", func(r *Rule) { r.Scope = "attr" }},
		"empty attr":          {"scope", func(r *Rule) { r.Scope = "attr:" }},
		"attr with colon":     {"scope", func(r *Rule) { r.Scope = "attr:a:b" }},
		"long attr":           {"scope", func(r *Rule) { r.Scope = "attr:" + strings.Repeat("a", 65) }},
		"global in a sum":     {"scope", func(r *Rule) { r.Scope = "global+user" }},
		"repeated fact":       {"scope", func(r *Rule) { r.Scope = "user+ip+user" }},
		"repeated attr":       {"scope", func(r *Rule) { r.Scope = "attr:a+attr:a" }},
		"dangling plus":       {"scope", func(r *Rule) { r.Scope = "user+" }},
		"seven facts":         {"scope", func(r *Rule) { r.Scope = "ip+user+apikey+tier+route+method+attr:a" }},
		"relative route":      {"route", func(r *Rule) { r.Route = ptr("v1") }},
		"empty segment":       {"route", func(r *Rule) { r.Route = ptr("/v1//x") }},
		"trailing slash":      {"route", func(r *Rule) { r.Route = ptr("/v1/") }},
		"dot segment":         {"route", func(r *Rule) { r.Route = ptr("/v1/../x") }},
		"query":               {"route", func(r *Rule) { r.Route = ptr("/v1?x") }},
		"fragment":            {"route", func(r *Rule) { r.Route = ptr("/v1#x") }},
		"brace inside":        {"route", func(r *Rule) { r.Route = ptr("/v1/x{id}") }},
		"open brace":          {"route", func(r *Rule) { r.Route = ptr("/v1/{id") }},
		"empty param":         {"route", func(r *Rule) { r.Route = ptr("/v1/{}") }},
		"star inside":         {"route", func(r *Rule) { r.Route = ptr("/v1/*/x") }},
		"star in segment":     {"route", func(r *Rule) { r.Route = ptr("/v1/x*") }},
		"control in route":    {"route", func(r *Rule) { r.Route = ptr("/v1/\x01") }},
		"escaped route":       {"route", func(r *Rule) { r.Route = ptr("/v1/%63") }},
		"route not utf-8":     {"route", func(r *Rule) { r.Route = ptr("/\xff") }},
		"long route":          {"route", func(r *Rule) { r.Route = ptr("/" + strings.Repeat("a", route.Max)) }},
		"method with space":   {"method", func(r *Rule) { r.Method = ptr("GET POST") }},
		"long method":         {"method", func(r *Rule) { r.Method = ptr(strings.Repeat("A", route.MaxMethod+1)) }},
		"method not ascii":    {"method", func(r *Rule) { r.Method = ptr("GÉT") }},
		"unknown algorithm":   {"algorithm", func(r *Rule) { r.Algorithm = "magic" }},
		"negative limit":      {"limit", func(r *Rule) { r.Limit = -1 }},
		"huge limit":          {"limit", func(r *Rule) { r.Limit = big }},
		"product too large":   {"limit", func(r *Rule) { r.Limit, r.WindowMS = 104_249_992, 86_400_000 }},
		"no window":           {"window_ms", func(r *Rule) { r.WindowMS = 0 }},
		"huge window":         {"window_ms", func(r *Rule) { r.WindowMS = big }},
		"foreign burst":       {"burst", func(r *Rule) { r.Burst = ptr(int64(0)) }},
		"negative burst":      {"burst", func(r *Rule) { r.Algorithm, r.Burst = "gcra", ptr(int64(-1)) }},
		"unknown align":       {"align", func(r *Rule) { r.Algorithm, r.Align = "fixed_window", ptr("monday") }},
		"foreign align":       {"align", func(r *Rule) { r.Align = ptr("calendar") }},
		"foreign anchor":      {"anchor_ms", func(r *Rule) { r.AnchorMS = ptr(int64(0)) }},
		"anchor of first hit": {"anchor_ms", func(r *Rule) {
			r.Algorithm, r.Align, r.AnchorMS = "fixed_window",
				ptr("first_hit"), ptr(int64(0))
		}},
		"huge anchor":     {"anchor_ms", func(r *Rule) { r.Algorithm, r.AnchorMS = "fixed_window", &big }},
		"foreign buckets": {"buckets", func(r *Rule) { r.Buckets = ptr(int64(0)) }},
		"no buckets": {"buckets", func(r *Rule) {
			r.Algorithm, r.Buckets = "sliding_window_buckets",
				ptr(int64(0))
		}},
		"too many buckets": {"buckets", func(r *Rule) {
			r.Algorithm, r.WindowMS, r.Buckets = "sliding_window_buckets", 100_000, ptr(int64(1441))
		}},
		"weight field":      {"weight_field", func(r *Rule) { r.WeightField = ptr("a b") }},
		"soft throttle":     {"soft_percent", func(r *Rule) { r.Throttle = "soft" }},
		"unknown throttle":  {"throttle", func(r *Rule) { r.Throttle = "gentle" }},
		"soft percent":      {"soft_percent", func(r *Rule) { r.SoftPercent = ptr(int64(10)) }},
		"unknown mode":      {"mode", func(r *Rule) { r.Mode = "dry" }},
		"unknown fail mode": {"fail_mode", func(r *Rule) { r.FailMode = "panic" }},
	} {
		t.Run(name, func(t *testing.T) {
			r := rule(1, c.edit)
			got := fieldErrors(t, Validate(&r))
			if len(got) != 1 || !strings.HasPrefix(got[0], c.field+": ") {
				t.Errorf("got %q, want one error of %s", got, c.field)
			}
		})
	}
}

func TestValidate_ReportsEveryFieldAtOnce(t *testing.T) {
	r := Rule{
		Name: "No", Description: "\x00", Scope: "x", Route: ptr("x"), Method: ptr("a b"), Algorithm: "x", Limit: -1,
		WindowMS:    -1,
		WeightField: ptr("?"), Throttle: "x", Mode: "x", FailMode: "x",
	}
	r.Normalize()
	want := []string{
		"name", "description", "scope", "route", "method", "algorithm", "limit", "window_ms", "weight_field",
		"throttle", "mode", "fail_mode",
	}
	if d := cmp.Diff(want, badFields(t, Validate(&r))); d != "" {
		t.Error(d)
	}
}

func TestNormalize_FillsDefaultsOnceAndLeavesPointersAlone(t *testing.T) {
	method := "post"
	r := Rule{Name: " a ", Scope: "user", Method: &method, Route: ptr("")}
	r.Normalize()
	want := Rule{
		Name: "a", Scope: "user", Method: ptr("POST"), Algorithm: "sliding_window_counter",
		Throttle: "hard", Mode: "enforce", FailMode: "open", ChargeOn: "request", OverLimit: "deny", HotKeys: "exact",
		Span: "region", Addend: "take", FailFrom: FailLeftOut,
	}
	if d := cmp.Diff(want, r); d != "" {
		t.Error(d)
	}
	again := r.Clone()
	again.Normalize()
	if d := cmp.Diff(r, again); d != "" {
		t.Error(d)
	}
	if method != "post" {
		t.Error("the caller's string was changed")
	}
}

func TestClone_SharesNothing(t *testing.T) {
	var r Rule
	fill(reflect.ValueOf(&r).Elem())
	c := r.Clone()
	if d := cmp.Diff(r, c); d != "" {
		t.Error(d)
	}
	ours := map[uintptr]bool{}
	pointers(reflect.ValueOf(r), "Rule", func(_ string, at uintptr) { ours[at] = true })
	if len(ours) < 30 {
		t.Errorf("the rule has only %d pointers", len(ours))
	}
	pointers(reflect.ValueOf(c), "Rule", func(path string, at uintptr) {
		if ours[at] {
			t.Errorf("%s is shared", path)
		}
	})
}

// fill returns everything that can point somewhere something to point to.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		e := reflect.New(v.Type().Elem()).Elem()
		fill(e)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), e)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type() != reflect.TypeFor[time.Time]() {
				fill(v.Field(i))
			}
		}
	case reflect.Int64:
		v.SetInt(7) // so that no two pointers may be to one zero
	case reflect.String:
		v.SetString("x")
	}
}

// pointers visits every pointer, slice and map below a value.
func pointers(v reflect.Value, path string, visit func(path string, at uintptr)) {
	switch v.Kind() {
	case reflect.Pointer:
		visit(path, v.Pointer())
		pointers(v.Elem(), path, visit)
	case reflect.Slice:
		visit(path, v.Pointer())
		pointers(v.Index(0), path+"[0]", visit)
	case reflect.Map:
		visit(path, v.Pointer())
		for key, e := range v.Seq2() {
			pointers(e, path+"."+key.String(), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type() != reflect.TypeFor[time.Time]() {
				pointers(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
			}
		}
	}
}

// fieldErrors returns the field errors of err as "field: message" lines.
func fieldErrors(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var ve *field.ValidationError
	if !errors.As(err, &ve) {
		t.Fatalf("got %T (%v), want a *ValidationError", err, err)
	}
	var out []string
	for _, f := range ve.Fields {
		out = append(out, f.Field+": "+f.Message)
	}
	return out
}

// names the fields only.
func badFields(t *testing.T, err error) []string {
	var out []string
	for _, s := range fieldErrors(t, err) {
		name, _, _ := strings.Cut(s, ": ")
		out = append(out, name)
	}
	return out
}
