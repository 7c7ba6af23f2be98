package main

import (
	"encoding/binary"
	"fmt"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
)

// users is the number of keys in the traffic, so many that none of them is hot.
const users = 10_000

// face is a protocol by which callers ask a node.
type face struct {
	name  string
	rules []string // a rule by user whose limit is never reached
	// load returns callers with that many calls in flight.
	load func(n *node, inFlight int) *load
}

// grpcSockets is the number of connections of all calls over gRPC: Envoy has a few, and many calls share one.
const grpcSockets = 8

var overHTTP = face{
	name:  "HTTP",
	rules: []string{ruleOf("per-user", "open", `"scope":"user"`)},
	load: func(n *node, inFlight int) *load {
		requests := plainChecks(n.Addr, bodies(func(user int) string {
			return fmt.Sprintf(`{"method":"POST","route":"/v1/charges","user":"u%d"}`, user)
		}))
		return &load{addr: n.Addr, conns: inFlight, wire: func() wire { return &httpWire{requests: requests} }}
	},
}

var overGRPC = face{
	name:  "gRPC",
	rules: []string{ruleOf("per-user", "open", descriptorOf("bench"))},
	load:  func(n *node, inFlight int) *load { return grpcLoad(n, inFlight, "", "bench") },
}

var faces = []face{overHTTP, overGRPC}

// ruleOf is a rule whose limit is never reached.
func ruleOf(name, failMode, matches string) string {
	return fmt.Sprintf(`{"name":%q,%s,"limit":1000000,"window_ms":60000,"fail_mode":%q}`, name, matches, failMode)
}

// descriptorOf matches the users of a domain.
func descriptorOf(domain string) string {
	return fmt.Sprintf(`"descriptor":{"domain":%q,"entries":[{"key":"user"}]}`, domain)
}

func bodies(of func(user int) string) []string {
	out := make([]string, users)
	for i := range out {
		out[i] = of(i)
	}
	return out
}

// grpcLoad asks the domains in turn. timeout is the callers' deadline in the form of gRPC, "" for none.
func grpcLoad(n *node, inFlight int, timeout string, domains ...string) *load {
	messages := make([][]byte, users/len(domains)*len(domains))
	for i := range messages {
		messages[i] = prefixed(&rls.RateLimitRequest{Domain: domains[i%len(domains)],
			Descriptors: []*ratelimitv3.RateLimitDescriptor{{
				Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "user", Value: fmt.Sprintf("u%d", i)}},
			}}})
	}
	return &load{addr: n.grpc, conns: grpcSockets, wire: func() wire {
		return newGRPCWire(messages, (inFlight+grpcSockets-1)/grpcSockets, timeout)
	}}
}

// prefixed returns a message as gRPC sends it: not compressed, after its length.
func prefixed(m proto.Message) []byte {
	b, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, messagePrefix), m)
	if err != nil {
		panic(err) // a message of constants
	}
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-messagePrefix)) //nolint:gosec // a few hundred bytes
	return b
}
