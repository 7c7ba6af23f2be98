package plain

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/api/reply"
	"sluice/internal/access"
)

// looping is a Loop under test, with the clients of its connections.
type looping struct {
	*Loop
	t        *testing.T
	handed   chan net.Conn
	unread   chan string
	listener *net.TCPListener
	stop     func()
}

// startLoop starts a loop whose checks are decided by all.
func startLoop(t *testing.T, all func(asks []Ask), change func(*Deps)) *looping {
	t.Helper()
	l := newLoop(t, all, change)
	l.run()
	return l
}

// newLoop returns a loop that does not run yet. Its connections are TCP's.
func newLoop(t *testing.T, all func(asks []Ask), change func(*Deps)) *looping {
	t.Helper()
	l := &looping{t: t, handed: make(chan net.Conn, 100), unread: make(chan string, 100)}
	d := Deps{CheckAll: func(_ context.Context, asks []Ask) { all(asks) }, MaxBody: 1 << 10, Idle: time.Minute,
		Write: time.Minute}
	d.Check = newUnused
	if change != nil {
		change(&d)
	}
	s, err := New(d)
	if err != nil {
		t.Fatal(err)
	}
	if l.Loop, err = NewLoop(s, LoopDeps{HandOver: func(c net.Conn, unread []byte) {
		l.handed <- c
		l.unread <- string(unread)
	}}); err != nil {
		t.Fatal(err)
	}
	at, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.listener, _ = at.(*net.TCPListener)
	t.Cleanup(func() { _ = at.Close() })
	return l
}

// run runs the loop until the end of the test, or stop.
func (l *looping) run() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { l.Run(ctx) })
	l.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	l.t.Cleanup(l.stop)
}

// all returns the connections of the loop.
func (l *looping) all() (conns []*owned) {
	l.each(func(c *owned) { conns = append(conns, c) })
	return conns
}

func newUnused(context.Context, access.Call, net.Addr, []byte, []byte, []byte) ([]byte, *reply.Problem) {
	panic("a loop calls CheckAll")
}

// dial returns the client of a new connection of the loop.
func (l *looping) dial() *net.TCPConn {
	l.t.Helper()
	client, err := (&net.Dialer{}).DialContext(l.t.Context(), "tcp", l.listener.Addr().String())
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = client.Close() })
	_ = client.SetDeadline(time.Now().Add(5 * time.Second)) // nothing takes as long
	if err := l.accept(); err != nil {
		l.t.Fatal(err)
	}
	return client.(*net.TCPConn)
}

// accept adds the next connection to the loop.
func (l *looping) accept() error {
	conn, err := l.listener.AcceptTCP()
	if err != nil {
		return err
	}
	file, err := conn.File()
	if err != nil {
		return err
	}
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	_, _ = conn.Close(), file.Close()
	if err == nil {
		err = errors.Join(unix.SetNonblock(fd, true), l.Add(fd))
	}
	return err
}

// ask is a request with a body.
func ask(body string) string {
	const text = requestLine + "Host: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
	return fmt.Sprintf(text, len(body), body)
}

