package script

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed *.lua
var files embed.FS

// Script is the whole script.
type Script struct {
	// Source is what EVAL takes.
	Source string
	// SHA is the name by which EVALSHA calls it.
	SHA string
}

// New assembles the script.
func New() Script { return assemble("quick.lua", "quick_buckets.lua") }

// NewLongWay assembles the script without its quick way, for tests that compare
// the two.
func NewLongWay() Script { return assemble() }

// assemble puts the files together in the order in which they use each other.
// What few requests need stands inside a function, make_long, because Redis runs
// the script from its first line for each call. The first line makes Redis
// refuse a call as a whole, before anything is written, when it may not write:
// on a replica, out of memory, after a failed save.
func assemble(quick ...string) Script {
	var b strings.Builder
	b.WriteString("#!lua\n")
	add := func(names ...string) {
		for _, name := range names {
			text, err := files.ReadFile(name)
			if err != nil {
				panic(err) // a name in this file that is not among the embedded ones
			}
			b.WriteString(withNumbers(string(text)))
		}
	}
	add("exact.lua", "codec.lua")
	if add(quick...); len(quick) == 0 {
		b.WriteString("local quicks = {}\n")
	}
	b.WriteString("local function make_long()\n")
	add("codes.lua", "fixed.lua", "counter.lua", "level.lua", "gcra.lua", "buckets.lua", "log.lua", "lease.lua",
		"record.lua", "decide.lua", "serve.lua")
	b.WriteString("end\n")
	add("batch.lua")
	sum := sha1.Sum([]byte(b.String())) //nolint:gosec // not a secret
	return Script{Source: b.String(), SHA: hex.EncodeToString(sum[:])}
}
