package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

func TestNodeCount_IsRememberedAndOnlyIfItMakesSense(t *testing.T) {
	c := nodeCountFile{path: filepath.Join(t.TempDir(), "data", "nodes.count"), log: slog.New(slog.DiscardHandler)}
	if got := c.load(); got != 0 {
		t.Errorf("got %d from no file", got)
	}
	for _, n := range []int{4, 3} {
		c.save(n)
		if got := c.load(); got != n {
			t.Errorf("got %d, saved %d", got, n)
		}
	}
	for _, text := range []string{"", "x", "-1", "0", "100001", "99999999999999999999"} {
		if err := os.WriteFile(c.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := c.load(); got != 0 {
			t.Errorf("got %d from %q", got, text)
		}
	}
}
