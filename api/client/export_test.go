package client

// Waiting is how many checks are queued or in flight.
func (c *Client) Waiting() int {
	c.checks.mu.Lock()
	defer c.checks.mu.Unlock()
	return c.checks.queue.Len() + c.checks.carried
}

// MaxCalls is how many calls with checks are in flight at most.
const MaxCalls = maxCalls

// Kill ends a Near as a process that is killed.
func (n *Near) Kill() { die(n) }
