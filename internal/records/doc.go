// Package records writes the decision log: one event for each decided request, as lines of JSON in files or as
// records of a Kafka topic.
//
// A Log observes the decisions of a node. During a check it only draws (sample.go), folds floods (fold.go) and
// copies bytes into a bounded buffer (buffer.go, raw.go). Its goroutine (log.go) makes the event (event.go),
// conceals credentials and addresses (conceal.go), encodes it (encode.go) and gives it to a Sink. An Account says
// what became of every event. The page to read first is log.go; docs/records.md describes the event.
package records
