// Package git gives tasks a copy of a working tree to work in, and brings what
// they did back, without ever taking the user's own work into its hands: no
// stash, no checkout, nothing in his .git but what branch mode asks for.
//
// A [Workspaces] serves a process. For one isolated task, in this order:
//
//	Check      says whether the directory can be isolated at all, before anything starts
//	Prepare    a private clone that borrows the repository's objects, with all
//	           that is not committed in it
//	Capture    what the task changed, as trees and a patch file; any number of times
//	           (Mark after checks, so that what they wrote does not count)
//	Plan       the merge, computed in the object database; a conflict ends it here
//	Apply      writes a plan into the user's tree: all of it, or nothing
//	Merged     once the caller's log says so
//	Remove     the workspace; or Keep, for somebody to look at; EndCall after the last
//
// What Prepare, Capture and Plan return are plain values for a log. The caller
// writes the plan into its log between Plan and Apply, and that it was applied
// afterwards. [ErrMoved] from Apply says that the user changed what it was about
// to write: plan again. After a crash [Workspaces.Open] finds a workspace by its
// directory, and [Workspaces.Recover] finishes or undoes its merge; what nobody
// comes back for is swept ([Workspaces.Sweep]). A plan of a workspace on a branch
// moves the user's branch; [Workspaces.Surface] gives him one instead.
//
// Layout below the base directory:
//
//	<repository>/lock                       one merge at a time
//	<repository>/<session>-<id>/owner.json  who it belongs to; locked while that lives
//	<repository>/<session>-<id>/tree        where the task works
//	<repository>/<session>-<id>/merge       journal of a merge: old and new files
//	<repository>/<session>-<call>-*.base/<n>  snapshot that the tasks of one call share: a git
//	                                          directory for the repository and for each nested one
//
// git is run as its binary, at least 2.32, so that attributes, filters, LFS and
// sparse checkouts mean what they mean to the user's own git. No command runs
// his hooks, asks anything, or outlives its session.
package git
