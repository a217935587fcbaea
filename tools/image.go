package tools

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // decoder
	"image/jpeg"
	"image/png"
	"io"
	"slices"

	_ "golang.org/x/image/bmp" // decoder
	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // decoder

	"troupe/protocol"
)

const (
	sniffBytes = 4100

	maxImageSide   = 2000    // pixels
	maxImageBytes  = 4718592 // of base64
	minImageSide   = 100     // pixels; not made smaller than that
	maxImagePixels = 50_000_000
	maxImageFile   = 64 << 20
)

// sniffImage is the media type of an image, by its first bytes, or "".
func sniffImage(head []byte) string {
	is := func(at int, magic string) bool {
		return len(head) >= at+len(magic) && string(head[at:at+len(magic)]) == magic
	}
	switch {
	case is(0, "\xff\xd8\xff"):
		return "image/jpeg"
	case is(0, "\x89PNG\r\n\x1a\n"):
		return "image/png"
	case is(0, "GIF87a"), is(0, "GIF89a"):
		return "image/gif"
	case is(0, "RIFF") && is(8, "WEBP"):
		return "image/webp"
	case is(0, "BM") && is(6, "\x00\x00\x00\x00") && isBitmapHeader(head):
		return "image/bmp"
	}
	return ""
}

// isBitmapHeader tells a bitmap from a text that begins with BM.
func isBitmapHeader(head []byte) bool {
	return len(head) >= 18 &&
		slices.Contains([]uint32{12, 40, 52, 56, 64, 108, 124}, binary.LittleEndian.Uint32(head[14:]))
}

