package redisstore

import "sluice/limiter/redisstore/script"

// NewLongWay is New with a script that sends plain takes the long way too.
func NewLongWay(opt Options) (*Store, error) {
	s, err := New(opt)
	if err == nil {
		s.script = script.NewLongWay()
	}
	return s, err
}
