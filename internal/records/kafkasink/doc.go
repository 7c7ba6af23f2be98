// Package kafkasink writes the decision log to a topic of Kafka.
//
// The client (client.go) keeps the events that Kafka has not answered for, and sends them again. For the account to be
// exact, the sink must know more than the client says: whether an event that the client gave up may be in the topic
// all the same. So each event has a number, in a header of its record. Before a batch is compressed, its numbers are
// read (wire.go), each connection reports which batches were written and what was answered, and the ledger (ledger.go)
// says of each event what became of it: delivered if an answer said so; dropped if it was never sent, or if each time
// it was sent an answer said that it was not taken; doubtful otherwise.
//
// A worked example: events 1 to 40 are sent in one request, and the connection breaks before the answer. The client
// sends them again, with the same producer id and sequence, so that Kafka takes them once; the answer says yes: 40
// delivered. If instead the node must stop before that answer, 40 are doubtful, and those which still waited behind
// them are dropped.
package kafkasink
