// Chaos tries whether the promises about money, sessions and receipts hold when
// everything goes wrong at once. Each run starts both services anew, lets buyers
// buy and a household live for some seconds, and meanwhile kills programs, cuts
// connections, fills the disk, turns clocks, and lets networks, nodes and the
// facilitator fail and lie. Then all faults end, whoever paid comes back for his
// answer, and the run is judged from records that no service writes: the
// transfers on the chain, what the buyers noted, and which sessions were ended.
//
// A run is drawn from its seed. Which question meets which fault also depends on
// the machine, so that a repeated run is the same plan and not the same trace.
//
// The development chain is one program with its facilitator and keeps everything
// in memory. It is paused and cut off, but not killed: a chain does not forget.
package main
