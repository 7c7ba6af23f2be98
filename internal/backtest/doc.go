// Package backtest tries rules on recorded traffic: it decides the events of a decision log again, in their own time
// and in memory, and says what would change. Run is the page to read first.
//
// A worked example. The log has 120 checks of user 42 within a minute, all of them allowed by a limit of 1,000. With a
// proposed limit of 100 a minute, the replay denies the last 20: the report has 20 newly denied requests of the rule
// and of the key user:42, the first of them with both explanations, and a picture in which the demand of that minute,
// 120, stands above the limit.
//
// What the log does not tell is never guessed: events and limits that cannot be replayed are counted and named.
package backtest
