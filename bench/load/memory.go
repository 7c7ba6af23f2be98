package main

import (
	"fmt"
	"regexp"
	"strconv"
)

// memoryLine is a line of the Redis store's own benchmark of memory.
var memoryLine = regexp.MustCompile(`(?m)^BenchmarkMemory/(\w+)/plain=(true|false)\S*\s.*?([\d.]+) bytes/key`)

// bytesAKey reads the memory of a bucket in Redis by algorithm, with packed and with plain names, from what the
// benchmarks of the Redis store print.
func bytesAKey(printed string) ([]bar, error) {
	var bs []bar
	for _, m := range memoryLine.FindAllStringSubmatch(printed, -1) {
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
		return nil, fmt.Errorf("the benchmarks of the Redis store report no bytes a key:\n%s", printed)
	}
	return bs, nil
}
