module go.opentelemetry.io/otel/exporters/prometheus

go 1.26.0

require go.opentelemetry.io/otel/sdk/metric v1.47.0
