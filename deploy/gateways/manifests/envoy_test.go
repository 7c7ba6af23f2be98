package manifests

import (
	"os"
	"strings"
	"testing"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/local_ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"
)

// The imports above register the messages of typed_config.
func TestEnvoy_DecodesStrictly(t *testing.T) {
	file, err := os.ReadFile("../envoy/envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	decode := func(file string) error {
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
	if err := decode(string(file)); err != nil {
		t.Error(err)
	}
	if decode(strings.Replace(string(file), "failure_mode_allow:", "failure_mode:", 1)) == nil {
		t.Error("a field that does not exist is accepted")
	}
}
