package records

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// writerOf is the directory that a process of this test writes to, in its environment.
const writerOf = "SLUICE_TEST_WRITES_TO"

// A process that is killed at any moment, while it writes, rotates and compresses, loses no event that the account
// calls delivered, and leaves at most its last line torn, which stands alone on its line.
func TestFiles_SurviveKills(t *testing.T) {
	if dir := os.Getenv(writerOf); dir != "" {
		writeUntilKilled(t, dir)
	}
	dir := t.TempDir()
	const kills, rotates = 6, 1 << 20 / parts / 100 // lines of a file
	var delivered []string
	for kill := range kills {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFiles_SurviveKills$")
		cmd.Env = append(os.Environ(), writerOf+"="+dir, fmt.Sprintf("SLUICE_TEST_FROM=%d", (kill+1)*1_000_000))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := bufio.NewScanner(out)
		for n := 0; said.Scan(); n++ {
			if delivered = append(delivered, said.Text()); n == rotates-2+kill { // about when a file is ended
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the process ended by itself")
		}
	}
	now := time.UnixMilli(epoch)
	s, _ := filesOf(t, dir, 1<<20, &now)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	torn := 0
	lines := readFiles(t, dir)
	for i, line := range lines {
		if _, err := strconv.Atoi(line); err != nil || len(line) != 99 {
			lines[i], torn = "", torn+1
		}
	}
	if torn > kills {
		t.Errorf("%d lines are torn after %d kills", torn, kills)
	}
	slices.Sort(lines)
	for _, line := range delivered {
		if _, there := slices.BinarySearch(lines, line); !there {
			t.Fatalf("an event that was delivered is lost: %s", strings.TrimLeft(line, "0"))
		}
	}
	if twice := slices.Compact(slices.Clone(lines)); len(twice) < len(lines)-max(0, torn-1) {
		t.Errorf("%d lines, of which %d are different", len(lines), len(twice))
	}
}

// writeUntilKilled writes events and says of each when it is delivered.
func writeUntilKilled(t *testing.T, dir string) {
	from, err := strconv.Atoi(os.Getenv("SLUICE_TEST_FROM"))
	if err != nil {
		t.Fatal(err)
	}
	account := &Account{}
	s, err := OpenFiles(FileOptions{Dir: dir, MaxBytes: 1 << 20, Account: account, Now: time.Now,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for n := from; ; n++ {
		b := batchOf(n, 1)
		if s.Write(b); account.Totals().Delivered != int64(n-from+1) {
			t.Fatalf("%+v", account.Totals())
		}
		if _, err := os.Stdout.Write(b.Lines[0]); err != nil {
			t.Fatal(err)
		}
	}
}
