// Package backtest tries rules on recorded traffic: it decides the events of a decision log again, at their recorded
// times and in memory, and reports the changed decisions. Start reading at Run.
//
// A worked example. The log contains 120 checks of user 42 within a minute, all allowed by a limit of 1,000. With a
// proposed limit of 100 per minute, the replay denies the last 20. The report counts 20 newly denied requests for the
// rule and for the key user:42, shows the first of them with both explanations, and draws the demand of that minute,
// 120, above the limit.
//
// Facts that the log does not contain are never guessed: events and limits that cannot be replayed are counted and
// named.
package backtest
