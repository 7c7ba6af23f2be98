package config

import (
	"strings"
	"testing"
)

func TestRecords_BadSettingsAreNamed(t *testing.T) {
	const kafka, broker = "--decision-log=kafka", "--kafka-brokers=kafka:9092"
	for _, tt := range []struct {
		args string
		want string
	}{
		{"--decision-log=paper", "SLUICE_DECISION_LOG"},
		{"--decision-log=off,file", "SLUICE_DECISION_LOG"},
		{"--decision-log=file --decision-log-max-bytes=1KiB", "SLUICE_DECISION_LOG_MAX_BYTES"},
		{"--decision-log=file --decision-log-rate=101", "SLUICE_DECISION_LOG_RATE"},
		{"--decision-log=file --decision-log-rate=NaN", "SLUICE_DECISION_LOG_RATE"},
		{"--decision-log=file --decision-log-client-ip=some", "SLUICE_DECISION_LOG_CLIENT_IP"},
		{"--decision-log=file --decision-log-omit=attr:", "SLUICE_DECISION_LOG_OMIT"},
		{kafka, "SLUICE_KAFKA_BROKERS"},
		{broker, "SLUICE_KAFKA_BROKERS"},
		{kafka + " --kafka-brokers=kafka", "SLUICE_KAFKA_BROKERS"},
		{kafka + " " + broker + " --kafka-topic=a/b", "SLUICE_KAFKA_TOPIC"},
		{kafka + " " + broker + " --kafka-compression=snappy", "(SLUICE_KAFKA_COMPRESSION) must be gzip or zstd or none"},
		{kafka + " " + broker + " --kafka-ca-file=ca.pem", "SLUICE_KAFKA_TLS"},
		{kafka + " " + broker + " --kafka-sasl=gssapi --kafka-user=u --kafka-password=hunter2", "SLUICE_KAFKA_SASL"},
		{kafka + " " + broker + " --kafka-sasl=plain --kafka-user=u", "SLUICE_KAFKA_PASSWORD"},
		{kafka + " " + broker + " --kafka-sasl=plain --kafka-password=hunter2", "SLUICE_KAFKA_USER"},
		{kafka + " " + broker + " --kafka-user=u", "SLUICE_KAFKA_SASL"},
	} {
		_, err := parse(t, strings.Fields(tt.args)...)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want an error that names %s", tt.args, err, tt.want)
		}
	}
}

// Without a setting, only a server that needs nothing else writes files.
func TestRecords_Default(t *testing.T) {
	for _, tt := range []struct {
		args        string
		file, kafka bool
	}{
		{"", true, false},
		{"--decision-log=off", false, false},
		{"--redis-url=redis://cache:6379", false, false},
		{"--database-url=postgres://db/sluice", false, false},
		{"--redis-url=redis://cache:6379 --decision-log=file", true, false},
		{"--decision-log=kafka --kafka-brokers=kafka:9092", false, true},
		{"--decision-log=file,kafka --kafka-brokers=kafka:9092", true, true},
	} {
		clearEnvironment(t)
		s, err := parse(t, strings.Fields(tt.args)...)
		if err != nil || s.RecordsToFile() != tt.file || s.RecordsToKafka() != tt.kafka {
			t.Errorf("%q: file %v, kafka %v (%v)", tt.args, s.RecordsToFile(), s.RecordsToKafka(), err)
		}
	}
}
