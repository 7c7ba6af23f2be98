package traces

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// The settings that are read here. The SDK of OpenTelemetry reads these and all others.
const (
	envDisabled  = "OTEL_SDK_DISABLED"
	envExporter  = "OTEL_TRACES_EXPORTER"
	envQueueSize = "OTEL_BSP_MAX_QUEUE_SIZE"
)

// Settings of the exporter that exist for all signals and for traces alone. The latter win.
var (
	envEndpoint = [...]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}
	envProtocol = [...]string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"}
)

// enabled reports whether the environment asks for traces.
func enabled(getenv func(string) string) bool {
	setting := func(name string) string { return strings.TrimSpace(getenv(name)) }
	return (setting(envEndpoint[0]) != "" || setting(envEndpoint[1]) != "") &&
		!strings.EqualFold(setting(envDisabled), "true") && setting(envExporter) != "none"
}

// check returns the most spans that may wait, and an error for each setting that the SDK would ignore or misunderstand.
func check(getenv func(string) string) (room int64, err error) {
	setting := func(name string) string { return strings.TrimSpace(getenv(name)) }
	var errs []error
	for _, name := range envEndpoint {
		u, err := url.Parse(setting(name))
		if setting(name) != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || !dialable(u)) {
			errs = append(errs, fmt.Errorf("%s: must be a URL such as http://127.0.0.1:4317", name))
		}
	}
	if to := setting(envExporter); to != "" && to != "otlp" {
		errs = append(errs, errors.New(envExporter+": must be otlp or none"))
	}
	for _, name := range envProtocol {
		if protocol := setting(name); protocol != "" {
			if protocol != "grpc" {
				errs = append(errs, errors.New(name+": must be grpc"))
			}
			break
		}
	}
	if room, err = strconv.ParseInt(setting(envQueueSize), 10, 32); err != nil {
		room = sdk.DefaultMaxQueueSize
	}
	return room, errors.Join(append(errs, checkValues(setting))...)
}

// dialable reports whether a URL names a host that can be dialled, and nothing that would be ignored, such as a user.
func dialable(u *url.URL) bool {
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return u.Hostname() != "" && u.User == nil && (u.Port() == "" || err == nil && port > 0)
}

// problems collects the reports of the SDK while it reads the settings.
type problems struct {
	mu   sync.Mutex
	over bool
	errs []error
	log  *pacedLog
}

// listen receives the reports of the SDK for the whole process: first about settings that it does not understand, then
// about later failures.
func listen(log *pacedLog) *problems {
	p := &problems{log: log}
	otel.SetErrorHandler(p)
	otel.SetLogger(logr.New(p))
	return p
}

// done ends the reading of the settings and returns the problems of the settings.
func (p *problems) done() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	return errors.Join(p.errs...)
}

// add takes up one report.
func (p *problems) add(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		p.log.warn("OpenTelemetry reports a problem", "problem", text)
		return
	}
	p.errs = append(p.errs, errors.New("a setting of OpenTelemetry (OTEL_*) is not valid: "+text))
}

// Handle implements otel.ErrorHandler.
func (p *problems) Handle(err error) { p.add(err.Error()) }

// Error implements logr.LogSink. The error and the values may have parts of headers, which are secret.
func (p *problems) Error(_ error, text string, _ ...any) { p.add(text) }

// Init implements logr.LogSink.
func (*problems) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink: only errors count.
func (*problems) Enabled(int) bool { return false }

// Info implements logr.LogSink.
func (*problems) Info(int, string, ...any) {}

// WithValues implements logr.LogSink.
func (p *problems) WithValues(...any) logr.LogSink { return p }

// WithName implements logr.LogSink.
func (p *problems) WithName(string) logr.LogSink { return p }

var (
	_ logr.LogSink      = (*problems)(nil)
	_ otel.ErrorHandler = (*problems)(nil)
)
