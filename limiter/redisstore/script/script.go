package script

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"embed"
	"encoding/hex"
	"fmt"
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
func New() Script { return assemble(true) }

// NewLongWay assembles the script without its way for plain takes, for tests that
// compare the two ways.
func NewLongWay() Script { return assemble(false) }

// assemble puts the files together:
//
//	codec.lua                        the main chunk and all kernels use it
//	function make(code, ...)         makes what a call needs on demand, with other
//	                                 functions than codec.lua's if they are given:
//	  fixed.lua, counter.lua, ...    the kernel of the algorithm with that code
//	  spans.lua                      the kernel of a limit that spans regions, if code is more than SPANS
//	  layout.lua, sums.lua           the functions of sums, if code is SPANS
//	  high.lua                       the functions of high-water marks, if code is HIGH
//	  record.lua, operations.lua     if code is 0, the functions of the long way
//	batch.lua                        the main chunk
//
// Redis runs the script from its first line for each call. A function, and each
// outer local that functions use, costs a call some 50 ns before it has decided
// anything, so nothing is made that a call does not need. The first line makes
// Redis refuse a call as a whole, before anything is written, when it may not
// write: on a replica, out of memory, after a failed save.
func assemble(plainWay bool) Script {
	var b strings.Builder
	b.WriteString("#!lua\n" + lua("codec.lua"))
	b.WriteString("local kernels, make = {}, nil\nfunction make(code, decode_state, encode_state)\n")
	b.WriteString("local decode, encode = decode_state or decode, encode_state or encode\n")
	fmt.Fprintf(&b, "if code > %d and code < %d then\n%send\n", spans, looks, lua("spans.lua"))
	fmt.Fprintf(&b, "if code == %d then\n%send\n", high, lua("high.lua"))
	b.WriteString(kernels(false) + lua("common.lua") + kernels(true))
	fmt.Fprintf(&b, "if code == %d then\n%send\n", spans, lua("layout.lua", "sums.lua"))
	b.WriteString("if code ~= 0 then return nil end\n" + lua("record.lua", "operations.lua") + "end\n")
	b.WriteString(strings.ReplaceAll(lua("batch.lua"), "PLAIN_WAY", fmt.Sprint(plainWay)))
	return named(b.String())
}

// HighWater is the script that reads high-water marks.
func HighWater() Script { return ofFile("highwater.lua") }

// ofFile is a script of one file.
func ofFile(name string) Script { return named("#!lua\n" + lua(name)) }

func named(source string) Script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // not a secret
	return Script{Source: source, SHA: hex.EncodeToString(sum[:])}
}

// kernels is the part of make that returns the kernels of lists, or of strings.
func kernels(list bool) string {
	var b strings.Builder
	made := map[string]bool{}
	for _, a := range algorithms {
		if a.kernel == "" || a.list != list || made[a.kernel] {
			continue
		}
		made[a.kernel] = true
		var its []string
		for code := range algorithms {
			if algorithms[code].kernel == a.kernel {
				its = append(its, fmt.Sprintf("code == %d", code))
			}
		}
		fmt.Fprintf(&b, "if %s then\n%send\n", strings.Join(its, " or "), lua(strings.Fields(a.kernel)...))
	}
	return b.String()
}

// lua is the text of files, with numbers in place of their names.
func lua(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // a name in this package that is not among the embedded ones
		}
		b.WriteString(withNumbers(string(text)))
	}
	return b.String()
}
