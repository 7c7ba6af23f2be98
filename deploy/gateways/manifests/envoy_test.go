package manifests

import (
	"os"
	"strings"
	"testing"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/local_ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rate_limit_quota/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"
)

// The imports above register the messages of typed_config.
func decodeEnvoy(file string) (*bootstrap.Bootstrap, error) {
	json, err := yaml.YAMLToJSONStrict([]byte(file))
	if err != nil {
		return nil, err
	}
	var b bootstrap.Bootstrap
	if err := protojson.Unmarshal(json, &b); err != nil {
		return nil, err
	}
	return &b, b.ValidateAll()
}

// make test-envoy kills a node behind a real Envoy. It sends one request after the other, for which a second try or
// outlier detection alone would do.
func TestEnvoy_LeavesADeadNodeAloneAndAsksAnother(t *testing.T) {
	for _, name := range []string{"envoy.yaml", "rls.yaml", "ext_authz.yaml"} {
		file, err := os.ReadFile("../envoy/" + name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := decodeEnvoy(string(file))
		if err != nil {
			t.Fatal(err)
		}
		sluice := b.StaticResources.Clusters[0]
		o, lb := sluice.OutlierDetection, sluice.CommonLbConfig
		if sluice.Name != "sluice" || !o.GetSplitExternalLocalOriginErrors() ||
			o.GetConsecutiveLocalOriginFailure().GetValue() != 2 || o.GetMaxEjectionPercent().GetValue() != 50 ||
			o.GetAlwaysEjectOneHost().GetValue() || lb.GetUpdateMergeWindow().AsDuration() != 0 ||
			lb.GetUpdateMergeWindow() == nil || lb.GetHealthyPanicThreshold().GetValue() != 0 {
			t.Errorf("%s: two failed connections do not take a node out at once, or the only one, too: %v %v", name, o, lb)
		}
		if five := o.GetEnforcingConsecutive_5Xx(); five == nil || five.Value != 0 {
			t.Errorf("%s: answers with 503 take a node out", name)
		}
		if n := strings.Count(string(file), "- key: x-envoy-retry-on\n"); n != 1 ||
			!strings.Contains(string(file), " value: connect-failure\n") {
			t.Errorf("%s: another node is not asked if connecting fails, and only then", name)
		}
	}
}

func TestEnvoy_DecodesStrictly(t *testing.T) {
	for name, field := range map[string]string{
		"envoy.yaml": "failure_mode_allow:", "rls.yaml": "failure_mode_deny:", "ext_authz.yaml": "context_extensions:",
		"rlqs.yaml": "no_assignment_behavior:",
	} {
		file, err := os.ReadFile("../envoy/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeEnvoy(string(file)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if wrong := strings.Replace(string(file), field, "unknown_"+field, 1); wrong == string(file) {
			t.Errorf("%s has no %s", name, field)
		} else if _, err := decodeEnvoy(wrong); err == nil {
			t.Errorf("%s: a field that does not exist is accepted", name)
		}
	}
}
