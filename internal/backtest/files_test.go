package backtest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/records"
)

// put writes files into a new directory.
func put(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// users reads a log to its end and returns the users of its events.
func users(t *testing.T, log *Log) (out []string) {
	t.Helper()
	for {
		e, err := log.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Event.Facts.User)
	}
}

func opened(t *testing.T, from int64, names ...string) *Log {
	t.Helper()
	log, closeFiles, err := OpenFiles(names, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeFiles)
	return log
}

// A directory is read in order of time, with files that cannot be opened named and the others read.
func TestOpenFiles_ReadsADirectory(t *testing.T) {
	dir := put(t, map[string]string{
		"decisions.jsonl":   text(check(noon+2, "c"), check(noon+3, "d")),
		"decisions-1.jsonl": text(check(noon+1, "b"), check(noon+2, "B")),
		// The copy that is being made of the one above, and a file that was compressed.
		"decisions-1.jsonl.gz": packed(t, text(check(noon+1, "twice")))[:20],
		"decisions-0.jsonl.gz": packed(t, text(check(noon, "a"))),
		"notes.txt":            "not a log",
		"empty.jsonl":          "",
		"empty.jsonl.gz.tmp":   "half",
	})
	for name, to := range map[string]string{"loop.jsonl": "loop.jsonl", "gone.jsonl": "nowhere", "folder.jsonl": "."} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	log := opened(t, 0, dir)
	if got := strings.Join(users(t, log), " "); got != "a b B c d" {
		t.Errorf("events of %s", got)
	}
	if len(log.Problems) != 3 || log.Corrupt > 0 {
		t.Errorf("problems %v", log.Problems)
	}
	for _, p := range log.Problems {
		if !strings.Contains(p.String(), ".jsonl: cannot be opened: ") &&
			!strings.Contains(p.String(), ".jsonl.gz: cannot be opened: ") {
			t.Errorf("problem %q", p)
		}
	}
}

func TestOpenFiles_LeavesOutWhatIsOlder(t *testing.T) {
	dir := put(t, map[string]string{"decisions-0.jsonl": text(check(noon, "old")),
		"decisions.jsonl": text(check(noon, "new"))})
	old := time.UnixMilli(noon).Add(-2 * modified)
	if err := os.Chtimes(filepath.Join(dir, "decisions-0.jsonl"), old, old); err != nil {
		t.Fatal(err)
	}
	if got := users(t, opened(t, noon, dir)); len(got) != 1 || got[0] != "new" {
		t.Errorf("events of %v", got)
	}
	if got := users(t, opened(t, 0, dir)); len(got) != 2 {
		t.Errorf("events of %v", got)
	}
}

func TestOpenFiles_RefusesWhatHasNoLog(t *testing.T) {
	if _, _, err := OpenFiles([]string{put(t, map[string]string{"notes.txt": ""})}, 0); !errors.Is(err, ErrNoFiles) {
		t.Errorf("error %v", err)
	}
	if _, _, err := OpenFiles([]string{filepath.Join(t.TempDir(), "decisions.jsonl")}, 0); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	many := map[string]string{}
	for i := range maxFiles + 1 {
		many[fmt.Sprintf("%d.jsonl", i)] = ""
	}
	if _, _, err := OpenFiles([]string{put(t, many)}, 0); err == nil || !strings.Contains(err.Error(), "more than 256") {
		t.Errorf("error %v", err)
	}
}

// An empty log, and one with no event in the range, are reports without figures.
func TestRun_OfAnEmptyLog(t *testing.T) {
	dir := put(t, map[string]string{"decisions.jsonl": ""})
	r := run1(t, Options{Span: Span{Log: opened(t, 0, dir)}, Proposed: compiled(t, fmt.Sprintf(perUser, 2))})
	if r.Events != 0 || r.Cut || len(r.Log.Problems) > 0 || !strings.HasPrefix(r.String(), "The log has no events") {
		t.Errorf("%+v\n%s", r, r)
	}
	s, err := Suggest(t.Context(), SuggestOptions{Span: Span{Log: opened(t, 0, dir)}, Rule: "per-user", Headroom: 1,
		Rules: compiled(t, fmt.Sprintf(perUser, 2)), Windows: []time.Duration{time.Second}})
	if err != nil || !strings.Contains(s.String(), "no events") {
		t.Errorf("%v\n%s", err, s)
	}
}

// endless is a reader of n equal bytes.
func endless(c byte, n int64) io.Reader { return io.LimitReader(same(c), n) }

type same byte

func (s same) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(s)
	}
	return len(b), nil
}

