// Package bench measures Pforte as its users meet it and writes deploy/docs/performance.md: this release beside the one
// before, the proxy beside bare Caddy, the services beside their peers, work among much that others left, evidence that
// was not made before, overload, a member beside floods, what starts and idle programs take, tools for agents, and the
// log of receipts. Run it as make bench; BENCH=quick measures shortly and keeps
// nothing. ARGS='-test.run Bench/overload' measures one section, ARGS='-rounds 1 -for 21m'
// all for which that time is enough, in the order of their importance; the page has the
// others as they were measured last. make profile writes profiles of each load.
//
// Most load comes from wrk, whose clients each have a session or payments of their own. Compared servers run side
// by side and take turns, and what is compared is divided turn by turn, because the speed of a machine changes
// within seconds. wrk, Node, Redis, Postgres and taskset must be installed. Without Chromium the page behind the
// guard is left out.
package bench
