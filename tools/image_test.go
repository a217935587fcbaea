package tools

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/image/bmp"

	"troupe/protocol"
)

// quarters is a picture with a color of its own in each corner.
func quarters(w, h int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for i, c := range cornerColors {
		corner := image.Rect(0, 0, w/2, h/2).Add(image.Pt(i%2*w/2, i/2*h/2))
		draw.Draw(img, corner, image.NewUniform(c), image.Point{}, draw.Src)
	}
	return img
}

var cornerColors = [4]color.RGBA{{255, 0, 0, 255}, {0, 255, 0, 255}, {0, 0, 255, 255}, {255, 255, 255, 255}}

// corners reads the picture back: which color is in which corner.
func corners(t *testing.T, img image.Image) (found [4]int) {
	b := img.Bounds()
	for i := range found {
		x, y := b.Min.X+b.Dx()/4+i%2*b.Dx()/2, b.Min.Y+b.Dy()/4+i/2*b.Dy()/2
		r, g, bl, _ := img.At(x, y).RGBA()
		found[i] = -1
		for j, c := range cornerColors {
			if near(r, c.R) && near(g, c.G) && near(bl, c.B) {
				found[i] = j
			}
		}
		require.NotEqual(t, -1, found[i], "%v", img.At(x, y))
	}
	return found
}

func near(have uint32, want uint8) bool {
	d := int(have>>8) - int(want)
	return -24 < d && d < 24
}

func noise(w, h int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	rand.NewChaCha8([32]byte{}).Read(img.Pix)
	for i := 3; i < len(img.Pix); i += 4 {
		img.Pix[i] = 255 // opaque
	}
	return img
}

func encodeAs(t testing.TB, mime string, img image.Image) []byte {
	var b bytes.Buffer
	var err error
	switch mime {
	case "image/png":
		err = png.Encode(&b, img)
	case "image/jpeg":
		err = jpeg.Encode(&b, img, &jpeg.Options{Quality: 95})
	case "image/gif":
		err = gif.Encode(&b, img, nil)
	case "image/bmp":
		err = bmp.Encode(&b, img)
	}
	require.NoError(t, err)
	return b.Bytes()
}

// webpPixel is a lossless WebP of one pixel.
var webpPixel = []byte("RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00")

// imageOf reads a result with a text and an image block.
func imageOf(t *testing.T, r protocol.ToolResult) (text string, block protocol.Image, img image.Image) {
	require.Len(t, r.Content, 2)
	block = r.Content[1].(protocol.Image)
	data, err := base64.StdEncoding.DecodeString(block.Data)
	require.NoError(t, err)
	img, _, err = image.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	return r.Content[0].(protocol.Text).Text, block, img
}

func TestReadImage(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for mime, data := range map[string][]byte{
		"image/png":  encodeAs(t, "image/png", quarters(40, 20)),
		"image/jpeg": encodeAs(t, "image/jpeg", quarters(40, 20)),
		"image/gif":  encodeAs(t, "image/gif", quarters(40, 20)),
		"image/webp": webpPixel,
	} {
		put(t, env, "picture.txt", string(data)) // the name says nothing
		text, result, err := run(t, env, "read", object{"path": "picture.txt"})
		require.NoError(t, err)
		assert.Equal(t, "Image file ("+mime+")", text)
		_, block, _ := imageOf(t, result)
		assert.Equal(t, protocol.Image{Data: base64.StdEncoding.EncodeToString(data), MimeType: mime}, block, "untouched")
		assert.Nil(t, result.Details)
	}
	put(t, env, "b", string(encodeAs(t, "image/bmp", quarters(40, 20))))
	_, result, err := run(t, env, "read", object{"path": "b"})
	require.NoError(t, err)
	text, block, img := imageOf(t, result)
	assert.Equal(t, "Image file (image/bmp)", text)
	assert.NotEqual(t, "image/bmp", block.MimeType, "models do not take it")
	assert.Equal(t, [4]int{0, 1, 2, 3}, corners(t, img))
	env.TextOnly = "text-\"1\""
	text, result, err = run(t, env, "read", object{"path": "b"})
	require.NoError(t, err)
	assert.Equal(t, "Image file (image/bmp)", text, "a model that takes images may get it later")
	assert.JSONEq(t, `{"imageUnsupportedByModel":"text-\"1\""}`, string(result.Details))
	assert.Len(t, result.Content, 2)
}

