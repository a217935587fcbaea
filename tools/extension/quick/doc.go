// Package quick is the JavaScript engine: QuickJS, translated to Go. It is the only
// place that imports it.
//
// It sits on the engine's own interface (modernc.org/libquickjs) and not on
// modernc.org/quickjs above it: that one has no tracker of rejections, no bytes across
// the border, no names for what is evaluated and no say over what bytecode keeps, and
// what is missing there cannot be reached from outside without reading private fields.
//
// A VM belongs to one goroutine. Everything but Interrupt is for that goroutine alone,
// and nothing may be called after Close. Values that a call gives are freed by who got
// them; arguments stay the caller's.
package quick
