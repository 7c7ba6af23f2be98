// Command pictures runs sluice demo and takes the pictures of README.md and docs/console.md from it, in Chromium. make
// screenshots runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"time"

	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/demo"
)

func main() {
	out := flag.String("out", "docs/console", "folder to write the pictures to")
	only := flag.String("only", "", "take only pictures whose name contains this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *out, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// run starts a demo and takes the pictures from it.
func run(ctx context.Context, out, only string) error {
	ctx, cancel := context.WithCancel(ctx)
	said, listening, ended := &said{}, make(chan net.Addr, 1), make(chan error, 1)
	d := demo.Demo{Listener: config.Listener{Listen: "127.0.0.1:8080", ResetHeader: "epoch"},
		Log: config.Log{LogLevel: "warn", LogFormat: "text"}}
	host := app.Host{Out: said, Log: slog.New(slog.DiscardHandler), Listening: func(a net.Addr) { listening <- a },
		Now: time.Now} //nolint:forbidigo // a command wires the clock
	go func() { ended <- d.Run(ctx, host) }()
	select {
	case err := <-ended:
		cancel()
		return err
	case <-listening:
	}
	welcome, err := said.welcome()
	if err == nil {
		err = take(ctx, welcome, out, only)
	}
	cancel()
	return errors.Join(err, <-ended)
}

// said is what the demo prints.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

var welcomeLink = regexp.MustCompile(`http://\S+/console/welcome\?token=\S+`)

// welcome is the sign-in link, which is printed before the server listens.
func (s *said) welcome() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	link := welcomeLink.FindString(s.text.String())
	if link == "" {
		return "", errors.New("the demo printed no sign-in link")
	}
	return link, nil
}
