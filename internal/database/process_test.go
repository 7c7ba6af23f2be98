package database

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"sluice/rules"
)

// otherProcess is set in the environment of a second process of this test
// binary: the SQLite file that it shall write to.
const otherProcess = "SLUICE_TEST_SQLITE_WRITER"

// `sluice token create` and `sluice migrate` work on the file while a server
// has it open.
func TestSQLite_TwoProcessesShareTheFile(t *testing.T) {
	const edits = 20
	if path := os.Getenv(otherProcess); path != "" {
		writeFrom(t, path, "other", edits)
		return
	}
	path := backends[1].dsn(t)
	d := open(t, path)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSQLite_TwoProcessesShareTheFile$")
	cmd.Env = append(os.Environ(), otherProcess+"="+path)
	var wg sync.WaitGroup
	var out []byte
	var err error
	wg.Go(func() { out, err = cmd.CombinedOutput() })
	writeFrom(t, path, "here", edits)
	wg.Wait()
	if err != nil {
		t.Fatalf("the other process: %v\n%s", err, out)
	}
	page, err := d.ListRules(t.Context(), rules.Query{PageSize: 500})
	if err != nil || len(page.Rules) != 2*edits {
		t.Errorf("%d rules, %v", len(page.Rules), err)
	}
	if got := mustVersions(t, d).Rules; got != 2*edits {
		t.Errorf("version %d, want %d", got, 2*edits)
	}
}

// writeFrom creates rules; the file being busy for long is an answer that a
// caller may repeat.
func writeFrom(t *testing.T, path, name string, n int) {
	t.Helper()
	d, err := Open(context.Background(), Options{DSN: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		err := error(rules.ErrUnavailable)
		for tries := 0; tries < 10 && errors.Is(err, rules.ErrUnavailable); tries++ {
			_, err = d.CreateRule(context.Background(), ada, sample(fmt.Sprintf("%s-%d", name, i)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
