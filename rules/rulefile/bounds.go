package rulefile

// Bounds that keep a hostile file cheap. Real files are three levels deep.
const (
	maxDepth = 16
	// maxValues bounds the values of one rule or pool in JSON.
	maxValues = 100_000
	// maxWeight bounds the memory of YAML that is read at once.
	maxWeight = 600_000
	// maxWhole is the longest YAML that is read at once, in bytes: a whole file, or one rule of a longer file.
	maxWhole = 1 << 20
	// maxBatch is where the elements of a long file so far are read, in bytes, so that they share a reader.
	maxBatch = 16 << 10
)
