package plain

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/api/reply"
	"sluice/internal/access"
)

// Each request of a connection has its own credentials and host.
func TestServe_NothingOfACallIsThatOfThePreviousOne(t *testing.T) {
	var got []string
	s, err := New(Deps{Check: func(_ context.Context, call access.Call, _ net.Addr, _, _, dst []byte) ([]byte,
		*reply.Problem) {
		got = append(got, fmt.Sprintf("%s %q", call.Host, call.Authorization))
		return dst, nil
	}, MaxBody: 1, Idle: time.Minute, Write: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var text, want []string
	for _, call := range []string{"a Bearer one", "a Bearer two", "b Bearer two", "b ", "b Bearer one"} {
		name, token, _ := strings.Cut(call, " ")
		line, tokens := "Host: "+name, []string(nil)
		if token != "" {
			line, tokens = line+"\r\nAuthorization: "+token, []string{token}
		}
		want = append(want, fmt.Sprintf("%s %q", name, tokens))
		text = append(text, strings.Replace(oneCheck, "Host: x", line, 1))
	}
	s.Serve(&dribble{}, []byte(strings.Join(text, "")))
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The limit of a request begins with its first bytes. Later ones do not move it.
func TestServe_ASlowRequestDoesNotMoveItsLimit(t *testing.T) {
	s, checks := newServer(t, nil)
	c := &dribble{pieces: strings.Split(oneCheck[10:], "")}
	if s.Serve(c, []byte(oneCheck[:10])); *checks != 1 {
		t.Fatalf("%d checks", *checks)
	}
	if len(c.deadlines) != 2 { // that of the request, and that of the idle connection after it
		t.Errorf("deadlines are set with %v pieces left, want two", c.deadlines)
	}
}

func TestServer_DatesAreThoseOfTheMachine(t *testing.T) {
	s, _ := newServer(t, nil)
	s.date.Store(&date{second: 1, text: "an earlier second"})
	for range 2 { // the second one may be kept
		before := time.Now().Truncate(time.Second)
		got, err := http.ParseTime(s.now())
		if err != nil || got.Before(before) || got.After(time.Now()) {
			t.Errorf("%v, %v", got, err)
		}
	}
}

func TestServe_ACallHasTheCertificateOfItsConnection(t *testing.T) {
	want := [][]*x509.Certificate{{{}}}
	var got []access.Call
	s, err := New(Deps{Check: func(_ context.Context, call access.Call, _ net.Addr, _, _, dst []byte) ([]byte,
		*reply.Problem) {
		got = append(got, call)
		return dst, nil
	}, MaxBody: 1, Idle: time.Minute, Write: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(&dribble{chains: want}, []byte(oneCheck+oneCheck))
	s.Serve(&dribble{}, []byte(oneCheck))
	if len(got) != 3 || len(got[0].Chains) != 1 || len(got[1].Chains) != 1 || got[0].Chains[0][0] != want[0][0] ||
		got[2].Chains != nil {
		t.Errorf("got %v", got)
	}
}
