package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Keys is a number of buckets. 0 is the text "auto": as many as the memory of this
// machine allows.
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

// String is the text that UnmarshalText reads.
func (k Keys) String() string {
	if k == 0 {
		return autoKeys
	}
	return strconv.Itoa(int(k))
}

// Mebibytes is an amount of memory as a number of MiB.
type Mebibytes int

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Mebibytes) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return fmt.Errorf("must be a whole number of MiB without a unit, as in 64, not %q", text)
	}
	*m = Mebibytes(n)
	return nil
}

// Bytes is an amount of memory: a number of bytes, or a whole number of KiB, MiB or
// GiB, as in 64MiB.
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

// String is the shortest text that UnmarshalText reads.
func (b Bytes) String() string {
	for _, u := range byteUnits {
		if b != 0 && int64(b)%u.size == 0 {
			return fmt.Sprintf("%d%s", int64(b)/u.size, u.name)
		}
	}
	return "0"
}
