package evm

// BlockOf is blockOf for benchmarks of packages that import this one.
var BlockOf = blockOf
