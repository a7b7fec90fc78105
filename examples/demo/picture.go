package main

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"
)

// A scene is a step of the second act: its title, and the page that the operator sees.
type scene struct {
	title string
	page  []string
}

var titled = regexp.MustCompile(`^\d+\. (.*)$`)

// scenes finds the steps of a story that show a page of the command.
func scenes(text string) (all []scene) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if title := titled.FindStringSubmatch(line); title != nil {
			all = append(all, scene{title: title[1]})
		} else if shown, ok := strings.CutPrefix(line, "| "); ok && len(all) > 0 {
			last := &all[len(all)-1]
			last.page = append(last.page, shown)
		}
	}
	return all
}

// caption says in all scenes what they show.
const caption = "quorumlock status --watch"

// The picture's measures, in pixels and seconds.
const (
	fontSize, lineHeight = 14, 22
	letter               = 8.7 // the width of one, in the widest of the fonts
	margin               = 16
	perScene             = 3
)

// draw makes a picture of a terminal that shows one scene after the other. Where nothing moves, it shows
// the first one: the others are hidden by attributes, which the animation overrides. Colours and fonts are
// attributes too, for viewers without style sheets. The same text gives the same picture.
func draw(text string) string {
	all := scenes(text)
	columns, lines := 0, 0
	for _, s := range all {
		columns, lines = max(columns, len([]rune(s.title))+2), max(lines, len(s.page))
		for _, line := range s.page {
			columns = max(columns, len([]rune(line)))
		}
	}
	width, height := int(letter*float64(columns))+2*margin, lineHeight*(lines+2)+2*margin
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img" aria-label="%[3]s">
<style>
.scene { animation: show %[4]ds step-end infinite }
@keyframes show { 0%% { opacity: 1 } %.4[5]g%% { opacity: 0 } }
@media (prefers-reduced-motion: reduce) { .scene { animation: none } }
</style>
<rect width="100%%" height="100%%" rx="8" fill="#1b1f27"/>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace" font-size="%[6]d" fill="#d5dae3">
`, width, height, caption, perScene*len(all), 100/float64(max(1, len(all))), fontSize)
	write := func(row int, attributes, line string) {
		fmt.Fprintf(&svg, `<text x="%d" y="%d"%s xml:space="preserve">`, margin, margin+fontSize+row*lineHeight, attributes)
		_ = xml.EscapeText(&svg, []byte(line)) // a Builder takes all
		svg.WriteString("</text>\n")
	}
	write(0, "", "$ "+caption)
	for i, s := range all {
		hidden := ""
		if i > 0 {
			hidden = ` opacity="0"`
		}
		fmt.Fprintf(&svg, `<g class="scene" style="animation-delay: %ds"%s>`+"\n", perScene*i, hidden)
		write(1, ` fill="#8fbcff"`, "# "+s.title)
		for row, line := range s.page {
			write(row+2, "", line)
		}
		svg.WriteString("</g>\n")
	}
	svg.WriteString("</g>\n</svg>\n")
	return svg.String()
}
