package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Keys is a number of buckets. 0 is written "auto": as many as fit in memory.
type Keys int

const autoKeys = "auto"

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Keys) UnmarshalText(text []byte) error {
	if string(text) == autoKeys {
		*k = 0
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n == 0 {
		return errors.New("must be auto or a whole number")
	}
	*k = Keys(n)
	return nil
}

// String is the inverse of UnmarshalText.
func (k Keys) String() string {
	if k == 0 {
		return autoKeys
	}
	return strconv.Itoa(int(k))
}

// Bytes is an amount of memory: a whole number of bytes, KiB, MiB or GiB, as in
// 64MiB.
type Bytes int64

var byteUnits = []struct {
	name string
	size int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Bytes) UnmarshalText(text []byte) error {
	for _, u := range byteUnits {
		number, ok := strings.CutSuffix(string(text), u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 0 || n > (1<<62)/u.size {
			break
		}
		*b = Bytes(n * u.size)
		return nil
	}
	return errors.New("must be a number of bytes, or one of KiB, MiB or GiB, as in 64MiB")
}

// String is the shortest form that UnmarshalText accepts.
func (b Bytes) String() string {
	for _, u := range byteUnits {
		if b != 0 && int64(b)%u.size == 0 {
			return fmt.Sprintf("%d%s", int64(b)/u.size, u.name)
		}
	}
	return "0"
}
