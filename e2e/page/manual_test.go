package page

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/browser"
	"troupe/e2e/harness"
)

// maxPicture is the size of a picture of the manual, in bytes.
const maxPicture = 60 << 10

// fewColours returns a PNG with the 256 most frequent colours of another one. Other colours, which are on the
// edges of letters, become the nearest of these. The file is half as large.
func fewColours(t *testing.T, raw []byte) []byte {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(raw))
	require.NoError(t, err)
	bounds := img.Bounds()
	counts := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(img.At(x, y)).(color.RGBA) }
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	all := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(counts[b]-counts[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	var colours color.Palette
	for _, c := range all[:min(256, len(all))] {
		colours = append(colours, c)
	}
	nearest := map[color.RGBA]uint8{}
	few := image.NewPaletted(bounds, colours)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := at(x, y)
			i, known := nearest[c]
			if !known {
				i = uint8(colours.Index(c))
				nearest[c] = i
			}
			few.SetColorIndex(x, y, i)
		}
	}
	var out bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few))
	return out.Bytes()
}

// manual lists the pictures of the manual with their sizes in pixels.
var manual = []struct {
	name          string
	width, height int
	scheme        string
	ready         string
}{
	{"page-front", 1280, 800, "light", `document.querySelector("#empty button") !== null`},
	{"page", 1280, 800, "light", `document.querySelector("#dock .card .diff") !== null`},
	{"page-phone", 390, 844, "dark", `document.querySelector("#dock .card .diff") !== null`},
}

// TestManualPictures makes the pictures of the manual. With SCREENSHOTS it writes them:
//
//	SCREENSHOTS=$PWD/docs go test ./e2e/page -run TestManualPictures
//
// The pixels depend on the fonts of a machine. The test therefore compares the sizes of the pictures in
// docs with those that it makes, and not their content.
func TestManualPictures(t *testing.T) {
	t.Parallel()
	b := browser.Shared(t)
	p := harness.NewPlace(t)
	p.Git("init", "-q", "-b", "main")
	p.WriteFile("greet.go", "package greet\n\n// Hello greets somebody.\nfunc Hello(name string) string {\n\treturn \"Hello, \" + name\n}\n")
	s := p.Serve("--listen", "127.0.0.1:0")
	first := b.NewTab(t, 1280, 800, "light")
	s.Visit(first, s.Code)
	first.Until(manual[0].ready)
	dir := os.Getenv("SCREENSHOTS")
	for i, picture := range manual {
		if i == 1 {
			p.Model.Enqueue(
				harness.ToolCall("c1", "read", `{"path":"greet.go"}`),
				harness.Text("`Hello` has no answer for an empty name. I add one.").Then(harness.ToolCall("c2", "edit", `{"path":"greet.go","oldText":"\treturn \"Hello, \" + name\n","newText":"\tif name == \"\" {\n\t\tname = \"world\"\n\t}\n\treturn \"Hello, \" + name + \"!\"\n"}`)),
				harness.Text("Done."))
			say(first, "Make Hello greet the world if the name is empty, and end with an exclamation mark.")
			first.Until(picture.ready)
		}
		tab := b.NewTab(t, picture.width, picture.height, picture.scheme)
		tab.Load(s.URL + "/")
		tab.Until(picture.ready)
		tab.Until(place + `.endsWith("main") && document.getElementById("window-text").textContent !== ""`)
		// The directory of the test is of no interest to readers.
		tab.Eval(`(() => {
			for (const s of troupe.list.open.values()) s.cwd = "/home/me/greet";
			troupe.view.cwd = "/home/me/greet";
			troupe.list.draw();
			troupe.changed(troupe.view);
			document.activeElement.blur();
		})()`)
		tab.Eval(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))`)
		assert.LessOrEqual(t, tab.Eval(`document.documentElement.scrollWidth`), float64(picture.width))
		assert.NotContains(t, tab.Eval(`document.body.innerText`), p.Root, "no path of this machine")
		made := fewColours(t, tab.PNG())
		assert.LessOrEqual(t, len(made), maxPicture, picture.name)
		if dir != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, picture.name+".png"), made, 0o644))
			continue
		}
		raw, err := os.ReadFile(filepath.Join("..", "..", "docs", picture.name+".png"))
		require.NoError(t, err)
		assert.LessOrEqual(t, len(raw), maxPicture, picture.name)
		config, err := png.DecodeConfig(bytes.NewReader(raw))
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprint(picture.width, "x", picture.height), fmt.Sprint(config.Width, "x", config.Height), picture.name)
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", "serve.md"))
		require.NoError(t, err)
		assert.True(t, strings.Contains(string(text), "]("+picture.name+".png)"), "docs/serve.md shows %s", picture.name)
	}
	assert.Equal(t, 143, s.Stop())
}
