// Package assert ends a program of testdata at the first answer that is not as the journey says.
package assert

import (
	"encoding/json"
	"fmt"
	"os"
)

// True ends the program if ok is false. It prints the step and what the client decoded.
func True(ok bool, step string, got any) {
	if ok {
		return
	}
	text, err := json.Marshal(got)
	if err != nil {
		text = fmt.Appendf(nil, "%+v", got)
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", step, text)
	os.Exit(1)
}

// No ends the program if err is not nil.
func No(err error, step string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", step, err)
		os.Exit(1)
	}
}
