package deploy_test

import (
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"sluice/internal/config"
)

// service is what the tests look at; compose files hold more.
type service struct {
	Image       string            `yaml:"image"`
	Build       map[string]string `yaml:"build"`
	Command     []string          `yaml:"command"`
	Entrypoint  []string          `yaml:"entrypoint"`
	Environment map[string]string `yaml:"environment"`
	Networks    []string          `yaml:"networks"`
	Ports       []string          `yaml:"ports"`
	Profiles    []string          `yaml:"profiles"`
	Volumes     []string          `yaml:"volumes"`
	DependsOn   map[string]any    `yaml:"depends_on"`
}

type compose struct {
	Services map[string]service `yaml:"services"`
	Networks map[string]any     `yaml:"networks"`
	Volumes  map[string]any     `yaml:"volumes"`
}

func readCompose(t *testing.T) compose {
	t.Helper()
	b, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	if err := yaml.Load(b, &c); err != nil {
		t.Fatalf("compose.yaml: %v", err)
	}
	return c
}

// ours tells which services run Sluice itself.
func (c compose) ours() map[string]service {
	found := make(map[string]service)
	for name, s := range c.Services {
		if len(s.Build) > 0 {
			found[name] = s
		}
	}
	return found
}

// knownVariables lists the environment of the configuration reference.
func knownVariables() []string {
	var names []string
	for _, s := range config.Settings(config.Serve{}, config.Client{}) {
		names = append(names, s.Env)
	}
	return names
}

func TestCompose_UsesOnlyDocumentedVariables(t *testing.T) {
	known := knownVariables()
	ours := readCompose(t).ours()
	if len(ours) == 0 {
		t.Fatal("no service is built from this repository")
	}
	for name, s := range ours {
		if len(s.Environment) == 0 {
			t.Errorf("%s has no environment", name)
		}
		for variable := range s.Environment {
			if !slices.Contains(known, variable) {
				t.Errorf("%s sets %s, which is no setting", name, variable)
			}
		}
	}
}

func TestCompose_RunsTwoEqualNodesOnSharedStores(t *testing.T) {
	nodes := 0
	for name, s := range readCompose(t).ours() {
		if len(s.Profiles) > 0 {
			continue
		}
		nodes++
		for variable, scheme := range map[string]string{"DATABASE_URL": "postgres", "REDIS_URL": "redis"} {
			// The password is filled in from .env; any will do here.
			value := regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllString(s.Environment[variable], "secret")
			u, err := url.Parse(value)
			if err != nil || u.Scheme != scheme {
				t.Errorf("%s of %s is %q (%v), want a %s URL", variable, name, value, err, scheme)
				continue
			}
			if _, found := readCompose(t).Services[u.Hostname()]; !found {
				t.Errorf("%s of %s names host %q, which is no service", variable, name, u.Hostname())
			}
		}
	}
	if nodes != 2 {
		t.Errorf("nodes = %d, want 2", nodes)
	}
}

func TestCompose_PublishesNodesOnLoopbackAndStoresNowhere(t *testing.T) {
	c := readCompose(t)
	ours := c.ours()
	for name, s := range c.Services {
		if _, node := ours[name]; !node && len(s.Ports) > 0 {
			t.Errorf("%s publishes %v, want nothing", name, s.Ports)
		}
		for _, port := range s.Ports {
			host, _, _ := strings.Cut(port, ":")
			if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
				t.Errorf("%s publishes %s beyond loopback", name, port)
			}
		}
	}
}

func TestCompose_NamesOnlyWhatItDeclares(t *testing.T) {
	c := readCompose(t)
	for name, s := range c.Services {
		for _, network := range s.Networks {
			if _, declared := c.Networks[network]; !declared {
				t.Errorf("%s joins network %s, which is not declared", name, network)
			}
		}
		for _, mount := range s.Volumes {
			volume, _, _ := strings.Cut(mount, ":")
			if _, declared := c.Volumes[volume]; !declared {
				t.Errorf("%s mounts volume %s, which is not declared", name, volume)
			}
		}
		for needed := range s.DependsOn {
			if _, declared := c.Services[needed]; !declared {
				t.Errorf("%s depends on %s, which is no service", name, needed)
			}
		}
	}
}

func TestCompose_RedisNeverEvicts(t *testing.T) {
	redis := readCompose(t).Services["redis"]
	i := slices.Index(redis.Command, "--maxmemory-policy")
	if i < 0 || i+1 >= len(redis.Command) || redis.Command[i+1] != "noeviction" {
		t.Errorf("redis runs %v, want --maxmemory-policy noeviction", redis.Command)
	}
}

func TestFiles_NameOnlyDocumentedVariables(t *testing.T) {
	known := knownVariables()
	for _, file := range []string{"Dockerfile", "compose.yaml", "README.md", "sluice.service", "../docs/install.md",
		"gateways/kubernetes/base/deployment.yaml"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		used := regexp.MustCompile(`\b(SLUICE_[A-Z0-9_]+|DATABASE_URL\w*|REDIS_URL\w*)`).FindAllString(string(b), -1)
		if len(used) == 0 {
			t.Errorf("%s names no SLUICE_ variable", file)
		}
		for _, variable := range used {
			if !slices.Contains(known, variable) {
				t.Errorf("%s names %s, which is no setting", file, variable)
			}
		}
	}
}

func TestDockerfile_RunsAsNobodyWithAHealthCheck(t *testing.T) {
	b, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, image, found := strings.Cut(string(b), "\nFROM scratch\n")
	if !found {
		t.Fatal("the last stage is not an empty image")
	}
	for _, want := range []string{"\nUSER 65532:65532\n", `CMD ["/sluice", "healthcheck"]`, "\nENTRYPOINT [\"/sluice\"]\n",
		"\nCMD [\"serve\"]\n"} {
		if !strings.Contains(image, want) {
			t.Errorf("the image lacks %q", strings.TrimSpace(want))
		}
	}
}
