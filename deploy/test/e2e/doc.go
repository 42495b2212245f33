// Package e2e uses the whole stack as its users do: people with Chromium, a frontend, an
// application behind the guard, and buyers with the official payment clients, all through the
// real proxy and with real programs, on free ports and with a state of their own.
//
// Exchanges pass a recorder that checks them against the OpenAPI document of
// the service that answered. `make e2e` builds the programs and runs this;
// `make test` leaves it out unless PKG names it.
package e2e
