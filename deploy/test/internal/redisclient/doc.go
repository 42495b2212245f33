// Package redisclient opens Redis for the programs that put a whole stack under
// load or under faults and then look into its stores.
package redisclient
