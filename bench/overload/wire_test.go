package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// kinds are the answers that the test servers give in turn, by the number of the check.
var kinds = []struct {
	json    string
	status  int
	grpc    *rls.RateLimitResponse
	code    codes.Code
	verdict verdict
	allowed bool
	mode    string
}{
	{`{"allowed":true,"status":200,"degraded":null,"limits":[{"rule":"a","allowed":true}]}`, 200,
		response(rls.RateLimitResponse_OK, "", ""), 0, decided, true, ""},
	{`{"allowed":false,"status":429,"degraded":null,"limits":[{"rule":"a","allowed":false}]}`, 200,
		response(rls.RateLimitResponse_OVER_LIMIT, "", "quota-exceeded"), 0, decided, false, ""},
	{`{"allowed":true,"status":200,"degraded":"open","limits":[]}`, 200,
		response(rls.RateLimitResponse_OK, "open", ""), 0, byFailMode, true, "open"},
	{`{"allowed":false,"status":503,"degraded":"closed","body":{"type":"temporary-reduced-capacity"}}`, 200,
		response(rls.RateLimitResponse_OVER_LIMIT, "closed", "temporary-reduced-capacity"), 0, byFailMode, false, "closed"},
	{`{"allowed":false,"status":503,"degraded":null,"overloaded":true}`, 200,
		response(rls.RateLimitResponse_OVER_LIMIT, "", "temporary-reduced-capacity"), 0, overloaded, false, ""},
	{`{"type":"/problems/overloaded"}`, 503, nil, codes.Unavailable, failed, false, ""},
}

func response(code rls.RateLimitResponse_Code, mode, body string) *rls.RateLimitResponse {
	fields := map[string]any{"rule": "per-user"}
	if mode != "" {
		fields["degraded"] = mode
	}
	metadata, err := structpb.NewStruct(fields)
	if err != nil {
		panic(err)
	}
	return &rls.RateLimitResponse{OverallCode: code, RawBody: []byte(body), DynamicMetadata: metadata,
		Statuses: []*rls.RateLimitResponse_DescriptorStatus{{Code: code}}}
}

// asKind reports whether an answer is that of its kind.
func asKind(a *answer) bool {
	k := kinds[a.n%len(kinds)]
	return a.verdict == k.verdict && a.allowed == k.allowed && a.mode == k.mode
}

// serveKinds answers a check whose body is a number with that kind.
func serveKinds(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		kind := 0
		_, _ = fmt.Sscan(string(body), &kind)
		w.WriteHeader(kinds[kind].status)
		_, _ = io.WriteString(w, kinds[kind].json)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// kindsRLS answers a call whose domain is a number with that kind.
type kindsRLS struct {
	rls.UnimplementedRateLimitServiceServer
}

func (kindsRLS) ShouldRateLimit(_ context.Context, in *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	kind := 0
	_, _ = fmt.Sscan(in.Domain, &kind)
	if k := kinds[kind]; k.grpc == nil {
		return nil, status.Error(k.code, "no luck")
	}
	return kinds[kind].grpc, nil
}

func serveGRPC(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.MaxConcurrentStreams(3))
	rls.RegisterRateLimitServiceServer(s, kindsRLS{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(l) // until it is stopped
	}()
	t.Cleanup(func() { s.Stop(); <-ended })
	return l.Addr().String()
}

func numbers() (out []string) {
	for i := range kinds {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

// kindLoads are loads over each protocol on servers that answer with every kind in turn.
func kindLoads(t *testing.T) map[string]*load {
	t.Helper()
	addr := serveKinds(t)
	requests := plainChecks(addr, numbers())
	overGRPC := grpcLoad(&node{grpc: serveGRPC(t)}, 40, "5S", numbers()...)
	overHTTP := &load{addr: addr, conns: 7, wire: func() wire { return &httpWire{requests: requests} }}
	return map[string]*load{"HTTP": overHTTP, "gRPC": overGRPC}
}

func TestLoad_RecognizesEveryAnswer(t *testing.T) {
	for name, l := range kindLoads(t) {
		for _, rate := range []int{0, 2000} {
			l.rate, l.length, l.right = rate, 300*time.Millisecond, asKind
			y, err := l.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			sum := 0
			for _, n := range y.verdicts {
				sum += n
			}
			if y.sent < 2*len(kinds) || y.wrong > 0 || sum != y.sent || y.unanswered() != y.verdicts[failed] {
				t.Errorf("%s, rate %d: %+v", name, rate, y.verdicts)
			}
			for v, n := range y.verdicts {
				if n == 0 {
					t.Errorf("%s, rate %d: no answer has verdict %d", name, rate, v)
				}
			}
		}
	}
}

// An answer may arrive in any pieces, and the beginning of the next one with it.
func TestWires_ReadPieces(t *testing.T) {
	const text = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"allowed\":true,"
	for cut := range len(text) {
		w := &httpWire{requests: [][]byte{[]byte("ask")}}
		if out := string(w.request(nil, &answer{n: 5})); out != "ask" || w.room() {
			t.Fatalf("sent %q, room %v", out, w.room())
		}
		answers := 0
		got := func(a *answer) {
			answers++
			if a.n != 5 || a.verdict != decided || !a.allowed {
				t.Errorf("cut at %d: got %+v", cut, a)
			}
		}
		if used, _, err := w.read([]byte(text[:cut]), nil, got); used != 0 || err != nil || answers != 0 {
			t.Fatalf("cut at %d: %d bytes, %v, %d answers", cut, used, err, answers)
		}
		if used, _, err := w.read([]byte(text+"HTTP/"), nil, got); used != len(text) || err != nil || answers != 1 {
			t.Fatalf("cut at %d: %d bytes, %v, %d answers", cut, used, err, answers)
		}
		if !w.room() {
			t.Fatal("the connection is still busy")
		}
	}
}
