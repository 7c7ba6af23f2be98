package limiter

// CountRead makes f hear of the entries of logs that decisions read.
func CountRead(f func(n int)) { countRead = f }
