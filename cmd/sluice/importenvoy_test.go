package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const envoyShop = `domain: shop
descriptors:
- key: path
  value: pay
  detailed_metric: true
  rate_limit: {unit: minute, requests_per_unit: 5}
- key: user
  rate_limit: {unit: hour, requests_per_unit: 100}
`

// write writes a file of a folder and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestImportEnvoy_PlansAppliesAndDeletes(t *testing.T) {
	r := launch(t, nil, serveArgs(dataDir(t))...)
	defer r.terminate()
	dir := t.TempDir()
	less, _, _ := strings.Cut(envoyShop, "- key: user")
	file := write(t, dir, "shop.yaml", envoyShop)
	write(t, dir, "notes.txt", "not YAML: [")
	write(t, dir, ".hidden.yaml", "not YAML: [")
	two := write(t, dir, "two.yml", "domain: two\ndescriptors: [{key: a}]\n")
	steps := []struct {
		do   func()
		args []string
		code int
		want []string
	}{
		{args: []string{"--plan", dir}, want: []string{"+ shop.path_pay: ", "+ two.a: ",
			"3 to create, 0 to update, 0 to delete", "note: " + file + ":5: detailed_metric: top keys", "note: " + two + `:2: "two.a" has no rate_limit`}},
		{args: []string{"--plan", "--json", dir}, want: []string{`"dry_run":true`, `"report":[`, `"file":"` + file + `","line":5`}},
		{args: []string{"--reason=we move", dir}, want: []string{"3 to create"}},
		{args: []string{dir}, want: []string{"0 to create, 0 to update, 0 to delete, 3 unchanged"}},
		{args: []string{"--algorithm=gcra", two}, want: []string{"~ two.a\n", "algorithm: \"fixed_window\" -> \"gcra\""}},
		{
			do:   func() { write(t, dir, "shop.yaml", less) },
			args: []string{"--keep", dir}, want: []string{"0 to create, 0 to update, 0 to delete, 3 unchanged"},
		},
		{args: []string{dir}, want: []string{"- shop.user\n", "1 to delete"}},
		{
			do:   func() { write(t, dir, "three.yaml", "domain: two\ndescriptors: [{key: b}, {key: ''}]\n") },
			args: []string{dir}, code: exitError,
			want: []string{"nothing was changed\n", filepath.Join(dir, "three.yaml") + ":2: descriptor has empty key",
				two + `:1: the domain "two" is already defined at ` + filepath.Join(dir, "three.yaml") + ":1"},
		},
		{
			do:   func() { write(t, dir, "three.yaml", "domain: two\ndescriptors: [{key: b}]\n") },
			args: []string{"--merge-domains", dir}, want: []string{"+ two.b", "1 to create"},
		},
		{args: []string{"--algorithm=magic", file}, code: exitError, want: []string{"sluice: --algorithm: must be one of "}},
		{args: []string{filepath.Join(dir, "nowhere")}, code: exitError, want: []string{"nowhere"}},
		{args: []string{t.TempDir()}, code: exitError, want: []string{"there are no files .yaml or .yml"}},
		{args: []string{"--watch", "--plan", dir}, code: exitError, want: []string{"--watch"}},
	}
	for _, s := range steps {
		if s.do != nil {
			s.do()
		}
		code, out, errs := sluice(t, "", append([]string{"rules", "import-envoy", "--server=" + r.url}, s.args...)...)
		for _, want := range s.want {
			if code != s.code || !strings.Contains(out+errs, want) {
				t.Errorf("%q exits %d, want %d and %q\n%s%s", s.args, code, s.code, want, out, errs)
			}
		}
	}
	code, out, _ := sluice(t, "domain: piped", "rules", "import-envoy", "--server="+r.url, "-")
	if code != exitDone || !strings.Contains(out, "0 to create") {
		t.Errorf("standard input exits %d: %s", code, out)
	}
}

// folder is a folder as Kubernetes mounts a ConfigMap: the files are links into ..data, which is a link to the folder
// of the current version.
type folder struct {
	t    *testing.T
	path string
	n    int
}

// swap replaces all files at once.
func (f *folder) swap(files map[string]string) {
	f.t.Helper()
	f.n++
	version := "..v" + strings.Repeat("i", f.n)
	must := func(err error) {
		f.t.Helper()
		if err != nil {
			f.t.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(f.path, version), 0o700))
	for name, text := range files {
		write(f.t, filepath.Join(f.path, version), name, text)
		link := filepath.Join(f.path, name)
		if _, err := os.Lstat(link); err != nil {
			must(os.Symlink(filepath.Join("..data", name), link))
		}
	}
	must(os.Symlink(version, filepath.Join(f.path, "..new")))
	must(os.Rename(filepath.Join(f.path, "..new"), filepath.Join(f.path, "..data")))
}

// lines reads the lines of a pipe.
type lines struct {
	t  *testing.T
	in *bufio.Scanner
}

// until reads lines until one has a text.
func (l *lines) until(want string) {
	l.t.Helper()
	var seen []string
	for l.in.Scan() {
		if seen = append(seen, l.in.Text()); strings.Contains(l.in.Text(), want) {
			return
		}
	}
	l.t.Fatalf("no line has %q:\n%s", want, strings.Join(seen, "\n"))
}

