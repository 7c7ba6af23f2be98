package exchange

import "slices"

// CutOffFrom reports whether one region was not heard of for three intervals. It is false for one that is not known.
func (x *Exchange) CutOffFrom(region string) bool {
	i := slices.Index(x.names, region)
	if i < 0 {
		return false
	}
	p := x.peers[i]
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.cut
}
