// Package conn is one connection: a reader that cuts its input into lines, a
// router that decodes them and sends each command to its session, and a writer
// that turns responses and events into lines, in the order they arrive.
package conn
