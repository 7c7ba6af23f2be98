package inspect

import (
	"encoding/json"
	"os"
	"testing"

	"go.yaml.in/yaml/v4"
)

// A check can be pasted with every member that the API takes.
func TestFromJSON_ReadsEveryMemberOfACheck(t *testing.T) {
	text, err := os.ReadFile("../../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var api struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any `yaml:"properties"`
			} `yaml:"schemas"`
		} `yaml:"components"`
	}
	if err := yaml.Load(text, &api); err != nil {
		t.Fatal(err)
	}
	for _, schema := range []string{"RequestCheck", "RequestReserve"} {
		members := api.Components.Schemas[schema].Properties
		if len(members) < 10 {
			t.Fatalf("%s has %d members", schema, len(members))
		}
		for name := range members {
			text, err := json.Marshal(map[string]any{name: nil})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := fromPaste(string(text)); err != nil {
				t.Errorf("%s with %s: %v", schema, name, err)
			}
		}
	}
}
