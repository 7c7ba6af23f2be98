package manifests

import (
	"os"
	"strings"
	"testing"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/local_ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"
)

// The imports above register the messages of typed_config.
func decodeEnvoy(file string) error {
	json, err := yaml.YAMLToJSONStrict([]byte(file))
	if err != nil {
		return err
	}
	var b bootstrap.Bootstrap
	if err := protojson.Unmarshal(json, &b); err != nil {
		return err
	}
	return b.ValidateAll()
}

func TestEnvoy_DecodesStrictly(t *testing.T) {
	for name, field := range map[string]string{
		"envoy.yaml": "failure_mode_allow:", "rls.yaml": "failure_mode_deny:", "ext_authz.yaml": "context_extensions:",
	} {
		file, err := os.ReadFile("../envoy/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := decodeEnvoy(string(file)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if wrong := strings.Replace(string(file), field, "unknown_"+field, 1); wrong == string(file) ||
			decodeEnvoy(wrong) == nil {
			t.Errorf("%s: a field that does not exist is accepted", name)
		}
	}
}
