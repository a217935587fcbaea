// Package extension is the extensions of one session as the session sees them: an
// actor that speaks with their virtual machine, and the tools that they registered.
// What the machine asks becomes an event as extensions know it, what they answer an
// input; what they do on their own becomes an input or a command of the session.
package extension
