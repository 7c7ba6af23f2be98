package rules

// Browse requests one page of a rule list: a query, an order and an offset. Unlike Query alone it
// also asks for the total number.
type Browse struct {
	// Query filters; its AfterID is ignored.
	Query
	// Sort is one of SortColumns; any other value means name. By owner, rules without one are last, and rules of one owner
	// are in order of name.
	Sort string
	// Desc reverses the order.
	Desc bool
	// Offset is the number of rules to skip.
	Offset int
}

// SortColumns lists the valid values of Browse.Sort.
func SortColumns() []string {
	return []string{"name", "scope", "route", "algorithm", "limit", "mode", "fail_mode", "owner", "updated_at", "id"}
}

// Listing is the answer to a Browse.
type Listing struct {
	Rules []Rule
	// Total is the number of rules that the query selects.
	Total int64
	// Editors holds the author of the current version of each listed rule, by id.
	Editors map[int64]Actor
}
