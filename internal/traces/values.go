package traces

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// Names of settings that exist for all signals and, with TRACES_, for traces alone.
const exporter = "OTEL_EXPORTER_OTLP_"

// numbers are the settings with a whole number. The SDK ignores values that are no numbers, but does not check the
// others: with a negative batch it panics, and without a delay it runs a busy loop.
var numbers = []struct {
	name string
	most int64
	unit string
}{
	{envQueueSize, 1_000_000, "spans"},
	{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1_000_000, "spans"},
	{"OTEL_BSP_SCHEDULE_DELAY", 3_600_000, "ms"},
	{"OTEL_BSP_EXPORT_TIMEOUT", 3_600_000, "ms"},
	{exporter + "TIMEOUT", 3_600_000, "ms"},
	{exporter + "TRACES_TIMEOUT", 3_600_000, "ms"},
}

// checkValues returns an error for each setting whose value the SDK would ignore or misunderstand. No error has a
// value, which may be secret.
func checkValues(setting func(name string) string) error {
	var errs []error
	wrong := func(name, format string, args ...any) {
		errs = append(errs, errors.New(name+": "+fmt.Sprintf(format, args...)))
	}
	for _, n := range numbers {
		if text := setting(n.name); text != "" {
			if v, err := strconv.ParseInt(text, 10, 64); err != nil || v < 1 || v > n.most {
				wrong(n.name, "must be a number of %s, 1 to %d", n.unit, n.most)
			}
		}
	}
	if v := strings.ToLower(setting(envDisabled)); v != "" && v != "true" && v != "false" {
		wrong(envDisabled, "must be true or false")
	}
	const share = "OTEL_TRACES_SAMPLER_ARG"
	if text := setting(share); text != "" && strings.Contains(setting("OTEL_TRACES_SAMPLER"), "traceidratio") {
		if v, err := strconv.ParseFloat(text, 64); err != nil || !(v >= 0 && v <= 1) { // also not a number
			wrong(share, "must be a number between 0 and 1")
		}
	}
	for _, of := range []string{exporter, exporter + "TRACES_"} {
		if v := setting(of + "COMPRESSION"); v != "" && v != "gzip" && v != "none" {
			wrong(of+"COMPRESSION", "must be gzip or none")
		}
		if !validHeaders(setting(of + "HEADERS")) {
			wrong(of+"HEADERS", "must be name=value pairs with commas between them, the values in printable ASCII, escaped as "+
				"in a URL")
		}
		certificate, key := setting(of+"CLIENT_CERTIFICATE"), setting(of+"CLIENT_KEY")
		if (certificate == "") != (key == "") {
			wrong(of+"CLIENT_CERTIFICATE", "and %sCLIENT_KEY must both be set, or neither", of)
		}
		for _, name := range []string{"CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
			if path := setting(of + name); path != "" {
				if _, err := os.Stat(path); err != nil {
					wrong(of+name, "the file cannot be read")
				}
			}
		}
	}
	return errors.Join(errs...)
}

// headerChars are the characters allowed in names of headers.
const headerChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

// validHeaders reports whether each header can be sent. The SDK sends no span if one of them cannot.
func validHeaders(list string) bool {
	if list == "" {
		return true
	}
	for pair := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		name = strings.TrimSpace(name)
		if !ok || err != nil || name == "" || strings.Trim(name, headerChars) != "" ||
			strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return false
		}
	}
	return true
}
