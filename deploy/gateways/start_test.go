package gateways_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

func freeAddr(t *testing.T) string {
	t.Helper()
	return testenv.FreeAddr(t)
}

// startNginx runs nginx in one process.
func startNginx(file string) func(*testing.T, *setup) *gateway {
	return func(t *testing.T, s *setup) *gateway {
		t.Helper()
		bin := testenv.Binary(t, "nginx", "nginx-light", "/usr/sbin/nginx")
		s.place(t, filepath.Join("nginx", file), "nginx/sluice.js")
		path := filepath.Join(s.dir, file)
		conf, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		nodes := ""
		for _, n := range s.nodes {
			nodes += "server " + n + " max_fails=3 fail_timeout=1s; "
		}
		text := strings.Replace(string(conf), "server "+s.nodes[0]+" max_fails=3 fail_timeout=1s;", nodes, 1)
		token := `proxy_set_header Sluice-Token "` + s.product.token + `";`
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.dir, "sluice-token.conf"), []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		return s.start(t, &testenv.Program{Path: bin, Args: []string{"-p", s.dir, "-c", path, "-e", "stderr", "-g",
			"daemon off; master_process off; pid " + filepath.Join(s.dir, "pid") + ";"}})
	}
}

func startCaddy(t *testing.T, s *setup) *gateway {
	t.Helper()
	bin := testenv.Binary(t, "caddy", "caddy")
	s.place(t, "caddy/Caddyfile")
	s.change(t, "Caddyfile", "reverse_proxy "+s.nodes[0]+" {", "reverse_proxy "+strings.Join(s.nodes, " ")+" {")
	return s.start(t, &testenv.Program{Path: bin, Args: []string{"run", "--config", "Caddyfile"},
		Env: []string{"XDG_DATA_HOME=" + s.dir, "XDG_CONFIG_HOME=" + s.dir}})
}

func startHAProxy(t *testing.T, s *setup) *gateway {
	t.Helper()
	bin := testenv.Binary(t, "haproxy", "haproxy", "/usr/sbin/haproxy")
	s.place(t, "haproxy/haproxy.cfg", "haproxy/sluice.lua")
	line := "\tserver node1 " + s.nodes[0] + " check inter 1s"
	lines := line
	for i, n := range s.nodes[1:] {
		lines += fmt.Sprintf("\n\tserver node%d %s check inter 1s", i+2, n)
	}
	s.change(t, "haproxy.cfg", line, lines)
	return s.start(t, &testenv.Program{Path: bin, Args: []string{"-db", "-f", "haproxy.cfg"}})
}

// change replaces a text of a file that was placed.
func (s *setup) change(t *testing.T, file, was, is string) {
	t.Helper()
	path := filepath.Join(s.dir, file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), was) {
		t.Fatalf("%s has no %q", file, was)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), was, is, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}