// hear reads an answer and wants a body.
func hear(t *testing.T, from *bufio.Reader, want string) {
	t.Helper()
	res, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || string(body) != want {
		t.Fatalf("%q, %v, want %q", body, err, want)
	}
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// echo answers with the bodies.
func echo(asks []Ask) {
	for i := range asks {
		asks[i].Out = append(asks[i].Out, asks[i].Body...)
	}
}

// A client that sends its last request and closes its side, both while an earlier one is decided, gets all answers and
// then the end.
func TestLoop_ClosesAConnectionWhoseEndCameEarly(t *testing.T) {
	asked, finish := make(chan string), make(chan bool)
	l := startLoop(t, func(asks []Ask) {
		if string(asks[0].Body) != "quick" {
			asked <- string(asks[0].Body)
			<-finish
		}
		echo(asks)
	}, nil)
	c, other := l.dial(), l.dial()
	say(t, c, ask("first"))
	<-asked
	say(t, c, ask("last"))
	_ = c.CloseWrite()
	from := bufio.NewReader(other)
	for range 2 { // what the kernel tells of c is told before what it tells of other
		say(t, other, ask("quick"))
		hear(t, from, "quick")
	}
	from = bufio.NewReader(c)
	for _, want := range []string{"first", "last"} {
		if want == "last" {
			<-asked
		}
		finish <- true
		hear(t, from, want)
	}
	if _, err := from.ReadByte(); err != io.EOF {
		t.Errorf("%v, want the end", err)
	}
}

// The store leaves out the request of a client that reset its connection before a worker came to read it.
func TestLoop_AResetIsNoticedBeforeTheRequestIsRead(t *testing.T) {
	gone := make(chan bool, 1)
	l := newLoop(t, func(asks []Ask) { gone <- asks[0].Gone.Load() }, nil)
	c := l.dial()
	say(t, c, ask("late"))
	_ = c.SetLinger(0)
	_ = c.Close()
	fd := int32(l.all()[0].fd)
	if n, err := unix.Poll([]unix.PollFd{{Fd: fd}}, 20_000); n != 1 { // a reset needs no asking for
		t.Fatal(n, err)
	}
	l.run()
	if !<-gone {
		t.Error("the request of a client that has left is decided")
	}
}

// A connection that the keeper gives back may be closed by a worker at once, and its descriptor belong to another one.
func TestLoop_TheKeeperTouchesNothingThatItGaveBack(t *testing.T) {
	l := newLoop(t, echo, nil)
	l.dial()
	c := l.all()[0]
	for range 6000 {
		c.state.Store(taken)
		waits, told := make(chan bool), make(chan error)
		go func() { // the worker, and what the descriptor belongs to next
			close(waits)
			for spins := 1; !c.state.CompareAndSwap(free, taken); spins++ {
				if spins%100_000 == 0 {
					runtime.Gosched() // there may be one processor only
				}
			}
			told <- unix.EpollCtl(l.fd, unix.EPOLL_CTL_MOD, c.fd, &unix.EpollEvent{Pad: -1, Events: unix.EPOLLOUT})
		}()
		<-waits
		l.giveBack(c)
		if err := <-told; err != nil {
			t.Fatal(err)
		}
		var events [1]unix.EpollEvent
		if epoll(l.fd, events[:]) != 1 || events[0].Pad != -1 {
			t.Fatal("the next connection with the descriptor is lost")
		}
	}
}

// The largest request leaves no room in memory that was made for it, and a drain looks for one more.
func TestLoop_ADrainAnswersTheLargestRequest(t *testing.T) {
	l := startLoop(t, echo, func(d *Deps) { d.Draining = func() bool { return true } })
	body := strings.Repeat("x", l.s.d.MaxBody)
	text := ask(body)
	text = strings.Replace(text, "\r\n\r\n", "\r\nX: "+strings.Repeat("x", maxHead-len(text)+len(body)-5)+"\r\n\r\n", 1)
	c := l.dial()
	say(t, c, text)
	hear(t, bufio.NewReader(c), body)
}

// A bug of the program at one connection is that of this one only, whatever else the worker has in hand.
func TestLoop_APanicIsThatOfOneConnection(t *testing.T) {
	panics := 0
	l := newLoop(t, echo, func(d *Deps) {
		d.HandedOver = func(string) { panic("a bug") }
		d.Panicked = func() { panics++ }
	})
	var conns []net.Conn
	for _, text := range []string{ask("before"), "GET / HTTP/1.1\r\n\r\n", ask("after")} {
		conns = append(conns, l.dial())
		say(t, conns[len(conns)-1], text)
	}
	l.serve()
	hear(t, bufio.NewReader(conns[0]), "before")
	hear(t, bufio.NewReader(conns[2]), "after")
	if panics != 1 {
		t.Errorf("%d panics", panics)
	}
}

// serve makes one worker serve what has arrived on all connections, of a loop that does not run.
func (l *looping) serve() {
	l.t.Helper()
	for _, c := range l.all() {
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}, 5000); n != 1 {
			l.t.Fatal(n, err)
		}
	}
	var events [mostReady]unix.EpollEvent
	n := epoll(l.fd, events[:])
	(&worker{l: l.Loop}).serve(events[:n])
}

// However much a client has sent, little of it is kept.
func TestLoop_KeepsLittleOfAPipeline(t *testing.T) {
	most, checks := 0, 0
	var l *looping
	l = newLoop(t, func(asks []Ask) {
		checks++
		most = max(most, cap(l.all()[0].in))
		echo(asks)
	}, nil)
	c := l.dial()
	say(t, c, strings.Repeat(ask("many"), 400))
	l.serve()
	if checks == 0 || most > 2*room {
		t.Errorf("%d checks with %d bytes", checks, most)
	}
}

// A connection that cannot be handed over, for want of a descriptor, is closed, which the log says.
func TestLoop_SaysThatAConnectionIsNotHandedOver(t *testing.T) {
	var log bytes.Buffer
	freed := 0
	l := newLoop(t, echo, func(d *Deps) { d.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	l.d.Freed = func() { freed++ }
	var pipe [2]int // no socket: package net does not take it
	if err := unix.Pipe2(pipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := l.Add(pipe[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(pipe[1], []byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	l.serve()
	_, err := unix.Write(pipe[1], []byte("x"))
	if !errors.Is(err, unix.EPIPE) || l.Open() != 0 || freed != 1 || !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("%v, %d open, %d freed, log %q", err, l.Open(), freed, &log)
	}
	_ = unix.Close(pipe[1])
}
