package telemetry

import "github.com/prometheus/client_golang/prometheus"

// plainChecks are the metrics of plain checks.
type plainChecks struct {
	plain, netHTTP prometheus.Counter
	checks         *prometheus.CounterVec
	handedOver     *prometheus.CounterVec
}

func newPlainChecks() plainChecks {
	p := plainChecks{
		checks: counters("sluice_http_checks_total",
			"Requests to POST /ratelimit/check, by who read them: plain (straight from the connection) or net_http.", "reader"),
		handedOver: counters("sluice_plain_handovers_total",
			"Connections given to net/http for good, by reason (other_request, header, size, slow, cut_short, client_left).",
			"reason"),
	}
	p.plain, p.netHTTP = p.checks.WithLabelValues("plain"), p.checks.WithLabelValues("net_http")
	return p
}

// CountPlainCheck counts a check that was read straight from its connection.
func (m *Metrics) CountPlainCheck() { m.plain.plain.Inc() }

// CountHTTPCheck counts a check that net/http read.
func (m *Metrics) CountHTTPCheck() { m.plain.netHTTP.Inc() }

// HandOvers serves the series of handovers from the start, so that their first counts are an increase.
func (m *Metrics) HandOvers(reasons []string) {
	for _, reason := range reasons {
		m.plain.handedOver.WithLabelValues(reason)
	}
}

// CountHandOver counts a connection that was given to net/http. The reason is one of package plain.
func (m *Metrics) CountHandOver(reason string) { m.plain.handedOver.WithLabelValues(reason).Inc() }
