// Package quantity writes numbers for people: amounts, lengths of time and shares. Pages, alerts, findings and reports
// all use it, so that one number reads the same everywhere.
//
//	Amount(10000)                          "10,000"
//	Rate(0.25)                             "0.3/s"
//	RoundRate(0.005)                       "0.005/s"
//	Bytes(42_500)                          "42.5 kB"
//	Length(95 * time.Second)               "1 min 35 s"
//	Wait(105_400 * time.Millisecond)       "1 min 46 s", rounded up
//	Period(60_000)                         "minute", as people say it after per
//	Share(997, 1000)                       "99.7%"
//	Share(1, 5000)                         "under 0.1%"
//
// A number that names something, such as a version or a status, is no quantity: see Digits.
package quantity
