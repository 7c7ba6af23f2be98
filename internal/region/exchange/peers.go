package exchange

// CutOffFrom reports whether one region was not heard of for three intervals. It is false for one that is not known.
func (x *Exchange) CutOffFrom(region string) bool {
	for _, p := range x.peers {
		if p.Name == region {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.state.cut
		}
	}
	return false
}