// readImage is the result of reading an image file.
func readImage(ctx context.Context, env *Env, mime string, r io.Reader, size int64) (result protocol.ToolResult, err error) {
	text := "Image file (" + mime + ")"
	if size > maxImageFile {
		text += fmt.Sprintf("\n[It is %s, too large to be shown: make a smaller copy]", protocol.FormatSize(size))
		return protocol.ToolResult{Content: protocol.TextContent(text)}, nil
	}
	data, err := io.ReadAll(io.LimitReader(r, maxImageFile))
	if err != nil {
		return result, fmt.Errorf("read image: %w", err)
	}
	shown, note, err := picture{mime, data}.forModel(ctx, env.AutoResize)
	if err == nil && len(shown.data) == len(data) {
		err = shown.check(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return result, errAborted
	case errors.Is(err, errBroken):
		note = "It cannot be shown, its data is damaged: " + err.Error()
		fallthrough
	case err != nil:
		return protocol.ToolResult{Content: protocol.TextContent(text + "\n[" + note + "]")}, nil
	}
	if note != "" {
		text += "\n[" + note + "]"
	}
	return protocol.ToolResult{Content: protocol.Content{protocol.Text{Text: text}, shown.block()}, Details: unsupportedDetails(env.TextOnly)}, nil
}

// unsupportedDetails tells clients, as in pi 1.6, that the selected model does not get the image. The
// content has no word of it: the result may be sent to another model later. Each request to a model
// without images has a placeholder instead.
func unsupportedDetails(model string) json.RawMessage {
	if model == "" {
		return nil
	}
	return append(protocol.AppendString([]byte(`{"imageUnsupportedByModel":`), model), '}')
}

// ResizeImage makes an image fit for models: at most 2000 by 2000 pixels and
// 4.5 MiB, in a format they take. The note, if not empty, tells the model what
// was changed. An image that fits, or that cannot be decoded, comes back as it
// is.
func ResizeImage(img protocol.Image) (_ protocol.Image, note string) {
	data, err := base64.StdEncoding.DecodeString(img.Data)
	if err != nil {
		return img, ""
	}
	original := picture{img.MimeType, data}
	if mime := sniffImage(data); mime != "" { // some clients do not know better
		original.mime, img.MimeType = mime, mime
	}
	shown, note, err := original.forModel(context.Background(), true)
	if err != nil {
		return img, note
	}
	return shown.block(), note
}

// picture is an encoded image.
type picture struct {
	mime string
	data []byte
}

func (p picture) block() protocol.Image {
	return protocol.Image{Data: base64.StdEncoding.EncodeToString(p.data), MimeType: p.mime}
}

var (
	errTooManyPixels = errors.New("too many pixels")
	errBroken        = errors.New("not an image")
)

// damage is errBroken with the cause, nil for an image that is only beyond our
// decoders: models may know better. One that nobody can decode must not get
// into a conversation, for providers refuse every request that has it.
func damage(err error) error {
	if err == nil || errors.As(err, new(png.UnsupportedError)) || errors.As(err, new(jpeg.UnsupportedError)) {
		return nil
	}
	return fmt.Errorf("%w: %w", errBroken, err)
}

// check decodes a picture that is small enough for that, to see that all of it
// is there.
func (p picture) check(ctx context.Context) error {
	cfg, _, err := image.DecodeConfig(bytes.NewReader(p.data))
	if err != nil || p.mime == "image/webp" || int64(cfg.Width)*int64(cfg.Height) > maxImagePixels { // of webp, our decoder knows only some
		return damage(err)
	}
	release, err := startResizing(ctx)
	if err != nil {
		return err
	}
	defer release()
	_, _, err = image.Decode(bytes.NewReader(p.data))
	return damage(err)
}

// forModel returns the picture as a model should get it. The error is ctx's,
// errBroken, or errTooManyPixels, which the note words then.
func (p picture) forModel(ctx context.Context, resize bool) (_ picture, note string, err error) {
	cfg, _, err := image.DecodeConfig(bytes.NewReader(p.data))
	if err != nil {
		return p, "", damage(err)
	}
	convert := p.mime == "image/bmp" // no model takes it
	small := cfg.Width <= maxImageSide && cfg.Height <= maxImageSide &&
		base64.StdEncoding.EncodedLen(len(p.data)) <= maxImageBytes
	if !convert && (small || !resize) {
		return p, "", nil
	}
	if int64(cfg.Width)*int64(cfg.Height) > maxImagePixels {
		return p, fmt.Sprintf("It has %dx%d pixels, too many to be shown: make a smaller copy", cfg.Width, cfg.Height),
			errTooManyPixels
	}
	release, err := startResizing(ctx)
	if err != nil {
		return p, "", err
	}
	defer release()
	return p.shrink(ctx)
}

var resizing = make(chan struct{}, 1)

// startResizing waits for its turn. One at a time: a large picture takes some
// hundred MB while it is worked on.
func startResizing(ctx context.Context) (release func(), err error) {
	select {
	case resizing <- struct{}{}:
		return func() { <-resizing }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// shrink decodes the picture and encodes it so that it fits.
func (p picture) shrink(ctx context.Context) (_ picture, note string, err error) {
	img, _, err := image.Decode(bytes.NewReader(p.data))
	if err != nil {
		return p, "", damage(err)
	}
	turn := upright
	if p.mime == "image/jpeg" {
		turn = exifOrientation(p.data)
	}
	w, h := within(img.Bounds().Dx(), img.Bounds().Dy(), maxImageSide)
	full := turn.apply(scale(img, w, h))
	original := turn.size(img.Bounds().Size())
	steps := ladder{limit: maxImageBytes}
	// A photo does not get smaller as PNG, nor a PNG by encoding it once more.
	if steps.try(encodeJPEG(full, 80)); p.mime != "image/jpeg" && (p.mime != "image/png" || full.Rect.Size() != original) {
		steps.try(encodePNG(full))
	}
	if err := steps.descend(ctx, full); err != nil {
		return p, "", err
	}
	size := steps.best.size
	if size != original {
		note = fmt.Sprintf("Shown at %dx%d pixels, %dx%d in the file: multiply coordinates by %.2f to map them to it",
			size.X, size.Y, original.X, original.Y, float64(original.X)/float64(size.X))
	}
	return steps.best.picture, note, nil
}

// encoded is a picture and its size in pixels.
type encoded struct {
	picture
	size image.Point
}

// ladder tries encodings of an image until one fits, and keeps the smallest.
type ladder struct {
	limit int // of bytes in base64
	best  encoded
}

func (l *ladder) try(e encoded) {
	if l.best.data == nil || len(e.data) < len(l.best.data) {
		l.best = e
	}
}

func (l *ladder) fits() bool {
	return l.best.data != nil && base64.StdEncoding.EncodedLen(len(l.best.data)) <= l.limit
}

// descend tries less and less quality and then less and less pixels.
func (l *ladder) descend(ctx context.Context, img *image.RGBA) error {
	size := img.Bounds().Size()
	for _, percent := range []int{100, 75, 50, 35, 25} {
		w, h := size.X*percent/100, size.Y*percent/100
		if l.fits() || (percent < 100 && min(w, h) < minImageSide) {
			break
		}
		scaled := scale(img, w, h)
		for _, quality := range []int{85, 70, 55, 40} {
			if l.fits() {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			l.try(encodeJPEG(scaled, quality))
		}
	}
	return nil
}

// encodeJPEG puts the image on white: JPEG knows no transparency.
func encodeJPEG(img *image.RGBA, quality int) encoded {
	if !img.Opaque() {
		flat := image.NewRGBA(img.Bounds())
		draw.Draw(flat, flat.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
		draw.Draw(flat, flat.Bounds(), img, img.Bounds().Min, draw.Over)
		img = flat
	}
	var b bytes.Buffer
	jpeg.Encode(&b, img, &jpeg.Options{Quality: quality}) // a Buffer takes everything
	return encoded{picture{"image/jpeg", b.Bytes()}, img.Bounds().Size()}
}

func encodePNG(img *image.RGBA) encoded {
	var b bytes.Buffer
	png.Encode(&b, img) // a Buffer takes everything
	return encoded{picture{"image/png", b.Bytes()}, img.Bounds().Size()}
}

// within scales a size down until no side is longer than limit.
func within(w, h, limit int) (int, int) {
	if long := max(w, h); long > limit {
		w, h = max((w*limit+long/2)/long, 1), max((h*limit+long/2)/long, 1)
	}
	return w, h
}

// scale resamples to w by h pixels. What is at least twice as large is halved
// first: the memory of the good filter grows with the height of its source.
func scale(src image.Image, w, h int) *image.RGBA {
	for src.Bounds().Dx() >= 2*w && src.Bounds().Dy() >= 2*h {
		src = scaleWith(draw.ApproxBiLinear, src, (src.Bounds().Dx()+1)/2, (src.Bounds().Dy()+1)/2)
	}
	if rgba, ok := src.(*image.RGBA); ok && rgba.Bounds() == image.Rect(0, 0, w, h) {
		return rgba
	}
	return scaleWith(draw.CatmullRom, src, w, h)
}

func scaleWith(s draw.Scaler, src image.Image, w, h int) *image.RGBA {
	dst := image.NewRGBA(image.Rect(0, 0, w, h))
	s.Scale(dst, dst.Bounds(), src, src.Bounds(), draw.Src, nil)
	return dst
}
