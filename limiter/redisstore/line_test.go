package redisstore

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"sluice/internal/testenv"
)

// linePair returns a line and the connection at its other end.
func linePair(t *testing.T, secure bool) (near, far net.Conn) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			accepted <- c
		}
	}()
	var d net.Dialer
	dialed, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far = <-accepted
	if secure {
		authority := testenv.NewAuthority(t)
		trusting := authority.Client(t, "")
		trusting.ServerName = "127.0.0.1"
		server, client := tls.Server(far, authority.Client(t, "server")), tls.Client(dialed, trusting)
		shaken := make(chan error, 1)
		go func() { shaken <- server.HandshakeContext(t.Context()) }()
		if err := errors.Join(client.HandshakeContext(t.Context()), <-shaken); err != nil {
			t.Fatal(err)
		}
		dialed, far = client, server
	}
	near = newLine(dialed)
	t.Cleanup(func() { _ = errors.Join(near.Close(), far.Close(), l.Close()) })
	return near, far
}

// An answer that is in the socket is read, although its deadline has passed.
func TestLine_ReadsWhatHasArrivedBeforeItFails(t *testing.T) {
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			near, far := linePair(t, secure)
			past := time.Now().Add(-time.Second)
			buffer := make([]byte, 64)
			if err := near.SetReadDeadline(past); err != nil {
				t.Fatal(err)
			}
			if _, err := near.Read(buffer); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("nothing has arrived: got %v", err)
			}
			l, ok := near.(interface{ arrived() bool })
			if !ok {
				t.Fatalf("got a %T", near)
			}
			for range 3 {
				if _, err := far.Write([]byte("answer")); err != nil {
					t.Fatal(err)
				}
				for !l.arrived() { // loopback delivers at once
					continue
				}
				if err := near.SetReadDeadline(past); err != nil {
					t.Fatal(err)
				}
				n, err := io.ReadFull(near, buffer[:6])
				if err != nil || string(buffer[:n]) != "answer" {
					t.Fatalf("got %q, %v", buffer[:n], err)
				}
			}
		})
	}
}

// A write that this process was too late to begin is made all the same, without TLS, whose writes cannot be repeated.
func TestLine_WritesWhatItWasTooLateToBegin(t *testing.T) {
	near, far := linePair(t, false)
	if err := near.SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := near.Write([]byte("question")); n != 8 || err != nil {
		t.Fatalf("wrote %d, %v", n, err)
	}
	buffer := make([]byte, 8)
	if _, err := io.ReadFull(far, buffer); err != nil || string(buffer) != "question" {
		t.Errorf("got %q, %v", buffer, err)
	}
}
