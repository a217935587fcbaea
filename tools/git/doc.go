// Package git gives tasks a copy of a working tree to work in, and brings what
// they did back, without ever taking the user's own work into its hands: no
// stash, no checkout, nothing in his .git but what branch mode asks for.
//
// A [Workspaces] serves a process. For one isolated task, in this order:
//
//	Check      says whether the directory can be isolated at all, before anything starts
//	Prepare    a private clone that borrows the repository's objects, with all
//	           that is not committed in it; the value it returns is for a log
//	Capture    what the task changed, as a tree and a patch file; any number of times
//	Plan       the merge, computed in the object database; a conflict ends it here
//	Apply      writes a plan into the user's tree: all of it, or nothing
//	Recover    after a crash in Apply, finishes or undoes it
//	Remove     the workspace
//
// The caller writes the plan into its log between Plan and Apply, and that it
// was applied afterwards: with the files beside the workspace that is the journal.
// Apply answers [ErrMoved] when the user changed what it was about to write; the
// caller plans again. A [Workspace] can be found again by its directory ([Workspaces.Open]),
// and what killed processes left behind is swept ([Workspaces.Sweep]).
//
// Layout below the base directory:
//
//	<repository>/lock                       one merge at a time
//	<repository>/<session>-<id>/owner.json  who it belongs to; locked while that lives
//	<repository>/<session>-<id>/tree        where the task works
//	<repository>/<session>-<id>/merge       journal of a merge: old and new files
//	<repository>/<session>-<call>.base/<n>  snapshot that the tasks of one call share: a git
//	                                        directory for the repository and for each nested one
//
// git is run as its binary, at least 2.32, so that attributes, filters, LFS and
// sparse checkouts mean what they mean to the user's own git. No command runs
// his hooks, asks anything, or outlives its session.
package git
