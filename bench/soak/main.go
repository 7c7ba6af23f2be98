// Command soak runs sluice under steady load while its parts fail, and compares the answers to clients with the spent
// units in Redis. It starts a Redis, a Postgres and two nodes on free loopback ports, breaks one of them at intervals
// in an order determined by the seed, stops all of them and prints a Markdown report. Run it from the folder bench:
//
//	go run ./soak -minutes 5 -seed 7
//
// It exits with 1 if the figures do not add up, if a request failed without a reason, or if a
// part did not recover. account.go describes the sum.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

type settings struct {
	binary  string
	minutes float64
	every   time.Duration
	rate    int
	clients int
	users   int
	limit   int64
	seed    uint64
	only    string
}

func main() {
	var s settings
	flag.StringVar(&s.binary, "binary", "", "the sluice binary to run; empty builds ./cmd/sluice")
	flag.Float64Var(&s.minutes, "minutes", 5, "how long to keep the load up, 0.2 to 600")
	flag.DurationVar(&s.every, "every", 30*time.Second, "from one fault to the next, at least 2s")
	flag.IntVar(&s.rate, "rate", 300, "requests a second, 10 to 5000")
	flag.IntVar(&s.clients, "clients", 16, "clients at once, 1 to 256")
	flag.IntVar(&s.users, "users", 6, "users of each rule, 1 to 1000")
	flag.Int64Var(&s.limit, "limit", 0, "units that each user may spend; 0 fits it to the length, so that some run out")
	flag.Uint64Var(&s.seed, "seed", 0, "decides the order of faults and of requests; 0 draws one")
	flag.StringVar(&s.only, "faults", "", "only these faults, comma separated; empty for all: "+strings.Join(faultNames(),
		", "))
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, s, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func (s *settings) check() error {
	if s.minutes < 0.2 || s.minutes > 600 || s.every < 2*time.Second || s.rate < 10 || s.rate > 5000 ||
		s.clients < 1 || s.clients > 256 || s.users < 1 || s.users > 1000 || s.limit < 0 {
		return errors.New("a flag is out of its range; see -help")
	}
	if s.seed == 0 {
		s.seed = rand.Uint64N(1 << 32)
	}
	if s.limit == 0 {
		perUser := float64(s.rate) * s.minutes * 60 * meanWeight / float64(len(classes)*s.users)
		s.limit = max(10, int64(perUser*0.3))
	}
	return nil
}

// run runs the soak. It writes the report to out and a line about the start to notes.
func run(ctx context.Context, s settings, out, notes io.Writer) error {
	if err := s.check(); err != nil {
		return err
	}
	faults, err := pickFaults(s.only)
	if err != nil {
		return err
	}
	length := time.Duration(s.minutes * float64(time.Minute))
	// If anything hangs, the command still ends some time after the last request.
	ctx, cancel := context.WithTimeout(ctx, length+5*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "sluice-soak")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// Postgres runs as an ordinary user, which must be able to enter its folder.
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // holds nothing secret
		return err
	}
	f, err := startFleet(ctx, &s, dir)
	if f != nil {
		defer f.stop()
	}
	if err != nil {
		return err
	}
	book := newLedger(&s)
	began := time.Now()
	fmt.Fprintf(notes, "soak: seed %d, %v, a fault every %v\n", s.seed, length, s.every)
	loadCtx, stopLoad := context.WithTimeout(ctx, length)
	load := startLoad(loadCtx, &s, f, book)
	phases := breakThings(loadCtx, &s, f, book, faults)
	stopLoad() // it has ended by now, unless something did not recover
	load.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := book.close(ctx, f); err != nil {
		return fmt.Errorf("the last audit: %w", err)
	}
	return report(out, &s, f, book, phases, time.Since(began))
}
