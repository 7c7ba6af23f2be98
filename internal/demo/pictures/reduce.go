package main

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"slices"
)

// maxColours is what a picture with a palette may have.
const maxColours = 256

// reduce makes a picture of the screen small: with a palette of its most frequent
// colours, which on pages of plain surfaces and small type looks the same. What is
// below so many pixels is cut off, unless that is 0.
func reduce(picture []byte, tallest int) ([]byte, error) {
	from, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	box := from.Bounds()
	if tallest > 0 {
		box.Max.Y = min(box.Max.Y, box.Min.Y+tallest)
	}
	often := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA {
		c, _ := color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)
		return c
	}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			often[at(x, y)]++
		}
	}
	palette := paletteOf(often)
	near := make(map[color.RGBA]uint8, len(often))
	for c := range often {
		near[c] = uint8(palette.Index(c)) //nolint:gosec // a palette has at most maxColours
	}
	to := image.NewPaletted(box, palette)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			to.SetColorIndex(x, y, near[at(x, y)])
		}
	}
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to)
	return out.Bytes(), err
}

// keptColours are the surfaces and texts of a page, which stay exactly as they are;
// the others are the edges of letters and lines.
const keptColours = 64

// paletteOf picks the most frequent colours, and further colours that differ from one another. The more colours there
// are, the larger the required difference.
func paletteOf(often map[color.RGBA]int) color.Palette {
	all := make([]color.RGBA, 0, len(often))
	for c := range often {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(often[b], often[a]), cmp.Compare(code(a), code(b)))
	})
	for apart := 0; ; apart += 2 {
		var palette []color.RGBA
		for i, c := range all {
			if i < keptColours || !slices.ContainsFunc(palette, func(p color.RGBA) bool { return distance(p, c) <= apart }) {
				palette = append(palette, c)
			}
			if len(palette) > maxColours {
				break
			}
		}
		if len(palette) <= maxColours {
			out := make(color.Palette, len(palette))
			for i, c := range palette {
				out[i] = c
			}
			return out
		}
	}
}

// distance is by how much two colours differ in the channel in which they differ most.
func distance(a, b color.RGBA) int {
	return max(apart(a.R, b.R), apart(a.G, b.G), apart(a.B, b.B))
}

func apart(a, b uint8) int { return max(int(a)-int(b), int(b)-int(a)) }

func code(c color.RGBA) uint32 { return uint32(c.R)<<16 | uint32(c.G)<<8 | uint32(c.B) }
