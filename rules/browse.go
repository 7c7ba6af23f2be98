package rules

// Browse asks for rules as people leaf through them: a query, an order and a
// page by number. Unlike Query alone it says how many there are in all.
type Browse struct {
	// Query filters; its AfterID is ignored.
	Query
	// Sort is one of SortColumns; anything else means name.
	Sort string
	// Desc turns the order round.
	Desc bool
	// Offset is how many rules to pass over.
	Offset int
}

// SortColumns are the orders of Browse.
func SortColumns() []string {
	return []string{"name", "scope", "route", "algorithm", "limit", "mode", "fail_mode", "updated_at"}
}

// Listing answers a Browse.
type Listing struct {
	Rules []Rule
	// Total is how many rules the query selects.
	Total int64
	// Editors says who made the version of each rule that is listed, by id.
	Editors map[int64]Actor
}
