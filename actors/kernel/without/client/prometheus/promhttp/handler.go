// Package promhttp stands in for the page of metrics that the actor library would
// serve if it was asked to. Nobody asks: see docs/decisions/0012-no-metrics.md.
package promhttp

import "net/http"

// Handler has nothing to show.
func Handler() http.Handler { return http.NotFoundHandler() }
