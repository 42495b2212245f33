// Package layout says which programs a stack of Pforte has, on which addresses
// they listen, what each is told in its environment, and what of it is kept.
//
// It owns the state folder: secrets that are made once, databases, logs. The
// local stack and the journeys differ only in addresses, folder and options.
package layout
