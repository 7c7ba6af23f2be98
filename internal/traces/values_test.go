package traces

import (
	"strings"
	"testing"
)

// A value that the SDK would ignore or misunderstand is an error that names the setting and not the value.
func TestCheck_NamesWhatIsNotValid(t *testing.T) {
	const endpoint, ratio = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_SAMPLER=traceidratio"
	for _, bad := range []string{
		endpoint + "=http://a:99999", endpoint + "=http://a:0", endpoint + "=http://:4317",
		endpoint + "=http://u:planted@a:4317",
		"OTEL_BSP_SCHEDULE_DELAY=0", "OTEL_BSP_SCHEDULE_DELAY=-5", "OTEL_BSP_SCHEDULE_DELAY=planted",
		"OTEL_BSP_SCHEDULE_DELAY=5s", "OTEL_BSP_EXPORT_TIMEOUT=0", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=-1",
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE=9999999999", "OTEL_BSP_MAX_QUEUE_SIZE=-1", "OTEL_BSP_MAX_QUEUE_SIZE=2147483647",
		"OTEL_BSP_MAX_QUEUE_SIZE=planted", "OTEL_EXPORTER_OTLP_TIMEOUT=-1", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=1e9",
		"OTEL_EXPORTER_OTLP_COMPRESSION=zstd", "OTEL_SDK_DISABLED=planted",
		"OTEL_TRACES_SAMPLER_ARG=NaN;" + ratio, "OTEL_TRACES_SAMPLER_ARG=2;" + ratio,
		"OTEL_TRACES_SAMPLER_ARG=planted;OTEL_TRACES_SAMPLER=parentbased_traceidratio",
		"OTEL_EXPORTER_OTLP_HEADERS=planted", "OTEL_EXPORTER_OTLP_HEADERS==planted", "OTEL_EXPORTER_OTLP_HEADERS=a=planted,b",
		"OTEL_EXPORTER_OTLP_HEADERS=a=planted%zz", "OTEL_EXPORTER_OTLP_HEADERS=a=planted%0d%0a",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS=a b=planted", "OTEL_EXPORTER_OTLP_HEADERS=a=plantéd",
		"OTEL_EXPORTER_OTLP_CERTIFICATE=/planted", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=/dev/null",
	} {
		name, _, _ := strings.Cut(bad, "=")
		_, err := check(environment(bad))
		if err == nil || !strings.HasPrefix(err.Error(), name+": ") || strings.Contains(err.Error(), "\n") ||
			strings.Contains(err.Error(), "planted") || strings.Contains(err.Error(), "99999") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, good := range []string{
		"", endpoint + "=http://127.0.0.1:4317;OTEL_SDK_DISABLED=FALSE", endpoint + "=https://[2001:db8::1]",
		endpoint + "=https://collector.example/", "OTEL_BSP_SCHEDULE_DELAY= 1 ", "OTEL_EXPORTER_OTLP_COMPRESSION=none",
		"OTEL_BSP_MAX_QUEUE_SIZE=1000000", "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20abc=,x-team = a b",
		"OTEL_TRACES_SAMPLER_ARG=1;" + ratio, "OTEL_TRACES_SAMPLER_ARG=unused",
		"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=/dev/null;OTEL_EXPORTER_OTLP_CLIENT_KEY=/dev/null",
	} {
		if _, err := check(environment(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

// environment has variables such as A=1;B=2.
func environment(list string) func(string) string {
	values := map[string]string{}
	for pair := range strings.SplitSeq(list, ";") {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = value
	}
	return func(name string) string { return values[name] }
}
