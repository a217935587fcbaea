// Package harness runs the whole daemon in fake time for the tests below actors/scenario: the real
// actors, with a client, models, tools and a disk of package actortest.
//
// A test runs in a bubble of [testing/synctest]:
//
//	harness.Bubble(t, func(t *testing.T) {
//		c := harness.Start(t)
//		c.Run("", "~a~ rounds=2") // the default session; the prompt directs its model
//		c.Check()                 // ends the daemon and judges the whole history
//	})
//
// The text of a prompt directs the model and its tools; see [actortest.Models]. A mark such as ~a~
// stands in all texts of one session, so that [Client.Judge] finds text that appears in another
// one.
//
// Packages of tests declare
//
//	func TestMain(m *testing.M) { harness.Main(m) }
package harness
