package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/color"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// root is the repository's.
const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path)) //nolint:gosec // of the repository
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestThePictureIsThatOfTheText(t *testing.T) {
	text, picture := read(t, "docs/demo.txt"), read(t, "docs/demo.svg")
	if draw(text) != picture {
		t.Error("docs/demo.svg is not the picture of docs/demo.txt: make demo-picture")
	}
	all := scenes(text)
	if len(all) != 4 {
		t.Fatalf("docs/demo.txt has the scenes %v, want 4", all)
	}
	shown, err := render(picture, still)
	want := append([]string{"$ " + caption, "# " + all[0].title}, all[0].page...)
	if err != nil || !slices.Equal(shown.lines, want) {
		t.Errorf("where nothing moves docs/demo.svg shows %q (%v), want the first scene: %q", shown.lines, err, want)
	}
}

func TestNoPictureOfTheRepositoryIsEmptyOrCut(t *testing.T) {
	pictures := 0
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path != "." && strings.ContainsRune("._", rune(entry.Name()[0])) {
			return fs.SkipDir // other tests put things there meanwhile
		}
		if err == nil && filepath.Ext(path) == ".svg" {
			pictures++
			if err := judge(read(t, path)); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		return err
	})
	if err != nil || pictures == 0 {
		t.Errorf("%d pictures were found (%v)", pictures, err)
	}
}

func TestAPictureThatIsEmptyOrCutIsRefused(t *testing.T) {
	picture := draw("1. A title\n| a line that is wider than the other one\n| another\n2. Another title\n| of the second scene\n")
	if err := judge(picture); err != nil {
		t.Errorf("a good picture: %v", err)
	}
	for _, tt := range []struct{ want, change, into string }{
		{"is empty", `<g font`, `<g opacity="0" font`},
		{"is empty", `(?s)<g.*</g>`, ``},
		{"cannot be seen", `fill="#8.*?"`, `fill="#222833"`},
		{"is cut", `y="30"`, `y="-900"`},
		{"is cut", `viewBox="0 0 \d+ (\d+)" width="\d+"`, `viewBox="0 0 300 $1" width="300"`},
		{"is cut", `(viewBox="0 0 \d+) \d+"(.*) height="\d+"`, `$1 90"$2 height="90"`},
		{"is cut", `y="30"`, `y="12"`},
		{"is cut", `x="16" y="52"`, `x="0" y="52"`},
		{"is cut", `of the second scene`, `of the second scene, much longer than all the others are`},
		{"is cut", `<rect width="100%"`, `<rect width="900"`},
		{"lies over", ` opacity="0"`, ``},
		{"lies over", `y="52"`, `y="36"`},
		{"more than move", `\.scene { animation`, `.scene { opacity: 0; animation`},
		{"is scaled", `viewBox="0 0`, `viewBox="9 0`},
		{"more than move", `animation-delay: 0s`, `display: none`},
		{"<path d=\"M0 0\">", `<rect`, `<path d="M0 0"/><rect`},
		{"<g transform=", `<g font`, `<g transform="scale(2)" font`},
		{"EOF", `</svg>`, ``},
	} {
		changed := regexp.MustCompile(tt.change).ReplaceAllString(picture, tt.into)
		if err := judge(changed); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("with %q in place of %q: %v, want %q", tt.into, tt.change, err, tt.want)
		}
	}
}

// judge returns what is wrong with a picture where nothing moves, and in each scene where something does.
func judge(svg string) error {
	for scene, scenes := still, still; scene <= scenes; scene++ {
		shown, err := render(svg, scene)
		if err != nil {
			return err
		}
		if len(shown.lines) == 0 {
			return errors.New("the picture is empty")
		}
		scenes = shown.scenes
	}
	return nil
}

// A rendering is what a viewer shows at one moment.
type rendering struct {
	scene, scenes int // the one that is shown, counted from 1, and how many there are
	frame         image.Rectangle
	ground        color.Gray // of the frame
	boxes         []image.Rectangle
	lines         []string // in the boxes
}

// still is the scene where nothing moves: what is there without the style sheet.
const still = 0

type element struct {
	XMLName    xml.Name
	Attributes []xml.Attr `xml:",any,attr"`
	Text       string     `xml:",chardata"`
	Elements   []element  `xml:",any"`
}

