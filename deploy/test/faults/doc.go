// Package faults tries whether the promises about money, sessions and receipts hold when
// everything fails at once, and whether anything grows that should not under load
// over hours.
//
// A campaign (make chaos) is many runs. Each run starts both services anew, has
// buyers buy and users log in for some seconds, and meanwhile causes some faults: it
// kills programs, cuts connections, fills the disk, sets clocks wrong, or makes
// networks, nodes and the facilitator fail and lie. Then all faults end, every buyer
// without an answer tries again, and the run is judged from records that no service
// writes: the transfers on the chain, what the buyers noted, and which sessions were
// ended. Every receipt that was sold must be in the log of receipts, as a stranger
// checks it.
//
// Load over hours (make soak) is moderate and without faults: what leaks does so
// with every request. The same judge looks at its payments and receipts, and every
// answer must be the expected one.
//
// A run is drawn from its seed. Which request meets which fault also depends on
// the machine, so that a repeated run is the same plan and not the same trace.
//
// The development chain is one program with its facilitator and keeps everything
// in memory. It is paused and cut off, but not killed: a chain does not forget.
//
// In about half of the runs someone else, who sees the payments, carries some of them out
// on the chain before their buyers send them. The money still buys one answer.
//
// No account gets or loses its code (EIP-7702) between the check of a payment and its
// settlement. That would lead to a payment that every check calls good and whose transfer
// reverts. The wallets with the code refusesTransactions lead to the same: in a simulation they
// accept every signature, and in a transaction none.
package faults
