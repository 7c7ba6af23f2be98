package app

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

const tokensRule = `{"name":"tokens","scope":"user","route":"/tokens","limit":100000,"window_ms":86400000,
	"algorithm":"fixed_window"}`

const reserveTokens = `{"user":"a","route":"/tokens","weight":4000}`

func (n *node) reserve(body string) string {
	n.t.Helper()
	status, doc := n.send(http.MethodPost, "/ratelimit/reserve", body)
	token, ok := doc["reservation"].(string)
	if status != http.StatusOK || !ok {
		n.t.Fatalf("reserve answered %d: %v", status, doc)
	}
	return token
}

func (n *node) settle(token string, weight int) map[string]any {
	n.t.Helper()
	status, doc := n.send(http.MethodPost, "/ratelimit/settle",
		fmt.Sprintf(`{"reservation":%q,"weight":%d}`, token, weight))
	if status != http.StatusOK || doc["allowed"] != true {
		n.t.Fatalf("settle answered %d: %v", status, doc)
	}
	return doc
}

func TestReserve_OutlivesARestartEmbedded(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	n := start(t, cfg)
	n.create(tokensRule)
	token := n.reserve(reserveTokens)
	n.stop()
	key := filepath.Join(cfg.DataDir, "reservations.key")
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the secret: %v, %v", info, err)
	}
	n = start(t, cfg)
	if doc := n.settle(token, 1000); doc["refunded"] != float64(3000) || doc["remaining"] != float64(99_000) {
		t.Errorf("settled: %v", doc)
	}
	n.stop()
	if err := os.WriteFile(key, []byte("not a secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tryStart(t, cfg); err == nil {
		t.Error("started with a damaged secret")
	}
}

func TestReserve_IsSettledOnAnotherNode(t *testing.T) {
	t.Parallel()
	p := standingPair(t, "on")
	a, b := p.nodes[0], p.nodes[1]
	a.create(tokensRule)
	token := a.reserve(reserveTokens)
	if doc := b.settle(token, 5000); doc["remaining"] != float64(95_000) {
		t.Errorf("settled: %v", doc)
	}
	if doc := a.settle(token, 5000); doc["replayed"] != true {
		t.Errorf("settled again: %v", doc)
	}
}
