// Package edge has what a reverse proxy must do with a request before it goes to
// a service, where a Caddyfile alone is a poor fit. It imports nothing of Pforte's
// services and works in any Caddy that is built with it:
//
//   - edge (http.handlers.edge) gives each request an id, drops request headers by
//     name, refuses paths that two servers may read differently, keeps named cookies
//     from all services, which cannot set them either, and adds headers to answers;
//   - edge_cookies (http.handlers.edge_cookies) makes the exception for the
//     service whose cookies they are;
//   - edge_service (http.handlers.edge_service) bounds the requests that a service
//     has at once, quick ones apart from others, and shares its places between networks;
//   - edge_guard (http.handlers.edge_guard) checks with a service whether a request
//     may pass, and checks again as long as the request lasts; it removes the headers
//     that the service names as meant for it alone;
//   - edge_page (http.handlers.edge_page) answers a person who opened a page with a page
//     about the error;
//   - edge_compress (http.handlers.edge_compress) bounds how many answers encode compresses at once;
//   - edge_root (http.handlers.edge_root) gives out the certificate of Caddy's own authority,
//     with a page about it;
//   - edge_apps (http.handlers.edge_apps, and the global option) routes requests to the applications
//     of a list that a service is asked for, by a template that is filled in for each of them;
//   - edge_apps (tls.permission and tls.context) lets the hosts of that list alone have certificates
//     on demand, and edge_own (tls.issuance.edge_own) issues those of internal names;
//   - acmedns and dnsupdate (dns.providers) write the records of DNS challenges;
//   - edge_app (http.reverse_proxy.transport.edge_app) connects to applications of the list, and
//     only to where they may be;
//   - edge_path (http.matchers.edge_path) matches a path as it is passed on, byte for byte,
//     for exceptions from a guard;
//   - edge (http.reverse_proxy.transport.edge) sends requests to a service, faster where
//     edge_service has read the body;
//   - edge_connections (caddy.listeners.edge_connections) bounds open connections, and
//     refuses some of the requests early that edge_service would refuse;
//   - edge_log (caddy.logging.encoders.edge_log) logs of a long text the beginning alone.
//
// In a Caddyfile:
//
//	route {
//		edge {
//			drop X-Auth-* Remote-User
//			drop_untrusted X-Forwarded-* Traceparent
//			cookies svc.* csrf-token
//			answer X-Content-Type-Options nosniff
//			answer_tls Strict-Transport-Security max-age=31536000
//		}
//		handle /login/* {
//			edge_cookies
//			edge_service login 512
//			reverse_proxy login:8081 {
//				transport edge
//			}
//		}
//		handle {
//			edge_guard {
//				identity X-Auth-User-Id X-Auth-Role
//				recheck 5s
//				grace 1m
//				ask {
//					edge_service login 512
//					reverse_proxy login:8081 {
//						method GET
//						rewrite /internal/forward-auth?
//						header_up X-Forwarded-Method {method}
//						header_up X-Forwarded-Uri {uri}
//					}
//				}
//			}
//			reverse_proxy application:3000
//		}
//	}
package edge
