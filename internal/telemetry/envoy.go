package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/rules/match"
)

// envoy counts the calls of Envoy.
type envoy struct {
	calls, domains, floods *prometheus.CounterVec

	names        names // of domains
	callSeries   fewHandles[questionKey, prometheus.Counter]
	domainSeries handles[domainKey, prometheus.Counter]
}

// domainKey is the labels of sluice_envoy_domain_calls_total.
type domainKey struct{ domain, result string }

// maxDomainLabels bounds the domains that become label values. The others count under otherNames.
const maxDomainLabels = 100

func newEnvoy() *envoy {
	return &envoy{
		names: names{most: maxDomainLabels},
		calls: counters("sluice_envoy_calls_total",
			"Calls of Envoy, by face (ratelimit, ext_authz, rls, quota) and result (allowed, denied, unavailable, skipped, "+
				"missing_fact, unknown_domain, unknown_profile, refused, invalid, not_ready, error). Streams count at their end.",
			"face", "result"),
		domains: counters("sluice_envoy_domain_calls_total",
			"Calls of the RateLimitService that were answered, by domain (the first 100 with rules or a profile, then other) "+
				"and result.", "domain", "result"),
		floods: counters("sluice_grpc_floods_total",
			"Connections of gRPC that were closed because of a flood of frames, by reason (resets, settings, pings, "+
				"empty_frames, continuations).", "reason"),
	}
}

func (e *envoy) collectors() []prometheus.Collector {
	return []prometheus.Collector{e.calls, e.domains, e.floods}
}

// EnvoyCalls serves the series of calls from the start, so that their first counts are an increase.
func (m *Metrics) EnvoyCalls(faces, results, floods []string) {
	for _, face := range faces {
		for _, result := range results {
			m.envoy.calls.WithLabelValues(face, result)
		}
	}
	for _, reason := range floods {
		m.envoy.floods.WithLabelValues(reason)
	}
}

// CountCall counts one call of Envoy. Both words are from the lists of package envoy.
func (m *Metrics) CountCall(face, result string) {
	m.envoy.callSeries.get(questionKey{face, result}, func(k questionKey) prometheus.Counter {
		return m.envoy.calls.WithLabelValues(k.face, k.result)
	}).Inc()
}

// CountDomain counts one call that was answered. The domain has rules or a profile.
func (m *Metrics) CountDomain(domain, result string) {
	m.envoy.domainSeries.get(domainKey{m.envoy.names.label(domain), result}, func(k domainKey) prometheus.Counter {
		return m.envoy.domains.WithLabelValues(k.domain, k.result)
	}).Inc()
}

// CountFlood counts one connection that was closed because of a flood of frames.
func (m *Metrics) CountFlood(reason string) { m.envoy.floods.WithLabelValues(reason).Inc() }

// swapped ends the series of domains that a set does not have.
func (e *envoy) swapped(set *match.Set) {
	removed := e.names.remove(func(domain string) bool { return !set.HasDomain(domain) && set.ProfileOf(domain) == nil })
	for _, domain := range removed {
		e.domainSeries.forget(func(k domainKey) bool { return k.domain == domain })
		e.domains.DeletePartialMatch(prometheus.Labels{"domain": domain})
	}
}
