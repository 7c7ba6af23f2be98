package testenv_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/internal/testenv"
)

// ask sends one inline Redis command and returns the first line of the reply.
func ask(t *testing.T, addr, command string, patience time.Duration) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte(command + "\r\n")); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}

func wantReply(t *testing.T, addr, command, want string) {
	t.Helper()
	got, err := ask(t, addr, command, 10*time.Second)
	if err != nil || got != want {
		t.Fatalf("%s = %q, %v, want %q", command, got, err, want)
	}
}

func TestRedis_AnswersAtOnceOnItsOwnPort(t *testing.T) {
	a, b := testenv.Redis(t), testenv.Redis(t)
	if a.Addr == b.Addr {
		t.Fatalf("two servers share %s", a.Addr)
	}
	wantReply(t, a.Addr, "SET k 1", "+OK")
	wantReply(t, b.Addr, "EXISTS k", ":0")
	if want := "redis://" + a.Addr + "/0"; a.URL() != want {
		t.Errorf("URL() = %q, want %q", a.URL(), want)
	}
}

func TestRedis_TakesArguments(t *testing.T) {
	s := testenv.Redis(t, "--requirepass", "secret")
	got, err := ask(t, s.Addr, "PING", 10*time.Second)
	if err != nil || !strings.HasPrefix(got, "-NOAUTH") {
		t.Fatalf("PING = %q, %v, want a demand for a password", got, err)
	}
}

func TestRedis_KillAndRestartKeepThePortAndLoseTheData(t *testing.T) {
	s := testenv.Redis(t)
	wantReply(t, s.Addr, "SET k 1", "+OK")
	s.Kill()
	if got, err := ask(t, s.Addr, "PING", time.Second); err == nil {
		t.Fatalf("a killed server answered %q", got)
	}
	s.Restart()
	wantReply(t, s.Addr, "EXISTS k", ":0")
	s.Stop()
	s.Stop()
	s.Restart()
	wantReply(t, s.Addr, "PING", "+PONG")
}

func TestRedis_PauseKeepsConnectionsAndSilence(t *testing.T) {
	s := testenv.Redis(t)
	s.Pause()
	_, err := ask(t, s.Addr, "PING", 100*time.Millisecond)
	var netErr net.Error
	if !errors.As(err, &netErr) || !netErr.Timeout() {
		t.Fatalf("PING on a paused server: %v, want a timeout", err)
	}
	s.Resume()
	wantReply(t, s.Addr, "PING", "+PONG")
	s.Pause()
	s.Stop() // a paused server stops too
}

func TestSharedRedis_IsOneServer(t *testing.T) {
	if a, b := testenv.SharedRedis(t), testenv.SharedRedis(t); a != b {
		t.Errorf("two shared servers: %s and %s", a.Addr, b.Addr)
	}
}
