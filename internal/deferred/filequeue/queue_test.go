package filequeue

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/internal/deferred/queuetest"
)

var roomy = decide.QueueBounds{Items: 1 << 20, Age: time.Hour}

func open(t *testing.T, dir string, edit ...func(*Options)) *Queue {
	t.Helper()
	opt := Options{Dir: dir, Now: time.Now}
	for _, e := range edit {
		e(&opt)
	}
	q, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return q
}

func put(t *testing.T, q *Queue, rule int64, body string) string {
	t.Helper()
	ticket, err := q.Put(t.Context(), rule, decide.QueueItem{Body: []byte(body)}, roomy)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

func lease(t *testing.T, q *Queue, rule int64) []string {
	t.Helper()
	items, err := q.Lease(t.Context(), rule, decide.QueueWant{Max: decide.MaxQueueLease, Hold: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, it := range items {
		out = append(out, string(it.Body))
	}
	return out
}

func TestQueue_Conforms(t *testing.T) {
	queuetest.Run(t, queuetest.Harness{Open: func(t *testing.T, dropped decide.QueueDropped) decide.Queue {
		return open(t, t.TempDir(), func(o *Options) { o.Dropped = dropped })
	}})
}

func TestOpen_FindsWhatWaitedInOrderAndFreesLeases(t *testing.T) {
	dir := t.TempDir()
	q := open(t, dir)
	for _, b := range []string{"a", "b", "c"} {
		put(t, q, 4, b)
	}
	items, err := q.Lease(t.Context(), 4, decide.QueueWant{Max: 2, Hold: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Finish(t.Context(), 4, []string{items[0].Ticket}, nil); err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Put(t.Context(), 4, decide.QueueItem{}, roomy); !errors.Is(err, decide.ErrQueueUnavailable) {
		t.Errorf("a closed queue took an item: %v", err)
	}
	q = open(t, dir)
	again, err := q.Lease(t.Context(), 4, decide.QueueWant{Max: 5, Hold: time.Hour})
	if err != nil || len(again) != 2 {
		t.Fatalf("%v, %v", again, err)
	}
	if string(again[0].Body) != "b" || again[0].Deliveries != 2 || string(again[1].Body) != "c" ||
		again[1].Deliveries != 1 {
		t.Errorf("got %+v", again)
	}
	if next := put(t, q, 4, "d"); slices.Contains([]string{items[0].Ticket, items[1].Ticket, again[1].Ticket}, next) {
		t.Errorf("ticket %s was given twice", next)
	}
}

func TestOpen_CutsOffATornTailWhereverItWasTorn(t *testing.T) {
	dir := t.TempDir()
	q := open(t, dir)
	var ends []int64
	for i := range 6 {
		put(t, q, 1, fmt.Sprint("item ", i))
		ends = append(ends, q.logs[1].size)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, "1"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "1"+suffix), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		var torn int64
		q := open(t, dir, func(o *Options) { o.Torn = func(_, n int64) { torn = n } })
		want := 0
		for want < len(ends) && ends[want] <= int64(cut) {
			want++
		}
		got := lease(t, q, 1)
		if len(got) != want {
			t.Fatalf("cut at %d: %d items, want %d", cut, len(got), want)
		}
		if wantTorn := int64(cut) - max(int64(len(magic)), at(ends, want-1)); wantTorn > 0 && torn != wantTorn {
			t.Errorf("cut at %d: %d bytes torn, want %d", cut, torn, wantTorn)
		}
		put(t, q, 1, "after")
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		if got := lease(t, open(t, dir), 1); len(got) != want+1 || got[want] != "after" {
			t.Fatalf("cut at %d: after another start %q", cut, got)
		}
	}
}

func at(list []int64, i int) int64 {
	if i < 0 {
		return 0
	}
	return list[i]
}

func TestOpen_EndsTheLogAtADamagedRecord(t *testing.T) {
	dir := t.TempDir()
	q := open(t, dir)
	put(t, q, 1, "first")
	size := q.logs[1].size
	put(t, q, 1, "second")
	put(t, q, 1, "third")
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "1"+suffix)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[size+headSize+10] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := lease(t, open(t, dir), 1); !slices.Equal(got, []string{"first"}) {
		t.Errorf("got %q", got)
	}
}

func TestOpen_RemovesFilesInWhichNothingWaits(t *testing.T) {
	dir := t.TempDir()
	var now atomic.Int64
	now.Store(1_795_260_000_000)
	clock := func(o *Options) { o.Now = func() time.Time { return time.UnixMilli(now.Load()) } }
	q := open(t, dir, clock)
	put(t, q, 1, "a")
	put(t, q, 2, "b")
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	now.Add(time.Hour.Milliseconds() - 1)
	open(t, dir, clock)
	if n := len(names(t, dir)); n != 2 {
		t.Fatalf("%d files before anything is too old", n)
	}
	now.Add(1)
	open(t, dir, clock)
	if n := len(names(t, dir)); n != 0 {
		t.Errorf("%d files left", n)
	}
}

func names(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestQueue_WritesItsFileAnewAndLosesNothing(t *testing.T) {
	dir := t.TempDir()
	q := open(t, dir)
	body := strings.Repeat("x", 10_000)
	kept := put(t, q, 1, "kept")
	var biggest, size int64
	for i := range 1000 {
		put(t, q, 1, fmt.Sprint(i, body))
		items, err := q.Lease(t.Context(), 1, decide.QueueWant{Max: 2, Hold: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		var done, back []string
		for _, it := range items {
			if it.Ticket == kept {
				back = append(back, it.Ticket)
			} else {
				done = append(done, it.Ticket)
			}
		}
		if n, err := q.Finish(t.Context(), 1, done, back); err != nil || n != 1 {
			t.Fatalf("round %d: ended %d, %v", i, n, err)
		}
		size = q.logs[1].size
		biggest = max(biggest, size)
	}
	if biggest > 2*compactOver {
		t.Errorf("the file grew to %d bytes", biggest)
	}
	last := put(t, q, 1, "last")
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "1"+suffix)); err != nil || info.Size() < size {
		t.Fatalf("%v, %v", info, err)
	}
	q = open(t, dir)
	if got := lease(t, q, 1); !slices.Equal(got, []string{"kept", "last"}) {
		t.Errorf("got %q", got)
	}
	if next := put(t, q, 1, "next"); next == last || next == kept {
		t.Errorf("ticket %s was given twice", next)
	}
}

func TestQueue_LeasesThatNobodyEndsDoNotGrowTheFile(t *testing.T) {
	now := time.Now()
	q := open(t, t.TempDir(), func(o *Options) { o.Now = func() time.Time { return now } })
	for i := range 100 {
		put(t, q, 1, fmt.Sprint(i))
	}
	for range 2500 {
		if items, err := q.Lease(t.Context(), 1, decide.QueueWant{Max: 100, Hold: time.Millisecond}); err != nil ||
			len(items) != 100 {
			t.Fatalf("leased %d, %v", len(items), err)
		}
		now = now.Add(time.Millisecond)
	}
	if size := q.logs[1].size; size > 2*compactOver {
		t.Errorf("the file grew to %d bytes", size)
	}
}

func TestQueue_AFullDiskLosesOnlyTheItemRefused(t *testing.T) {
	dir := t.TempDir()
	q := open(t, dir)
	put(t, q, 1, "a")
	l := q.logs[1]
	good := l.file
	readOnly, err := os.Open(good.Name())
	if err != nil {
		t.Fatal(err)
	}
	l.file = readOnly
	if _, err := q.Put(t.Context(), 1, decide.QueueItem{Body: []byte("b")}, roomy); !errors.Is(err,
		decide.ErrQueueUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	l.file = good
	readOnly.Close()
	put(t, q, 1, "c")
	if got := lease(t, q, 1); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("got %q", got)
	}
}

// A killed process loses no item whose ticket it had told, and ends none that it
// had not set out to end.
func TestQueue_SurvivesAKilledProcess(t *testing.T) {
	for round, lines := range []int{1, 40, 333, 1500} {
		dir := t.TempDir()
		told := runAndKill(t, dir, lines)
		q := open(t, dir, func(o *Options) { o.Torn = func(_, n int64) { t.Logf("round %d: %d bytes torn", round, n) } })
		items, err := q.Lease(t.Context(), 1, decide.QueueWant{Max: decide.MaxQueueLease, Hold: time.Hour})
		for err == nil && len(items) > 0 {
			for _, it := range items {
				told[it.Ticket] += " found"
			}
			items, err = q.Lease(t.Context(), 1, decide.QueueWant{Max: decide.MaxQueueLease, Hold: time.Hour})
		}
		if err != nil {
			t.Fatal(err)
		}
		for ticket, story := range told {
			switch {
			case story == " put", strings.HasSuffix(story, " ended found"):
				t.Errorf("round %d: item %s:%s", round, ticket, story)
			}
		}
	}
}

// runAndKill runs putForever until it has told that many lines, and gives what
// it told of each ticket.
func runAndKill(t *testing.T, dir string, lines int) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	in := bufio.NewScanner(out)
	for n := 0; in.Scan(); n++ {
		if n == lines {
			_ = cmd.Process.Kill()
		}
		word, ticket, ok := strings.Cut(in.Text(), " ")
		if !ok || word == "failed" || bytes.ContainsRune(in.Bytes(), 0) {
			t.Fatalf("the process told %q", in.Text())
		}
		told[ticket] += " " + word
	}
	_ = cmd.Wait()
	if len(told) == 0 {
		t.Fatal("the process told nothing")
	}
	return told
}

func TestCompact_KeepsTheOldFileWhenTheDiskDoesNotKeepTheNewOne(t *testing.T) {
	dir := t.TempDir()
	q := open(t, dir)
	put(t, q, 1, "first")
	l := q.logs[1]
	broken := errors.New("input/output error")
	l.sync = func(*os.File) error { return broken }
	if err := l.compact(); !errors.Is(err, broken) {
		t.Fatalf("compact: %v, want the error of the disk", err)
	}
	put(t, q, 1, "second")
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.new")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	q = open(t, dir)
	items, err := q.Lease(t.Context(), 1, decide.QueueWant{Max: 5, Hold: time.Hour})
	if err != nil || len(items) != 2 || string(items[1].Body) != "second" {
		t.Errorf("after the restart: %v, %v; want both items", items, err)
	}
}

func TestOpen_SetsADamagedFileAsideAndServesTheOthers(t *testing.T) {
	dir := t.TempDir()
	q := open(t, dir)
	put(t, q, 1, "one")
	put(t, q, 2, "two")
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	damaged := []byte("not a queue, but somebody may want to look at it")
	if err := os.WriteFile(filepath.Join(dir, "1"+suffix), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	var named string
	q = open(t, dir, func(o *Options) { o.Unusable = func(file string, _ error) { named = file } })
	if items := lease(t, q, 2); len(items) != 1 {
		t.Errorf("%d items of the queue that is whole, want 1", len(items))
	}
	put(t, q, 1, "anew")
	if items := lease(t, q, 1); len(items) != 1 {
		t.Errorf("%d items of the rule whose file was set aside, want 1", len(items))
	}
	if got, err := os.ReadFile(filepath.Join(dir, named)); err != nil || !bytes.Equal(got, damaged) ||
		!strings.HasPrefix(named, "1"+suffix+".") {
		t.Errorf("set aside as %q: %q, %v", named, got, err)
	}
}
