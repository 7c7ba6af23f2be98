package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sluice/internal/atomicfile"
)

// mostNodes is above any number of nodes that is remembered.
const mostNodes = 100_000

// nodeCount remembers on disk how many nodes share the counters, so that a node
// that starts while Redis is unreachable enforces its share of a limit and not the
// whole.
type nodeCount struct {
	path string
	log  *slog.Logger
}

// load returns the number last saved, 0 if there is none that makes sense.
func (c nodeCount) load() int {
	b, err := os.ReadFile(c.path)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 1 || n > mostNodes {
		c.log.Warn("the saved node count is not valid and is ignored", "file", c.path)
		return 0
	}
	return n
}

// save keeps the number for the next start. It can do without.
func (c nodeCount) save(n int) {
	err := makeDataDir(filepath.Dir(c.path))
	if err == nil {
		err = atomicfile.Write(c.path, func(f *os.File) error {
			_, err := f.WriteString(strconv.Itoa(n) + "\n")
			return err
		})
	}
	if err != nil {
		c.log.Warn("saving the node count failed; a start during a Redis outage uses an older count", "file", c.path, "error", err)
	}
}