func TestReadLargeImage(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	put(t, env, "wide", string(encodeAs(t, "image/png", quarters(5000, 100))))
	_, result, err := run(t, env, "read", object{"path": "wide"})
	require.NoError(t, err)
	text, _, img := imageOf(t, result)
	assert.Equal(t, "Image file (image/png)\n[Shown at 2000x40 pixels, 5000x100 in the file: multiply coordinates by 2.50 to map them to it]", text)
	assert.Equal(t, image.Pt(2000, 40), img.Bounds().Size())
	assert.Equal(t, [4]int{0, 1, 2, 3}, corners(t, img))
	env.AutoResize = false
	_, result, err = run(t, env, "read", object{"path": "wide"})
	require.NoError(t, err)
	text, block, _ := imageOf(t, result)
	assert.Equal(t, "Image file (image/png)", text)
	assert.Equal(t, base64.StdEncoding.EncodeToString([]byte(get(t, env, "wide"))), block.Data)
}

// Many bytes on few pixels: less quality before less pixels.
func TestReadHeavyImage(t *testing.T) {
	t.Parallel()
	data := encodeAs(t, "image/png", noise(1150, 1050))
	require.Greater(t, base64.StdEncoding.EncodedLen(len(data)), maxImageBytes)
	shown, note := ResizeImage(protocol.Image{Data: base64.StdEncoding.EncodeToString(data), MimeType: "image/png"})
	assert.Equal(t, "image/jpeg", shown.MimeType)
	assert.LessOrEqual(t, len(shown.Data), maxImageBytes)
	assert.Empty(t, note, "all pixels are there")
}

// Quality goes first, then pixels, but not below 100.
func TestLadder(t *testing.T) {
	t.Parallel()
	img := noise(240, 240)
	sizes := func(limit int) encoded {
		l := ladder{limit: limit}
		require.NoError(t, l.descend(t.Context(), img))
		return l.best
	}
	best := sizes(1 << 30)
	assert.Equal(t, encodeJPEG(img, 85), best, "the first that fits")
	smaller := sizes(base64.StdEncoding.EncodedLen(len(best.data)) - 1)
	assert.Equal(t, encodeJPEG(img, 70), smaller)
	lowest := encodeJPEG(img, 40)
	assert.Equal(t, lowest, sizes(base64.StdEncoding.EncodedLen(len(lowest.data))))
	assert.Equal(t, image.Pt(180, 180), sizes(base64.StdEncoding.EncodedLen(len(lowest.data))-1).size)
	assert.Equal(t, encodeJPEG(scale(img, 120, 120), 40), sizes(0), "none fits: the smallest")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := ladder{}
	assert.ErrorIs(t, l.descend(ctx, img), context.Canceled)
}

func TestResizeImage(t *testing.T) {
	t.Parallel()
	small := encodeAs(t, "image/png", quarters(10, 10))
	in := protocol.Image{Data: base64.StdEncoding.EncodeToString(small), MimeType: "image/jpeg"}
	out, note := ResizeImage(in)
	assert.Equal(t, protocol.Image{Data: in.Data, MimeType: "image/png"}, out, "the type is what it is")
	assert.Empty(t, note)
	for _, bad := range []string{"", "not base64!", base64.StdEncoding.EncodeToString([]byte("not an image"))} {
		in := protocol.Image{Data: bad, MimeType: "image/png"}
		out, note := ResizeImage(in)
		assert.Equal(t, in, out)
		assert.Empty(t, note)
	}
	large := protocol.Image{Data: base64.StdEncoding.EncodeToString(encodeAs(t, "image/jpeg", quarters(210, 4200))), MimeType: "image/jpeg"}
	out, note = ResizeImage(large)
	assert.Equal(t, "Shown at 100x2000 pixels, 210x4200 in the file: multiply coordinates by 2.10 to map them to it", note)
	assert.Equal(t, "image/jpeg", out.MimeType)
	assert.Less(t, len(out.Data), len(large.Data))
}