// A line of 100 MB is a corrupt line like any other: what follows is read, and it is not kept in memory.
func TestLog_SkipsALineOf100MB(t *testing.T) {
	good := text(check(noon, "a"))
	lines := NewLines("log", io.MultiReader(strings.NewReader(good), endless('x', 100<<20), strings.NewReader("\n"+good)))
	log := NewLog(lines)
	if got := users(t, log); len(got) != 2 || log.Corrupt != 1 || log.Problems[0].Line != 2 {
		t.Errorf("%v, %+v", got, log)
	}
	if kept := cap(lines.(*fileLines).long); kept > 2*maxLine {
		t.Errorf("%d bytes are kept", kept)
	}
}

// A line between the size of the buffer and the largest is whole.
func TestLog_ReadsLongLines(t *testing.T) {
	e := check(noon, strings.Repeat("u", maxLine/2))
	for _, body := range []string{text(e, check(noon, "b")), packed(t, text(e, check(noon, "b")))} {
		log := NewLog(NewLines("log", strings.NewReader(body)))
		if got := users(t, log); len(got) != 2 || got[0] != e.Facts.User || got[1] != "b" || log.Corrupt > 0 {
			t.Errorf("%d events, %+v", len(got), log.Problems)
		}
	}
}

// A file that would grow without bound is read to where that is clear.
func TestLog_EndsAGzipBomb(t *testing.T) {
	body := packed(t, text(check(noon, "a")))
	z := packed(t, strings.Repeat("x", 1<<20))
	for range 64 {
		body += z
	}
	log := NewLog(NewLines("bomb", strings.NewReader(body)))
	if got := users(t, log); len(got) != 1 || len(log.Problems) != 1 ||
		!strings.Contains(log.Problems[0].Text, "grows to more than 200 times its size") {
		t.Errorf("%v, %+v", got, log.Problems)
	}
}

// A compressed file that is broken is read to where it holds, wherever that is.
func TestLog_ReadsABrokenFileToWhereItHolds(t *testing.T) {
	var events []records.Event
	for i := range int64(3000) {
		events = append(events, check(noon+i, strconv.FormatInt(i*7919%3001, 10)))
	}
	whole := packed(t, text(events...))
	flipped := []byte(whole)
	for i := range 64 {
		flipped[len(flipped)/2+i] ^= 0x55
	}
	for name, tt := range map[string]struct {
		text        string
		least, most int
	}{
		"flipped bytes":        {string(flipped), 100, 2999},
		"a wrong sum":          {whole[:len(whole)-8] + "01234567", 2000, 3000},
		"a header and no more": {whole[:12], 0, 0},
		"half a header":        {whole[:5], 0, 0},
		"text behind it":       {whole + "no gzip", 3000, 3000},
	} {
		log := NewLog(NewLines("log", strings.NewReader(tt.text)))
		if got := len(users(t, log)); got < tt.least || got > tt.most || len(log.Problems) == 0 {
			t.Errorf("%s: %d events, %+v", name, got, log.Problems)
		}
	}
}

// A log that is written, rotated, compressed and removed meanwhile has no gap and no event twice, whenever it is read.
func TestOpenFiles_OfALogThatIsWritten(t *testing.T) {
	dir, account := t.TempDir(), &records.Account{}
	now := time.UnixMilli(noon)
	sink, err := records.OpenFiles(records.FileOptions{Dir: dir, MaxBytes: 1 << 20, Account: account,
		Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a text that does not shrink much
	write := make(chan int)
	written := make(chan error, 1)
	go func() {
		n := 0
		for more := range write {
			for range more {
				now = now.Add(time.Millisecond)
				e := check(now.UnixMilli(), strconv.Itoa(n))
				for range 40 {
					e.UserAgent += strconv.FormatUint(rnd.Uint64(), 36)
				}
				sink.Write(records.Batch{Lines: [][]byte{append(e.Append(nil), '\n')}, Keys: []string{""}})
				n++
			}
		}
		written <- sink.Close(context.Background())
	}()
	defer func() {
		close(write)
		if err := <-written; err != nil {
			t.Error(err)
		}
	}()
	write <- 2000
	for range 8 {
		write <- 300 // meanwhile; there are about 120 in a file
		log, closeFiles, err := OpenFiles([]string{dir}, 0)
		if err != nil {
			t.Fatal(err)
		}
		got := users(t, log)
		closeFiles()
		for i := 1; i < len(got); i++ {
			before, _ := strconv.Atoi(got[i-1])
			if after, _ := strconv.Atoi(got[i]); after != before+1 {
				t.Fatalf("event %d follows %d in %s to %s: %v", after, before, got[0], got[len(got)-1], log.Problems)
			}
		}
		if len(got) < 300 || log.Corrupt > 1 || log.Late > 0 {
			t.Fatalf("%d events, %d corrupt, %d late, %v", len(got), log.Corrupt, log.Late, log.Problems)
		}
	}
}
