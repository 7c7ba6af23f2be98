package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"
)

const (
	importRules = 100_000
	// importSettles is how long after an import the memory is read.
	importSettles = 20 * time.Second
)

// imported is the resident memory of a node in bytes: after its start, at the peak of an import of many rules through
// the API, and some time after it.
type imported struct{ started, peak, settled int64 }

// measureImport imports rules on a node with the default settings of the garbage collector.
func measureImport(ctx context.Context, dir, bin string) (m imported, err error) {
	fmt.Fprintf(os.Stderr, "import of %d rules\n", importRules)
	node, err := startServer(ctx, bin, scenario{kind: sluice}, dir, "", "")
	if err != nil {
		return m, err
	}
	defer node.Stop()
	m.started = node.Resident()
	watch := watchMemory(ctx, []server{node})
	err = node.Expect(ctx, http.MethodPost, "/ratelimit/rules/import", fileOfRules(importRules), http.StatusOK)
	if err == nil {
		err = sleep(ctx, importSettles)
	}
	m.peak, m.settled = watch()[0], node.Resident()
	return m, err
}

// fileOfRules is a rules file with a rule on each of n routes.
func fileOfRules(n int) string {
	var b strings.Builder
	b.WriteString(`{"rules":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"rule-%d","scope":"user","route":"/v1/route-%d","method":"POST",`+
			`"algorithm":"sliding_window_counter","limit":1000000,"window_ms":60000}`, i, i)
	}
	b.WriteString("]}")
	return b.String()
}

// report writes the section of the page.
func (m imported) report(w io.Writer) {
	const megabyte = 1e6
	fmt.Fprintf(w, "%d cores, %s, load average %s at the end, %d rules in one file, into a database on SQLite.\n\n",
		runtime.NumCPU(), runtime.Version(), loadAverage(), importRules)
	fmt.Fprint(w, "| resident memory of the node | measured | goal |\n|---|---|---|\n")
	fmt.Fprintf(w, "| after its start, without rules | %d MB | – |\n| at the peak | %d MB | – |\n"+
		"| %.0f s after the answer | %d MB | at most 340 MB |\n", m.started/megabyte, m.peak/megabyte,
		importSettles.Seconds(), m.settled/megabyte)
}