// bomb is a PNG that says it has w by h pixels.
func bomb(t *testing.T, w, h uint32) []byte {
	data := encodeAs(t, "image/png", quarters(4, 4))
	binary.BigEndian.PutUint32(data[16:], w)
	binary.BigEndian.PutUint32(data[20:], h)
	binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
	return data
}

func TestReadDamagedImage(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	jpg := encodeAs(t, "image/jpeg", quarters(400, 200))
	for name, data := range map[string]string{
		"head":  "\x89PNG\r\n\x1a\nnothing",
		"empty": string(bomb(t, 0, 0)),
		"half":  string(jpg[:len(jpg)/2]),
		"webp":  string(webpPixel[:16]),
	} {
		put(t, env, name, data)
		text, result, err := run(t, env, "read", object{"path": name})
		require.NoError(t, err, name)
		assert.Contains(t, text, "its data is damaged", name)
		assert.Len(t, result.Content, 1, name)
	}
}

func TestImageBombs(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	put(t, env, "bomb", string(bomb(t, 60_000, 60_000)))
	text, result, err := run(t, env, "read", object{"path": "bomb"})
	require.NoError(t, err)
	assert.Equal(t, "Image file (image/png)\n[It has 60000x60000 pixels, too many to be shown: make a smaller copy]", text)
	assert.Len(t, result.Content, 1)
	in := protocol.Image{Data: base64.StdEncoding.EncodeToString(bomb(t, 60_000, 60_000)), MimeType: "image/png"}
	out, note := ResizeImage(in)
	assert.Equal(t, in, out)
	assert.Contains(t, note, "too many to be shown")
	put(t, env, "broken", string(bomb(t, 5000, 5000))) // may be decoded, cannot
	text, result, err = run(t, env, "read", object{"path": "broken"})
	require.NoError(t, err)
	assert.Contains(t, text, "Image file (image/png)\n[It cannot be shown, its data is damaged: ")
	assert.Len(t, result.Content, 1, "a provider would refuse every request that has it")
	sparse(t, env, maxImageFile+1, map[int64]string{0: string(bomb(t, 10, 10))})
	text, _, err = run(t, env, "read", object{"path": "huge"})
	require.NoError(t, err)
	assert.Equal(t, "Image file (image/png)\n[It is 64.0MB, too large to be shown: make a smaller copy]", text)
}

func TestReadImageAborted(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	put(t, env, "wide", string(encodeAs(t, "image/png", quarters(3000, 30))))
	ctx, cancel := context.WithCancel(t.Context())
	resizing <- struct{}{} // somebody else is at it
	done := make(chan error, 1)
	go func() {
		_, err := New().Run(ctx, "read", Call{Args: json.RawMessage(`{"path":"wide"}`), Env: env})
		done <- err
	}()
	cancel()
	assert.EqualError(t, <-done, "Operation aborted")
	<-resizing
}

func TestSniffImage(t *testing.T) {
	t.Parallel()
	for head, want := range map[string]string{
		"": "", "\xff\xd8": "", "\xff\xd8\xff\xe0": "image/jpeg", "\x89PNG\r\n\x1a\n": "image/png", "\x89PNG\n": "",
		"GIF89a": "image/gif", "GIF87a...": "image/gif", "GIF88a": "", "RIFF....WEBP": "image/webp", "RIFF....WAVE": "",
		"BM is how this text begins, nothing else":                                   "",
		"BM\x46\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00\x01\x00": "image/bmp",
		"BM\x46\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x29\x00\x00\x00\x01\x00": "",
		"BM\x46\x00\x00\x00\x00\x00\x00\x00":                                         "",
		"<svg>":                                                                      "",
	} {
		assert.Equal(t, want, sniffImage([]byte(head)), "%q", head)
	}
}

