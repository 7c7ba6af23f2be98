package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// memoryLine is a line of the Redis store's own benchmark of memory.
var memoryLine = regexp.MustCompile(`(?m)^BenchmarkMemory/(\w+)/plain=(true|false)\S*\s.*?([\d.]+) bytes/key`)

// bytesAKey measures the memory of a bucket in Redis by algorithm, with packed and with plain
// names.
func bytesAKey(ctx context.Context) ([]bar, error) {
	fmt.Fprintln(os.Stderr, "bytes a key")
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "Memory$", "-benchtime", "1x",
		"./limiter/redisstore")
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	var bs []bar
	for _, m := range memoryLine.FindAllStringSubmatch(string(out), -1) {
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return nil, err
		}
		one := bar{name: m[1], colour: palette[0], value: v}
		if m[2] == "true" {
			one.name, one.colour = m[1]+", plain names", palette[1]
		}
		bs = append(bs, one)
	}
	if len(bs) == 0 {
		return nil, fmt.Errorf("%s reported no bytes a key:\n%s", strings.Join(cmd.Args, " "), out)
	}
	return bs, nil
}
