// Package e2e walks through the whole stack as its users do: a browser, a
// household's own API behind the guard, and buyers with the official payment
// clients, all through the real proxy and against real programs, on free ports
// and with a state of their own.
//
// Every exchange passes a wiretap that holds it against the OpenAPI document of
// the service that answered. `make e2e` builds the programs and runs this;
// `make test` leaves it out.
package e2e