// withOrientation puts an EXIF block into a JPEG.
func withOrientation(data []byte, o orientation, order binary.AppendByteOrder, mark string) []byte {
	tiff := order.AppendUint16([]byte(mark), 42)
	tiff = order.AppendUint32(tiff, 8)
	tiff = order.AppendUint16(tiff, 2)
	for _, entry := range [][2]uint16{{0x0100, 7}, {0x0112, uint16(o)}} {
		tiff = order.AppendUint16(tiff, entry[0])
		tiff = order.AppendUint16(tiff, 3)
		tiff = order.AppendUint32(tiff, 1)
		tiff = order.AppendUint16(tiff, entry[1])
		tiff = order.AppendUint16(tiff, 0)
	}
	block := append([]byte("Exif\x00\x00"), tiff...)
	out := append([]byte{}, data[:2]...)
	out = append(out, 0xff, 0xff, 0xe1) // with padding
	out = binary.BigEndian.AppendUint16(out, uint16(2+len(block)))
	out = append(out, block...)
	return append(out, data[2:]...)
}

func TestExifOrientation(t *testing.T) {
	t.Parallel()
	plain := encodeAs(t, "image/jpeg", quarters(2400, 120))
	assert.Equal(t, upright, exifOrientation(plain))
	for o, want := range map[orientation][4]int{
		1: {0, 1, 2, 3}, 2: {1, 0, 3, 2}, 3: {3, 2, 1, 0}, 4: {2, 3, 0, 1},
		5: {0, 2, 1, 3}, 6: {2, 0, 3, 1}, 7: {3, 1, 2, 0}, 8: {1, 3, 0, 2},
		0: {0, 1, 2, 3}, 9: {0, 1, 2, 3},
	} {
		for order, mark := range map[binary.AppendByteOrder]string{binary.BigEndian: "MM", binary.LittleEndian: "II"} {
			require.Equal(t, o, exifOrientation(withOrientation(plain, o, order, mark)))
		}
		turned := o.apply(quarters(24, 12))
		assert.Equal(t, want, corners(t, turned), "orientation %d", o)
		assert.Equal(t, o.size(image.Pt(24, 12)), turned.Bounds().Size())
	}
	data := withOrientation(plain, 6, binary.BigEndian, "MM")
	shown, note := ResizeImage(protocol.Image{Data: base64.StdEncoding.EncodeToString(data), MimeType: "image/jpeg"})
	assert.Equal(t, "Shown at 100x2000 pixels, 120x2400 in the file: multiply coordinates by 1.20 to map them to it", note)
	decoded, err := base64.StdEncoding.DecodeString(shown.Data)
	require.NoError(t, err)
	img, _, err := image.Decode(bytes.NewReader(decoded))
	require.NoError(t, err)
	assert.Equal(t, [4]int{2, 0, 3, 1}, corners(t, img))
}

// Whatever follows the first bytes, looking for the orientation does not panic.
func TestExifOrientationOfRubbish(t *testing.T) {
	t.Parallel()
	good := withOrientation(encodeAs(t, "image/jpeg", quarters(8, 8)), 6, binary.BigEndian, "MM")
	for n := range good {
		exifOrientation(good[:n])
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		bad := append([]byte{}, good[:60]...)
		for range 1 + random.IntN(4) {
			bad[random.IntN(len(bad))] = byte(random.Uint32())
		}
		exifOrientation(bad)
	}
}

func TestTransparencyBecomesWhite(t *testing.T) {
	t.Parallel()
	img := image.NewRGBA(image.Rect(0, 0, 8, 8))
	decoded, err := jpeg.Decode(bytes.NewReader(encodeJPEG(img, 90).data))
	require.NoError(t, err)
	r, g, b, _ := decoded.At(4, 4).RGBA()
	assert.True(t, near(r, 255) && near(g, 255) && near(b, 255))
}

func TestWithin(t *testing.T) {
	t.Parallel()
	for _, c := range [][4]int{{10, 20, 10, 20}, {4000, 3000, 2000, 1500}, {1, 9000, 1, 2000}, {3001, 3001, 2000, 2000}, {2001, 1000, 2000, 1000}} {
		w, h := within(c[0], c[1], 2000)
		assert.Equal(t, [2]int{c[2], c[3]}, [2]int{w, h})
	}
}

func BenchmarkResize(b *testing.B) {
	data := encodeAs(b, "image/jpeg", quarters(4000, 3000))
	p := picture{"image/jpeg", data}
	for b.Loop() {
		if _, _, err := p.forModel(b.Context(), true); err != nil {
			b.Fatal(err)
		}
	}
}
