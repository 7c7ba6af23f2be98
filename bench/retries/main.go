// Command retries measures the built-in reaction of HTTP clients to denials. It prints the table of
// docs/for-api-consumers.md. Each client makes one call for each case, in a separate process, to a server on loopback
// that denies everything. A call that runs longer than -wait after its first request is stopped.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

var cases = []answer{
	{"POST 429, `1`", http.MethodPost, 429, "1"},
	{"POST 429, `12`", http.MethodPost, 429, "12"},
	{"POST 429, none", http.MethodPost, 429, ""},
	{"POST 503, `1`", http.MethodPost, 503, "1"},
	{"POST 429, `86400`", http.MethodPost, 429, "86400"},
	{"GET 429, `1`", http.MethodGet, 429, "1"},
	{"GET 429, `86400`", http.MethodGet, 429, "86400"},
}

func main() {
	wait := flag.Duration("wait", 40*time.Second, "stop a call this long after its first request")
	only := flag.String("only", "", "only clients whose name contains this")
	dir := flag.String("dir", "", "install the clients here and keep them; empty is a temporary folder")
	at := flag.Int("at-once", 8, "calls at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *dir, *only, *wait, *at)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir, only string, wait time.Duration, at int) error {
	if dir == "" {
		temp, err := os.MkdirTemp("", "sluice-retries-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		dir = temp
	}
	var rows []client
	for _, c := range clients {
		if strings.Contains(c.name, only) {
			rows = append(rows, c)
		}
	}
	installed := map[string]bool{}
	for _, c := range rows {
		if installed[c.language] {
			continue
		}
		installed[c.language] = true
		if err := install(ctx, languages[c.language], dir); err != nil {
			return err
		}
	}
	s := serve()
	defer s.http.Close()
	cells, errs := make([][]string, len(rows)), make([]error, len(rows)*len(cases))
	places := make(chan struct{}, at)
	var all sync.WaitGroup
	for i, c := range rows {
		cells[i] = make([]string, len(cases))
		for j, a := range cases {
			all.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				cells[i][j], errs[i*len(cases)+j] = measure(ctx, s, c, a, dir, wait)
			})
		}
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	fmt.Print(table(rows, cells))
	return nil
}

// install copies the folder of a language and runs the commands that install its clients.
func install(ctx context.Context, l language, dir string) error {
	to := filepath.Join(dir, l.dir)
	if _, err := os.Stat(filepath.Join(to, "installed")); err == nil {
		return nil
	}
	if err := os.CopyFS(to, os.DirFS(filepath.Join("retries", "clients", l.dir))); err != nil {
		return fmt.Errorf("copy the clients (run this in bench): %w", err)
	}
	for _, args := range l.install {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = to, os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s in %s: %w", strings.Join(args, " "), to, err)
		}
	}
	return os.WriteFile(filepath.Join(to, "installed"), nil, 0o600)
}

// measure makes one call and returns what the table says of it.
func measure(ctx context.Context, s *server, c client, a answer, dir string, wait time.Duration) (string, error) {
	l := languages[c.language]
	made, url := s.expect(a)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	args := append(append([]string{}, l.run[1:]...), c.program, a.method, url)
	cmd := exec.CommandContext(ctx, l.run[0], args...)
	cmd.Dir = filepath.Join(dir, l.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("%s: %w", c.name, err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }() // most clients end with an error: they were denied
	waits := false
	select {
	case <-made.first:
		select {
		case <-done:
		case <-time.After(wait):
			waits = true
			_ = cmd.Process.Kill()
			<-done
		}
	case <-done:
	}
	times := s.requests(made)
	if len(times) == 0 {
		return "", fmt.Errorf("%s, %s: no request came: %s", c.name, a.title, out)
	}
	return cell(times, waits), nil
}

// cell says how many requests came and the shortest and longest gap between them.
func cell(times []time.Time, waits bool) string {
	words := strconv.Itoa(len(times))
	if len(times) > 1 {
		least, most := time.Duration(math.MaxInt64), time.Duration(0)
		for i, at := range times[1:] {
			least, most = min(least, at.Sub(times[i])), max(most, at.Sub(times[i]))
		}
		words += ": " + seconds(least)
		if seconds(least) != seconds(most) {
			words += "–" + seconds(most)
		}
		words += " s"
	}
	if waits {
		words += " …"
	}
	return words
}

// seconds rounds to a tenth below one second and to whole seconds above.
func seconds(d time.Duration) string {
	s := d.Seconds()
	if s < 0.95 {
		s = math.Round(s*10) / 10
	} else {
		s = math.Round(s)
	}
	return strconv.FormatFloat(s, 'f', -1, 64)
}

func table(rows []client, cells [][]string) string {
	var b strings.Builder
	b.WriteString("| client | as set |")
	for _, a := range cases {
		b.WriteString(" " + a.title + " |")
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(cases)+2) + "\n")
	for i, c := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.name, c.how, strings.Join(cells[i], " | "))
	}
	return b.String()
}
