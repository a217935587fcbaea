package tools

import (
	"bytes"
	"encoding/binary"
	"image"
)

// orientation is how a camera was held, as EXIF numbers it. Others than 2 to 8
// are upright.
type orientation uint16

const upright orientation = 1

// exifOrientation finds the orientation in the first EXIF block of a JPEG.
// Whatever is not as it should be means upright.
func exifOrientation(data []byte) orientation {
	const app1, startOfScan = 0xe1, 0xda
	for data = data[min(2, len(data)):]; len(data) >= 4 && data[0] == 0xff && data[1] != startOfScan; {
		if data[1] == 0xff { // padding
			data = data[1:]
			continue
		}
		size := int(binary.BigEndian.Uint16(data[2:]))
		if size < 2 || 2+size > len(data) {
			break
		}
		tiff, found := bytes.CutPrefix(data[4:2+size], []byte("Exif\x00\x00"))
		if data[1] == app1 && found {
			return tiffOrientation(tiff)
		}
		data = data[2+size:]
	}
	return upright
}

// tiffOrientation looks the tag up in the first directory.
func tiffOrientation(tiff []byte) orientation {
	const tag, headerSize, entrySize = 0x0112, 8, 12
	if len(tiff) < headerSize {
		return upright
	}
	var order binary.ByteOrder = binary.BigEndian
	if tiff[0] == 'I' {
		order = binary.LittleEndian
	}
	at := int64(order.Uint32(tiff[4:]))
	if at+2 > int64(len(tiff)) {
		return upright
	}
	entries := tiff[at+2:]
	for range order.Uint16(tiff[at:]) {
		if len(entries) < entrySize {
			break
		}
		if order.Uint16(entries) == tag {
			return orientation(order.Uint16(entries[8:]))
		}
		entries = entries[entrySize:]
	}
	return upright
}

// size is that of an upright picture.
func (o orientation) size(p image.Point) image.Point {
	if 5 <= o && o <= 8 {
		return image.Pt(p.Y, p.X)
	}
	return p
}

// apply makes the picture upright.
func (o orientation) apply(src *image.RGBA) *image.RGBA {
	if o <= upright || o > 8 {
		return src
	}
	w, h := src.Bounds().Dx(), src.Bounds().Dy()
	dst := image.NewRGBA(image.Rectangle{Max: o.size(image.Pt(w, h))})
	for y := range dst.Bounds().Dy() {
		for x := range dst.Bounds().Dx() {
			sx, sy := o.source(x, y, w, h)
			copy(dst.Pix[dst.PixOffset(x, y):][:4], src.Pix[src.PixOffset(sx, sy):])
		}
	}
	return dst
}

// source is the pixel of a w by h picture that comes to (x, y).
func (o orientation) source(x, y, w, h int) (sx, sy int) {
	switch o {
	case 2:
		return w - 1 - x, y
	case 3:
		return w - 1 - x, h - 1 - y
	case 4:
		return x, h - 1 - y
	case 5:
		return y, x
	case 6:
		return y, h - 1 - x
	case 7:
		return w - 1 - y, h - 1 - x
	case 8:
		return w - 1 - y, x
	}
	return x, y
}
