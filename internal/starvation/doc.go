// Package starvation measures how long this process was ready to work and the system did not run it: because a CPU
// quota was used up, because other programs had the processors, or because it was stopped.
//
// A Meter wants to run every 5 ms. How late it runs is the scheduling delay. A delay has two possible reasons: the
// system ran other processes, or this process had more work than its processors could do. The used CPU time
// distinguishes these cases. A process that waits for its own work keeps all its processors busy, so
//
//	lost = late - cpu/processors
//
// where cpu is the CPU time that the process used since the previous tick. The estimate is never too high: CPU time
// before the tick was due counts too, at most 5 ms.
//
// An example on two processors. A tick is 95 ms late. If the process used 2 ms of CPU time in these 95 ms, it was
// stopped: 94 ms are lost. If it used 190 ms, it was busy and nothing is lost. If it used 95 ms, it had one processor
// of two: 47.5 ms are lost.
package starvation
