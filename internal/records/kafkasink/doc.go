// Package kafkasink writes the decision log to a topic of Kafka.
//
// The client (client.go) keeps the events that Kafka has not confirmed, and sends them again. For an exact account, the
// sink must know more than the client reports: whether an event that the client gave up may still be in the topic.
// Therefore each event has a number, in a header of its record. Before a batch is compressed, its numbers are read
// (wire.go). Each connection reports the written batches and the answers, and the ledger (ledger.go) determines the
// result of each event: delivered if an answer said so; dropped if it was never sent, or if an answer refused it each
// time it was sent; doubtful otherwise.
//
// A worked example: events 1 to 40 are sent in one request, and the connection breaks before the answer. The client
// sends them again, with the same producer id and sequence, so that Kafka stores them once; the answer confirms them:
// 40 delivered. If instead the node must stop before that answer, 40 are doubtful, and events that were still queued
// are dropped.
package kafkasink
