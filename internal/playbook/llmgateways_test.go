package playbook

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// told is an entry of a descriptor as a gateway's file names it.
type told struct{ Key, Value string }

// asks sends a call of one descriptor to Envoy's protocol as JSON, and returns the status of the answer.
func (w *World) asks(t *testing.T, domain string, entries []told, addend string) int {
	t.Helper()
	var list []string
	for _, e := range entries {
		list = append(list, fmt.Sprintf(`{"key": %q, "value": %q}`, e.Key, e.Value))
	}
	status, body, err := w.send(&request{method: http.MethodPost, path: "/ratelimit/rls", body: fmt.Sprintf(
		`{"domain": %q, "descriptors": [{"entries": [%s]%s}]}`, domain, strings.Join(list, ", "), addend)})
	if err != nil || status == http.StatusOK && !strings.Contains(body, `"limitRemaining"`) {
		t.Fatalf("%s %v: %d %s, %v: no rule applies", domain, entries, status, body, err)
	}
	return status
}

// spendsTokens asks as both gateways do for tokens: a look before a call, and its tokens when it has ended.
func (w *World) spendsTokens(t *testing.T, domain string, entries []told) {
	t.Helper()
	look, tokens := `, "hitsAddend": "0"`, `, "hitsAddend": "150000"`
	if got := w.asks(t, domain, entries, look); got != http.StatusOK {
		t.Errorf("a first call got %d", got)
	}
	w.asks(t, domain, entries, tokens)
	if got := w.asks(t, domain, entries, look); got != http.StatusTooManyRequests {
		t.Errorf("a call after more than the limit got %d", got)
	}
}

// The rules of the recipe apply to what the example of agentgateway sends.
func TestLLMGateways_Agentgateway(t *testing.T) {
	var file struct {
		Binds []struct {
			Listeners []struct {
				Routes []struct {
					Policies struct {
						RemoteRateLimit struct {
							Domain      string
							FailureMode string `yaml:"failureMode"`
							Descriptors []struct {
								Type    string
								Entries []told
							}
						} `yaml:"remoteRateLimit"`
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "../../deploy/gateways/agentgateway/config.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	limit := file.Binds[0].Listeners[0].Routes[0].Policies.RemoteRateLimit
	w := Serve(t)
	if err := w.PutInForce([]byte(read(t, "../../deploy/recipes/llm-envoy.yaml"))); err != nil {
		t.Fatal(err)
	}
	if len(limit.Descriptors) != 2 || limit.FailureMode != "failClosed" {
		t.Fatalf("the file has %+v", limit)
	}
	for _, d := range limit.Descriptors {
		for i, e := range d.Entries { // expressions: a text in quotes, or the claim of the caller
			if d.Entries[i].Value = strings.Trim(e.Value, `"`); e.Value == "jwt.sub" {
				d.Entries[i].Value = "ada"
			}
		}
		if d.Type == "tokens" {
			w.spendsTokens(t, limit.Domain, d.Entries)
		} else if got := w.asks(t, limit.Domain, d.Entries, ""); got != http.StatusOK {
			t.Errorf("a request got %d", got)
		}
	}
}

// The rules of the example apply to what Envoy Gateway makes of its policy.
func TestLLMGateways_EnvoyAIGateway(t *testing.T) {
	var policy struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
		Spec     struct {
			RateLimit struct {
				Global struct {
					Rules []struct {
						Shared          bool
						ClientSelectors []struct {
							Headers []struct{ Name, Type string }
						} `yaml:"clientSelectors"`
					}
				}
			} `yaml:"rateLimit"`
		}
	}
	objects := strings.Split(read(t, "../../deploy/gateways/envoy-ai-gateway/policy.yaml"), "\n---\n")
	if err := yaml.Unmarshal([]byte(objects[1]), &policy); err != nil || policy.Kind != "BackendTrafficPolicy" {
		t.Fatalf("%q, %v", policy.Kind, err)
	}
	if err := yaml.Unmarshal([]byte(objects[0]), &struct{}{}); err != nil {
		t.Fatal(err)
	}
	w := Serve(t)
	if err := w.PutInForce([]byte(read(t, "../../deploy/gateways/envoy-ai-gateway/rules.yaml"))); err != nil {
		t.Fatal(err)
	}
	name := policy.Metadata.Namespace + "/" + policy.Metadata.Name
	for i, rule := range policy.Spec.RateLimit.Global.Rules {
		if !rule.Shared || len(rule.ClientSelectors) != 1 {
			t.Fatalf("rule %d is %+v", i, rule)
		}
		first := fmt.Sprintf("%s/rule/%d", name, i)
		entries := []told{{first, first}}
		for j, header := range rule.ClientSelectors[0].Headers {
			entries = append(entries, told{fmt.Sprintf("rule-%d-match-%d", i, j), "of " + header.Name})
		}
		w.spendsTokens(t, name, entries)
	}
}
