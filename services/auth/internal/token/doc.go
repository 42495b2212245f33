// Package token describes app tokens: what a device without cookies sends to an
// application behind the guard.
//
// A token names its applications and a user, who may do no more with it than they may at that instant. A store holds
// its hash only. A token opens no route of Pforte itself.
package token