func TestImportEnvoy_WatchFollowsKubernetesAndOutlivesBadFiles(t *testing.T) {
	usual := watchInterval
	watchInterval = 20 * time.Millisecond
	t.Cleanup(func() { watchInterval = usual })
	r := launch(t, nil, serveArgs(dataDir(t))...)
	defer r.terminate()
	f := folder{t: t, path: t.TempDir()}
	f.swap(map[string]string{"shop.yaml": envoyShop})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	out, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		p := &process{ctx: ctx, in: strings.NewReader(""), out: w, errs: w, now: time.Now, user: "tester"}
		code <- run(p, []string{"rules", "import-envoy", "--server=" + r.url, "--watch", f.path})
		w.Close()
	}()
	l := lines{t, bufio.NewScanner(out)}
	l.until("2 to create")
	f.swap(map[string]string{"shop.yaml": strings.Replace(envoyShop, ": 5", ": 6", 1)})
	l.until("1 to update")
	f.swap(map[string]string{"shop.yaml": "domain: ["})
	l.until("nothing was changed")
	f.swap(map[string]string{"shop.yaml": strings.Replace(envoyShop, ": 5", ": 7", 1), "two.yaml": "domain: two"})
	l.until("1 to update")
	got, err := clientOf(t, r.url).Do(ctx, "GET", "/ratelimit/rules?q=shop.path_pay", "", nil)
	if err != nil || !strings.Contains(string(got), `"limit":7`) {
		t.Errorf("the rule: %s, %v", got, err)
	}
	stop()
	_, _ = io.Copy(io.Discard, out)
	if got := <-code; got != exitDone {
		t.Errorf("exits %d at the end of its context", got)
	}
}

func TestImportEnvoy_WatchWaitsForTheServer(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "shop.yaml", envoyShop)
	var out, errs strings.Builder
	p := &process{ctx: t.Context(), out: &out, errs: &errs, now: time.Now}
	cmd := rulesImportEnvoyCmd{Paths: []string{file}}
	cmd.Server = "http://127.0.0.1:1"
	server, err := connectTo(t.Context(), &cmd.Client, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	w := watching{cmd: &cmd, server: server}
	for range 3 {
		w.look(p)
	}
	if w.pause != 1 || w.waited != 1 || strings.Count(errs.String(), "\n") != 1 {
		t.Errorf("pause %d, waited %d: %s", w.pause, w.waited, errs.String())
	}
	w.look(p)
	if w.pause != 2 || strings.Count(errs.String(), "\n") != 1 {
		t.Errorf("pause %d: %s", w.pause, errs.String())
	}
	r := launch(t, nil, serveArgs(dataDir(t))...)
	defer r.terminate()
	w.server = clientOf(t, r.url)
	defer w.server.Close()
	for range 3 {
		w.look(p)
	}
	if w.pause != 0 || !strings.Contains(out.String(), "2 to create") {
		t.Errorf("pause %d: %s", w.pause, out.String())
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	w.look(p)
	w.look(p)
	if strings.Count(errs.String(), "no such file") != 1 {
		t.Errorf("a missing file: %s", errs.String())
	}
}

// TestImportEnvoy_WatchOutlivesTheFolder: files that are being written or are not there change nothing.
func TestImportEnvoy_WatchOutlivesTheFolder(t *testing.T) {
	r := launch(t, nil, serveArgs(dataDir(t))...)
	defer r.terminate()
	dir := t.TempDir()
	var out, errs strings.Builder
	p := &process{ctx: t.Context(), out: &out, errs: &errs, now: time.Now}
	w := watching{cmd: &rulesImportEnvoyCmd{Paths: []string{dir}}, server: clientOf(t, r.url)}
	defer w.server.Close()
	half, _, _ := strings.Cut(envoyShop, "- key: user")
	away := dir + "-away"
	move := func(from, to string) func() {
		return func() {
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
		}
	}
	files := func(text string) func() { return func() { write(t, dir, "shop.yaml", text) } }
	again := func() {}
	for i, step := range []struct {
		do   func()
		want string // of the output since the step before
	}{
		{files(envoyShop), ""}, {again, "2 to create"}, {again, ""},
		{files(half), ""}, {files(envoyShop), ""}, {again, ""}, // half is valid, and would delete a rule
		{move(dir, away), "no such file"}, {again, ""},
		{move(away, dir), "can be read again"}, {again, ""},
		{move(dir, away), "no such file"},
		{func() { move(away, dir)(); files(half)() }, "can be read again"}, {again, "1 to delete"},
		{func() { move(filepath.Join(dir, "shop.yaml"), filepath.Join(dir, "shop.txt"))() }, "there are no files"},
	} {
		step.do()
		out.Reset()
		errs.Reset()
		w.look(p)
		if got := out.String() + errs.String(); !strings.Contains(got, step.want) || step.want == "" && got != "" {
			t.Errorf("step %d prints %q, want %q", i, got, step.want)
		}
	}
}
