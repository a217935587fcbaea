package store

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// imagesOf lists the pictures of an entry's message in their order.
func imagesOf(entry []byte) (images []gjson.Result) {
	content := gjson.GetBytes(entry, "message.content")
	if !content.Exists() {
		content = gjson.GetBytes(entry, "content")
	}
	if !content.IsArray() {
		return nil
	}
	content.ForEach(func(_, block gjson.Result) bool {
		if block.Get("type").Str == "image" && block.Get("data").Type == gjson.String {
			images = append(images, block)
		}
		return true
	})
	return images
}

// ImageRefs is an entry with the addresses of its pictures instead of their data: ref is
// prefix, the entry's id and the number of the picture, bytes how large it is. An entry
// without pictures is returned as it is.
func ImageRefs(entry json.RawMessage, prefix string) json.RawMessage {
	if !bytes.Contains(entry, []byte(`"image"`)) {
		return entry
	}
	images := imagesOf(entry)
	if len(images) == 0 {
		return entry
	}
	id := gjson.GetBytes(entry, "id").Str
	out, from := make([]byte, 0, len(entry)/2), 0
	for n, block := range images {
		o := protocol.OpenObject(nil)
		o.Str("type", "image")
		o.Str("mimeType", block.Get("mimeType").Str)
		o.Str("ref", prefix+id+"/"+strconv.Itoa(n))
		o.Int("bytes", int64(decodedLen(block.Get("data").Str)))
		out = append(append(out, entry[from:block.Index]...), o.Close()...)
		from = block.Index + len(block.Raw)
	}
	return append(out, entry[from:]...)
}

// decodedLen is how many bytes a text in base64 stands for.
func decodedLen(text string) int {
	n := len(text) / 4 * 3
	for end := len(text) - 1; end >= 0 && end >= len(text)-2 && text[end] == '='; end-- {
		n--
	}
	return n
}

// Image is a picture of an entry, in base64. [ErrNoEntry] says that there is no such entry,
// or no such picture in it.
func (v View) Image(id string, n int) (mimeType, data string, err error) {
	i, err := v.lookup(id)
	if err != nil {
		return "", "", err
	}
	if i == none || v.slots[i].kind.isOwn() {
		return "", "", noEntry(id)
	}
	for l, err := range v.lines([]int32{i}) {
		if err != nil {
			return "", "", err
		}
		if images := imagesOf(l.wire()); n < len(images) {
			return images[n].Get("mimeType").Str, images[n].Get("data").Str, nil
		}
	}
	return "", "", noEntry(id)
}