// A style is inherited.
type style struct {
	fill     color.Gray
	fontSize float64
}

// render renders what pictures here are made of, and refuses all else.
func render(svg string, scene int) (*rendering, error) {
	r := &rendering{scene: scene}
	var top element
	if err := xml.Unmarshal([]byte(svg), &top); err != nil {
		return r, err
	}
	return r, r.paint(top, style{})
}

// moves is a style sheet, or the style of an element, that changes nothing where nothing moves.
var moves = regexp.MustCompile(`^(animation-delay: \d+s|(\s*(@.*|\.\w+ \{ animation: [^;{}]*\})\n)*)$`)

func (r *rendering) paint(e element, s style) (err error) {
	box := map[string]int{} // where it is, and how large
	var whole string
	var hidden, animated bool
	for _, a := range e.Attributes {
		switch a.Name.Local {
		case "x", "y", "width", "height":
			if box[a.Name.Local], err = strconv.Atoi(a.Value); a.Value == "100%" {
				box[a.Name.Local], err = map[string]int{"width": r.frame.Dx(), "height": r.frame.Dy()}[a.Name.Local], nil
			}
		case "fill":
			var red, green, blue uint8
			_, err = fmt.Sscanf(a.Value, "#%02x%02x%02x", &red, &green, &blue)
			s.fill.Y, _, _ = color.RGBToYCbCr(red, green, blue)
		case "font-size":
			s.fontSize, err = strconv.ParseFloat(a.Value, 64)
		case "opacity":
			hidden = a.Value == "0"
		case "style":
			if !moves.MatchString(a.Value) {
				err = errors.New("its style does more than move it")
			}
		case "class":
			animated = true
			r.scenes++
		case "viewBox":
			whole = a.Value
		case "xmlns", "role", "aria-label", "font-family", "space", "rx": // no pixel that matters changes
		default:
			err = errors.New("the test does not know it")
		}
		if err != nil {
			return fmt.Errorf("<%s %s=%q>: %w", e.XMLName.Local, a.Name.Local, a.Value, err)
		}
	}
	if animated && r.scene != still {
		hidden = r.scenes != r.scene
	}
	if hidden {
		return nil
	}
	at := image.Pt(box["x"], box["y"])
	all := image.Rectangle{at, at.Add(image.Pt(box["width"], box["height"]))}
	switch e.XMLName.Local {
	case "svg":
		r.frame = all
		if want := fmt.Sprintf("0 0 %d %d", all.Dx(), all.Dy()); whole != want {
			return fmt.Errorf("the picture is scaled: its viewBox is %q, and not %q", whole, want)
		}
	case "rect":
		if r.ground = s.fill; all != r.frame {
			return fmt.Errorf("the picture is cut: it has a rectangle at %v, and its frame is %v", all, r.frame)
		}
	case "text":
		return r.write(at, e.Text, s)
	case "style":
		if !moves.MatchString(e.Text) {
			return fmt.Errorf("its style does more than move it: %s", e.Text)
		}
	case "g":
	default:
		return fmt.Errorf("<%s>: the test does not know it", e.XMLName.Local)
	}
	for _, inner := range e.Elements {
		if err := r.paint(inner, s); err != nil {
			return err
		}
	}
	return nil
}

// write puts a line into a box. In fonts whose letters are all as wide, that is three fifths of their size.
func (r *rendering) write(at image.Point, line string, s style) error {
	const border = 4 // pixels, in which there is nothing
	size := int(s.fontSize)
	box := image.Rect(at.X, at.Y-size, at.X+(utf8.RuneCountInString(line)*size*3+4)/5, at.Y+size/4)
	switch {
	case strings.TrimSpace(line) == "", max(s.fill.Y, r.ground.Y)-min(s.fill.Y, r.ground.Y) < 64:
		return fmt.Errorf("%q cannot be seen", line)
	case !box.In(r.frame.Inset(border)):
		return fmt.Errorf("the picture is cut: it has %q at %v, and its frame is %v", line, box, r.frame)
	case slices.ContainsFunc(r.boxes, box.Overlaps):
		return fmt.Errorf("%q lies over other text", line)
	}
	r.boxes, r.lines = append(r.boxes, box), append(r.lines, line)
	return nil
}
