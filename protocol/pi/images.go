package pi

import (
	"encoding/base64"
	"fmt"
	"strings"

	"troupe/protocol"

	"github.com/tidwall/gjson"
)

// decodeImages reads both wire forms of a picture into the flat one.
func decodeImages(v gjson.Result) ([]protocol.Image, *protocol.Error) {
	if !v.IsArray() {
		return nil, protocol.CodeInvalidParams.Errorf("images must be an array")
	}
	var images []protocol.Image
	for i, item := range v.Array() {
		img, why := decodeImage(item)
		if why != "" {
			return nil, protocol.CodeInvalidParams.Errorf("Invalid image at index %d: %s", i, why)
		}
		images = append(images, img)
	}
	return images, nil
}

// dataURL begins a URL that is the data itself.
const dataURL = "data:"

func decodeImage(v gjson.Result) (img protocol.Image, why string) {
	if !v.IsObject() {
		return img, "not an object"
	}
	if kind := v.Get("type"); kind.String() != "image" {
		return img, fmt.Sprintf("type %q is not image", kind.String())
	}
	bytes := "data" // the member that has them
	if src := v.Get("source"); src.Exists() {
		switch kind := src.Get("type").String(); kind {
		case "base64":
			v = src
		case "url":
			v, bytes = src, "url"
		default:
			return img, fmt.Sprintf("unknown source type %q", kind)
		}
	} else if !v.Get("data").Exists() && v.Get("url").Exists() {
		bytes = "url"
	}
	if bytes == "url" && !strings.HasPrefix(v.Get("url").String(), dataURL) {
		return img, "URLs are not fetched; send the data"
	}
	for _, name := range []string{"mimeType", "mediaType", "media_type"} {
		if m := v.Get(name); m.Type == gjson.String && img.MimeType == "" {
			img.MimeType = strings.Clone(m.Str)
		}
	}
	data := v.Get(bytes)
	if data.Type != gjson.String || data.Str == "" {
		return img, "missing data"
	}
	img.Data = data.Str
	if rest, ok := strings.CutPrefix(img.Data, dataURL); ok {
		mime, payload, found := strings.Cut(rest, ";base64,")
		if !found {
			return img, "data URL without base64"
		}
		img.Data = payload
		if img.MimeType == "" {
			mime, _, _ = strings.Cut(mime, ";") // without its parameters
			img.MimeType = strings.Clone(mime)
		}
	}
	if img.MimeType == "" {
		return img, "missing mimeType"
	}
	if !strings.HasPrefix(img.MimeType, "image/") {
		return img, fmt.Sprintf("mimeType %q is not an image", img.MimeType)
	}
	img.Data = strings.Clone(img.Data)
	if _, err := base64.StdEncoding.DecodeString(img.Data); err != nil {
		return img, "data is not base64"
	}
	return img, ""
}
