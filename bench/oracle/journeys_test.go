//go:build !race

package oracle

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// exampleConfig returns the peer's own example, with days in place of minutes and seconds, so that no window ends
// during the test.
func exampleConfig(t *testing.T) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/envoyproxy/ratelimit").Output()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(strings.TrimSpace(string(dir)), "examples", "ratelimit", "config")
	var all string
	for _, name := range []string{"config.yaml", "example.yaml"} {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		all += "---\n" + strings.TrimPrefix(string(b), "---\n")
	}
	return strings.NewReplacer("unit: minute", "unit: day", "unit: second", "unit: day").Replace(all)
}

// of returns a descriptor of keys and values, alternating.
func of(pairs ...string) *ratelimit.RateLimitDescriptor {
	d := &ratelimit.RateLimitDescriptor{}
	for i := 0; i+1 < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

// with returns the descriptor with an addend of its own.
func with(d *ratelimit.RateLimitDescriptor, addend uint64) *ratelimit.RateLimitDescriptor {
	return &ratelimit.RateLimitDescriptor{Entries: d.Entries, HitsAddend: wrapperspb.UInt64(addend)}
}

func call(ds ...*ratelimit.RateLimitDescriptor) *rls.RateLimitRequest {
	return &rls.RateLimitRequest{Domain: "rl", Descriptors: ds}
}

// step is a call of a journey. The first letter of codes is the code of the call, O or L (over the limit), and the
// others are those of its descriptors.
type step struct {
	q     *rls.RateLimitRequest
	codes string
}

// The journeys of the peer's example configuration, in the words of its integration tests.
var journeys = []struct {
	name  string
	steps []step
}{
	{"nested", []step{
		{call(of("source_cluster", "proxy", "destination_cluster", "mock")), "OO"},
		{call(of("source_cluster", "proxy", "destination_cluster", "mock")), "LL"},
		{call(of("source_cluster", "proxy", "destination_cluster", "other")), "OO"},
		{call(of("source_cluster", "proxy")), "OO"},
	}},
	{"a limit, and one below it", []step{
		{call(of("foo", "pelle", "baz", "not-so-shady")), "OO"},
		{call(of("foo", "pelle", "baz", "not-so-shady")), "OO"},
		{call(of("foo", "pelle", "baz", "not-so-shady")), "OO"},
		{call(of("foo", "pelle", "baz", "not-so-shady")), "LL"},
		{call(of("foo", "pelle"), of("foo", "pelle", "bar", "new")), "OOO"},
	}},
	{"shadow", []step{
		{call(of("foo", "s", "baz", "shady")), "OO"},
		{call(of("foo", "s", "baz", "shady")), "OO"},
		{call(of("foo", "s", "baz", "shady")), "OO"},
		{call(of("foo", "s", "baz", "shady")), "OO"},
	}},
	{"unlimited", []step{
		{call(of("qux", "1")), "OO"},
		{call(of("foo", "u", "bay", "1"), of("qux", "1")), "OOO"},
	}},
	{"each value of a key without a value", []step{
		{call(of("unspec", "a")), "OO"}, {call(of("unspec", "a")), "OO"}, {call(of("unspec", "a")), "LL"},
		{call(of("unspec", "b")), "OO"},
	}},
	{"replaces a limit of 0", []step{
		{call(of("foo", "f", "bar", "banned")), "LL"},
		{call(of("foo", "f", "bar", "banned"), of("source_cluster", "proxy", "destination_cluster", "override")), "OOO"},
		{call(of("foo", "f", "bar", "banned"), of("source_cluster", "proxy", "destination_cluster", "override")), "OOO"},
		{call(of("foo", "f", "bar", "banned"), of("source_cluster", "proxy", "destination_cluster", "override")), "LOL"},
	}},
	{"replaces, and leaves the other limit as it was", []step{
		{call(of("foo", "my", "bar", "bkthomps"), of("source_cluster", "proxy", "destination_cluster", "bkthomps")), "OOO"},
		{call(of("foo", "my", "bar", "bkthomps"), of("source_cluster", "proxy", "destination_cluster", "bkthomps")), "OOO"},
		{call(of("foo", "my", "bar", "bkthomps"), of("source_cluster", "proxy", "destination_cluster", "bkthomps")), "LOL"},
		{call(of("foo", "my", "bar", "bkthomps"), of("source_cluster", "proxy", "destination_cluster", "not")), "OOO"},
		{call(of("foo", "my", "bar", "bkthomps"), of("source_cluster", "proxy", "destination_cluster", "not")), "LLO"},
	}},
	{"replaces several", []step{
		{call(of("foo", "5", "bar", "bkthomps"), of("source_cluster", "proxy", "destination_cluster", "fake"),
			of("category", "account")), "OOOO"},
		{call(of("foo", "5", "bar", "bkthomps"), of("source_cluster", "proxy", "destination_cluster", "fake"),
			of("category", "account")), "OOOO"},
		{call(of("foo", "5", "bar", "bkthomps"), of("source_cluster", "proxy", "destination_cluster", "fake"),
			of("category", "account")), "OOOO"},
		{call(of("foo", "5", "bar", "bkthomps"), of("source_cluster", "proxy", "destination_cluster", "fake"),
			of("category", "account")), "OOOO"},
		{call(of("foo", "5", "bar", "bkthomps"), of("source_cluster", "proxy", "destination_cluster", "fake"),
			of("category", "account")), "LOOL"},
		{call(of("foo", "5", "bar", "bkthomps")), "OO"},
		{call(of("foo", "5", "bar", "bkthomps")), "LL"},
	}},
	{"unknown", []step{
		{call(of("nobody", "1")), "OO"},
		{&rls.RateLimitRequest{Domain: "elsewhere", Descriptors: call(of("foo", "1")).Descriptors}, "OO"},
	}},
}

// codesOf writes codes as steps do.
func codesOf(a *rls.RateLimitResponse) string {
	letters := map[rls.RateLimitResponse_Code]string{rls.RateLimitResponse_OK: "O", rls.RateLimitResponse_OVER_LIMIT: "L"}
	out := letters[a.OverallCode]
	for _, s := range a.Statuses {
		out += letters[s.Code]
	}
	return out
}

func TestJourneys_OfTheExampleAreThoseOfThePeer(t *testing.T) {
	config := exampleConfig(t)
	there, here := startPeer(t, config), startOurs(t, config)
	for _, j := range journeys {
		t.Run(j.name, func(t *testing.T) {
			for i, s := range j.steps {
				theirs, ours := there.ask(t, s.q), here.ask(t, s.q)
				if codesOf(theirs) != s.codes {
					t.Errorf("step %d: there %v, want %s", i, theirs, s.codes)
				}
				if codesOf(ours) != s.codes {
					t.Errorf("step %d: here %v, want %s", i, ours, s.codes)
				}
			}
		})
	}
	t.Run("as JSON", func(t *testing.T) {
		body := `{"domain":"rl","descriptors":[{"entries":[{"key":"unspec","value":"j"}]}]}`
		for i, want := range []int{200, 200, 429} {
			status, answer, err := post(t.Context(), "http://"+there.http+"/json", body)
			ourStatus, ourAnswer, ourErr := post(t.Context(), "http://"+here.http+"/ratelimit/rls", body)
			if err != nil || ourErr != nil {
				t.Fatal(err, ourErr)
			}
			if status != want || ourStatus != want {
				t.Errorf("call %d: %d there, %d here, want %d", i, status, ourStatus, want)
			}
			var ours, theirs rls.RateLimitResponse
			for text, into := range map[string]*rls.RateLimitResponse{ourAnswer: &ours, answer: &theirs} {
				if err := protojson.Unmarshal([]byte(text), into); err != nil || !json.Valid([]byte(text)) {
					t.Fatalf("%v: %s", err, text)
				}
			}
			if codesOf(&ours) != codesOf(&theirs) || ours.Statuses[0].LimitRemaining != theirs.Statuses[0].LimitRemaining {
				t.Errorf("call %d: %v here, %v there", i, &ours, &theirs)
			}
		}
	})
}

// newer is a configuration with what the peer has after the version that the module resolves: its own examples of
// quotas, and patterns with * in the middle.
const newer = `domain: rl
descriptors:
  - key: service
    value: service_1
    quota_mode: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: service
    value: service_2
    quota_mode: true
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: token
    quota_mode: true
    rate_limit: {unit: day, requests_per_unit: 900}
  - key: path
    value: /users/*/photos
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: path
    value: /v*/users/*
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: path
    value: "*.png"
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: negative
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: tagged
    rate_limit: {unit: day, requests_per_unit: 2}
    metadata: {plan: gold}
`

// negative returns the descriptor with an addend that is given back.
func negative(d *ratelimit.RateLimitDescriptor, addend uint64) *ratelimit.RateLimitDescriptor {
	d = with(d, addend)
	d.IsNegativeHits = true
	return d
}

// What the newest source of the peer does beyond the version that resolves, as a table.
var newerJourneys = []struct {
	name  string
	steps []step
}{
	// A quota denies only if every quota of the call is over. Each is charged where there is room. The status of one that
	// is over in a call that passes is OK here, and OVER_LIMIT there.
	{"quota", []step{
		{call(of("service", "service_1"), of("service", "service_2")), "OOO"},
		{call(of("service", "service_1"), of("service", "service_2")), "O"},
		{call(of("service", "service_1"), of("service", "service_2")), "LLL"},
	}},
	// A look says OK until the quota is exceeded, and the report at the end of the stream is charged whether or not it
	// fits: 900 tokens are left, the answer has 1,200.
	{"token quota, by look and report", []step{
		{call(with(of("token", "1"), 0)), "OO"},
		{call(with(of("token", "1"), 1200)), "LL"},
		{call(with(of("token", "1"), 0)), "LL"},
		{call(with(of("token", "2"), 900)), "OO"},
		{call(with(of("token", "2"), 0)), "OO"},
		{call(with(of("token", "2"), 1)), "LL"},
		{call(with(of("token", "2"), 0)), "LL"},
	}},
	{"* in the middle", []step{
		{call(of("path", "/users/17/photos")), "OO"},
		{call(of("path", "/users/17/photos")), "LL"},
		{call(of("path", "/users/18/photos")), "OO"},
		{call(of("path", "/users/18/photo")), "OO"},
		{call(of("path", "/users/18/photo")), "OO"},
		{call(of("path", "/v1/users/1")), "OO"},
		{call(of("path", "/v1/users/1")), "LL"},
	}},
	{"* at the beginning, with a shared bucket", []step{
		{call(of("path", "a.png")), "OO"}, {call(of("path", "b.png")), "OO"}, {call(of("path", "c.png")), "LL"},
	}},
	{"negative hits", []step{
		{call(of("negative", "1")), "OO"}, {call(of("negative", "1")), "OO"}, {call(of("negative", "1")), "LL"},
		{call(negative(of("negative", "1"), 1)), "OO"},
		{call(of("negative", "1")), "OO"}, {call(of("negative", "1")), "LL"},
	}},
}

func TestJourneys_NewerThanTheVersionThatResolves(t *testing.T) {
	here := startOurs(t, newer)
	for _, j := range newerJourneys {
		t.Run(j.name, func(t *testing.T) {
			for i, s := range j.steps {
				if ours := here.ask(t, s.q); !strings.HasPrefix(codesOf(ours), s.codes) {
					t.Errorf("step %d: %v, want %s", i, ours, s.codes)
				}
			}
		})
	}
	t.Run("metadata of rules that passed", func(t *testing.T) {
		a := here.ask(t, call(of("tagged", "1")))
		got := a.GetDynamicMetadata().GetFields()["metadata"].GetStructValue().GetFields()["plan"].GetStringValue()
		if got != "gold" {
			t.Errorf("got %q in %v, want gold", got, a.DynamicMetadata)
		}
	})
}
