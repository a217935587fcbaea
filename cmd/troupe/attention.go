package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors"
	"troupe/actors/conn"
	"troupe/actors/kernel"
	"troupe/actors/session"
	"troupe/protocol"
	"troupe/tools"
)

// notice is that a session wants somebody.
type notice struct {
	Session   string `json:"session"` // its durable id
	SessionID string `json:"sessionId"`
	Title     string `json:"title"`
	Kind      string `json:"kind"` // dialog, done, failed: see protocol.OpenSessionInfo
	Text      string `json:"text"` // what waits, or the beginning of the last answer
	Cwd       string `json:"cwd"`
}

// noticeEvery is how long nothing more is told of a session that somebody was told of.
const noticeEvery = 10 * time.Second

// notices decides when somebody is told of which session. The zero value knows none.
type notices map[string]*noticed

// noticed is a session that wants somebody, or has not long ago.
type noticed struct {
	of   notice
	open bool      // it is to be told
	told string    // the kind that was told, while it has been so since
	at   time.Time // when something was told
}

// hear takes how a session is now.
func (ns notices) hear(now protocol.OpenSessionInfo) {
	n := ns[now.SessionID]
	switch {
	case now.ParentSessionID != "": // it asks, and ends, in the session above it
	case now.Status == "closed":
		delete(ns, now.SessionID)
	case now.Attention == "none":
		if n != nil {
			n.open, n.told = false, ""
		}
	case n != nil && n.told == now.Attention:
	default:
		if n == nil {
			n = &noticed{}
			ns[now.SessionID] = n
		}
		text := now.LastText
		if now.Attention == "dialog" {
			text = cmp.Or(strings.Join(now.WaitingFor, ", "), text)
		}
		n.open, n.of = true, notice{now.DurableID, now.SessionID, now.Title, now.Attention, text, now.Cwd}
	}
}

// due are those of which somebody is to be told, and when there may be others.
func (ns notices) due(now time.Time) (list []notice, next time.Time) {
	for _, n := range ns {
		if !n.open {
			continue
		}
		if at := n.at.Add(noticeEvery); at.After(now) {
			if next.IsZero() || at.Before(next) {
				next = at
			}
			continue
		}
		n.open, n.told, n.at = false, n.of.Kind, now
		list = append(list, n.of)
	}
	return list, next
}

// attend has somebody told whenever a session of the daemon waits for an answer or has come
// to an end. tell is called on a goroutine of its own.
func attend(d *actors.Daemon, log zerolog.Logger, tell func(notice)) {
	var looks conn.Config
	looks.MultiSession, looks.ViewOnly, looks.Features = true, true, []string{string(protocol.FeatureSessionEvents)}
	client := d.Dial(looks)
	if _, err := client.Do(context.Background(), protocol.WatchSessions{}); err != nil {
		log.Error().Str("error", err.Message).Msg("attention notifications are unavailable")
		return
	}
	crashed := func(reason any) {
		log.Error().Interface("panic", reason).Msg("attention notification failed")
	}
	ns := notices{}
	for {
		list, next := ns.due(time.Now())
		for _, n := range list {
			kernel.Beside(func() { tell(n) }, crashed)
		}
		ctx, cancel := context.Background(), func() {}
		if !next.IsZero() {
			ctx, cancel = context.WithDeadline(ctx, next)
		}
		_, event, err := client.Next(ctx)
		cancel()
		if status, is := event.(protocol.SessionStatus); is {
			ns.hear(protocol.OpenSessionInfo(status))
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return // the daemon has ended
		}
	}
}

// attentionTime is how long the command of --on-attention may take.
const attentionTime = 10 * time.Second

// tellBy runs a command of the user's that is told of a session on its stdin. What it says
// goes to the log if it fails.
func tellBy(command string, sessions *session.Shared, log zerolog.Logger) func(notice) {
	procs := tools.NewProcs(sessions.Guard)
	return func(n notice) {
		log := log.With().Str("session", n.SessionID).Str("kind", n.Kind).Logger()
		said, err := json.Marshal(n)
		if err != nil {
			log.Warn().Err(err).Msg("--on-attention")
			return
		}
		p, err := tools.Spawn(tools.SpawnSpec{Procs: procs, Command: "/bin/sh", Args: []string{"-c", "exec 1>&2\n" + command}, Dir: sessions.Home, Env: os.Environ()})
		if err != nil {
			log.Warn().Err(err).Msg("--on-attention cannot be run")
			return
		}
		late := time.AfterFunc(attentionTime, func() { p.Kill(time.Second) })
		defer late.Stop()
		_, _ = p.Stdin.Write(append(said, '\n')) // it need not read it
		_ = p.Stdin.Close()
		_ = p.Stdout.Close()
		text, _ := io.ReadAll(io.LimitReader(p.Stderr, 4<<10))
		_, _ = io.Copy(io.Discard, p.Stderr)
		_ = p.Stderr.Close()
		<-p.Exited()
		if code, sig, err := p.End(); err != nil || code != 0 || sig != 0 {
			log.Warn().Err(err).Int("code", code).Str("signal", sig.String()).Bytes("stderr", text).Msg("--on-attention has failed")
		}
	}
}
