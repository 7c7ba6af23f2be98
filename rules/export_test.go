package rules

// GenFileRule makes rules for tests of the packages that read and write them.
var GenFileRule = genFileRule
