// Package schema describes the wire from the tables of package protocol: as JSON
// Schema and TypeScript for programs, as Markdown for people. What it says is
// generated and never written by hand, so that it cannot be wrong about the wire.
package schema
