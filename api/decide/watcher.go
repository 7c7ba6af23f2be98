package decide

// Watcher hears whole decisions. An Observer that is also a Watcher gets every
// take, after its answer is complete and before it is sent. Neither argument
// may be changed, or kept after returning: copy what is needed. Unlike the rest
// of an Observer it sees what the caller sent, and must show it to nobody who
// may not see it.
type Watcher interface {
	ObserveDecision(q *Question, a *Answer)
}
