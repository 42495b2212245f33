// Package observability holds what an operator loads into Prometheus and
// Grafana, prometheus.yml, prometheus.kubernetes.yml, alerts.yml and
// grafana/pforte.json, and reads the page that lists every metric, so that tests
// hold these files and the running services against it.
package observability
