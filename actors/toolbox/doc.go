// Package toolbox is the tools of a session, whoever runs them. A [Runner] offers
// tools and carries out calls of them; a [Box] is the runners of one session. The
// machine knows only that a call starts, makes progress and ends.
package toolbox
