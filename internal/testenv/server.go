package testenv

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
)

// server is the common part of a test's servers: one process on one port with one folder. Methods
// are safe for concurrent use; one that fails marks the owning test as failed.
type server struct {
	// Addr is host:port. It stays the same across Restart.
	Addr string

	name string     // for messages
	tb   testing.TB // nil for a shared server
	port int
	dir  string // data and server.log

	mu   sync.Mutex
	proc *process
}

// Stop stops the server gracefully, like an operator: clients are disconnected, and no durable
// data is lost. It does nothing if the server is stopped.
func (s *server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report(s.end((*process).terminate))
}

// Pause freezes the server with all its workers: connections stay open, new
// ones may even open, and nothing answers.
func (s *server) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		s.report(errors.New("pause: the server is not running"))
		return
	}
	s.report(s.proc.pause())
}

// Resume lets a frozen server continue.
func (s *server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.report(s.proc.resume())
	}
}

// restart stops the server if it still runs and starts it again. It returns once
// the server answers; the port may linger for a moment.
func (s *server) restart(start func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	err := s.end((*process).terminate)
	if err == nil {
		err = poll(ctx, nil, start)
	}
	s.report(err)
}

// end stops the process with the given method. The caller holds mu.
func (s *server) end(how func(*process) error) error {
	if s.proc == nil {
		return nil
	}
	p := s.proc
	s.proc = nil
	return how(p)
}

func (s *server) logPath() string { return filepath.Join(s.dir, "server.log") }

// report fails the owning test, without ending the goroutine that called.
func (s *server) report(err error) {
	if err == nil {
		return
	}
	if s.tb == nil {
		panic(fmt.Sprintf("shared %s on %s: %v", s.name, s.Addr, err))
	}
	s.tb.Helper()
	s.tb.Errorf("%s on %s: %v", s.name, s.Addr, err)
}
