package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	_ "embed"
	"encoding/hex"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The files of the script. What nearly every call needs.
var (
	//go:embed exact.lua
	exactLua string
	//go:embed codec.lua
	codecLua string
	//go:embed quick.lua
	quickLua string
	//go:embed quick_buckets.lua
	quickBucketsLua string
	//go:embed batch.lua
	batchLua string
)

// What is made in a call only when one of its requests needs it, in the order in
// which the files use each other.
var (
	//go:embed codes.lua
	codesLua string
	//go:embed fixed.lua
	fixedLua string
	//go:embed counter.lua
	counterLua string
	//go:embed level.lua
	levelLua string
	//go:embed gcra.lua
	gcraLua string
	//go:embed buckets.lua
	bucketsLua string
	//go:embed log.lua
	logLua string
	//go:embed lease.lua
	leaseLua string
	//go:embed record.lua
	recordLua string
	//go:embed decide.lua
	decideLua string
	//go:embed serve.lua
	serveLua string
)

// script is the whole script and its name. The first line makes Redis refuse
// the call as a whole, before anything is written, when it may not write: on a
// replica, out of memory, after a failed save.
type script struct {
	source string
	sha    string
}

func newScript() script { return assemble(quickLua, quickBucketsLua) }

// assemble makes the script with the given quick way. The long way stands inside
// a function.
func assemble(quick ...string) script {
	src := "#!lua\n" + strings.Join([]string{
		exactLua, codecLua, strings.Join(quick, "\n"),
		"local function make_long()",
		codesLua, fixedLua, counterLua, levelLua, gcraLua, bucketsLua, logLua, leaseLua, recordLua, decideLua, serveLua,
		"end",
		batchLua,
	}, "\n")
	sum := sha1.Sum([]byte(src)) //nolint:gosec // not a secret
	return script{source: src, sha: hex.EncodeToString(sum[:])}
}

// run calls the script on one node. A server that does not know it (a restart,
// a failover, SCRIPT FLUSH) has not run it either, so it is sent in full at once.
func (s *script) run(ctx context.Context, c redis.Scripter, keys []string, blob []byte) (string, error) {
	reply, err := c.EvalSha(ctx, s.sha, keys, blob).Text()
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		return c.Eval(ctx, s.source, keys, blob).Text()
	}
	return reply, err
}
