// Package prometheus stands in for the exporter of metrics that the actor library
// would make if it was asked for one. Nobody asks: see docs/decisions/0012-no-metrics.md.
package prometheus

import (
	"errors"

	"go.opentelemetry.io/otel/sdk/metric"
)

// Exporter is the type that the actor library names.
type Exporter struct{ metric.Reader }

// New makes none: the library goes on without metrics.
func New() (*Exporter, error) { return nil, errors.New("metrics are not built in") }
