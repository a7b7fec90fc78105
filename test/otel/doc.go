// Package otel tests otelredlock with the SDK of OpenTelemetry and its exporter for Prometheus,
// which users of that module must not carry, and the dashboard and the alerts of
// docs/observability.
package otel
