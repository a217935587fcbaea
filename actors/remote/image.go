package remote

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// imagePath is where pictures are, by their ref.
const imagePath = "/v1/image/"

// imageTypes hold pixels and nothing else: what a browser may show.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// image answers with a picture of a session's entry, which never changes.
func (s *Server) image(w http.ResponseWriter, r *http.Request, by who) {
	within(w, rpcPatience, rpcPatience+writePatience)
	ref := strings.Split(strings.TrimPrefix(r.URL.Path, imagePath), "/")
	index := -1
	if len(ref) == 3 {
		if n, err := strconv.Atoi(ref[2]); err == nil {
			index = n
		}
	}
	if index < 0 {
		s.refuse(w, r, http.StatusNotFound, "that is no picture")
		return
	}
	ask, _ := json.Marshal(map[string]any{"id": "image", "type": "get_image", "sessionId": ref[0], "entryId": ref[1], "index": index}) // of texts and a number
	by.scope = ScopeView
	var answer gjson.Result
	if !s.ask(r, by, append(ask, '\n'), func(line []byte) bool {
		v := gjson.ParseBytes(line)
		if v.Get("id").Str != "image" {
			return false
		}
		answer = gjson.ParseBytes(append([]byte(nil), line...))
		return true
	}) {
		s.refuse(w, r, http.StatusGatewayTimeout, "the session does not answer")
		return
	}
	mimeType := strings.ToLower(answer.Get("data.mimeType").Str)
	data, err := base64.StdEncoding.DecodeString(answer.Get("data.data").Str)
	switch {
	case !answer.Get("success").Bool():
		status := http.StatusNotFound
		if code := answer.Get("code").Str; code != "not_found" && code != "unknown_session" && code != "invalid_params" {
			status = http.StatusInternalServerError
		}
		s.refuse(w, r, status, answer.Get("error").Str)
		return
	case err != nil || !slices.Contains(imageTypes, mimeType):
		s.refuse(w, r, http.StatusUnsupportedMediaType, "not a picture that is shown")
		return
	}
	h := w.Header()
	h.Set("Content-Type", mimeType)
	h.Set("Content-Length", strconv.Itoa(len(data)))
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	_, _ = w.Write(data)
}

// ask says a few lines as a client of its own, which hears until it has had enough. False:
// it has not, in the time that there is.
func (s *Server) ask(r *http.Request, by who, lines []byte, hear func(line []byte) (enough bool)) bool {
	q := newRequest(s.visitor("request of "+r.RemoteAddr, by), bytes.NewReader(lines), hear)
	ended := s.begin(by, q)
	limit := time.NewTimer(rpcPatience)
	defer limit.Stop()
	select {
	case <-q.over:
	case <-r.Context().Done():
	case <-limit.C:
	}
	q.stop()
	q.mu.Lock()
	enough := q.ended
	q.ended = true
	q.mu.Unlock()
	<-ended
	return enough
}
