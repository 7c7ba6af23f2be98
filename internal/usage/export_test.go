package usage

// AskAll asks for a reading of all buckets, as the node with the lease does.
func (r *Recorder) AskAll() { r.ask(0) }

// Bound makes most the largest number of notes.
func (r *Recorder) Bound(most int) { r.notes.most = most }

// Noted returns how many buckets are noted.
func (r *Recorder) Noted() int { noted, _ := r.notes.size(); return noted }

// Looker returns what the node with the lease does at each look.
func (r *Recorder) Looker() func() {
	l := leader{Recorder: r, left: r.opt.Left(), looked: r.opt.Now()}
	return l.look
}

// The troubles of a Recorder.
var Lost, Unread, Unwritten = lost, unreadable, unwritten
