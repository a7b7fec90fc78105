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

// The picture's measures, in pixels and seconds.
const (
	fontSize, lineHeight = 14, 22
	letter               = 8.43 // the width of one, in any fixed-width font of this size
	margin               = 16
	perScene             = 3
)

// draw makes a picture of a terminal that shows one scene after the other. The same text gives the
// same picture.
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
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img" aria-label="quorumlock status --watch">
<style>
text { font: %dpx ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; fill: #d5dae3; white-space: pre }
.title { fill: #8fbcff }
.scene { opacity: 0; animation: show %ds step-end infinite }
@keyframes show { 0%% { opacity: 1 } %s%% { opacity: 0 } }
</style>
<rect width="100%%" height="100%%" rx="8" fill="#1b1f27"/>
`, width, height, fontSize, perScene*len(all), strings.TrimSuffix(fmt.Sprintf("%.2f", 100/float64(max(1, len(all)))), ".00"))
	for i, s := range all {
		fmt.Fprintf(&svg, `<g class="scene" style="animation-delay: %ds">`+"\n", perScene*i)
		y := margin + fontSize
		write := func(class, line string) {
			fmt.Fprintf(&svg, `<text x="%d" y="%d"%s xml:space="preserve">`, margin, y, class)
			_ = xml.EscapeText(&svg, []byte(line)) // a Builder takes all
			svg.WriteString("</text>\n")
			y += lineHeight
		}
		write(` class="title"`, "# "+s.title)
		for _, line := range s.page {
			write("", line)
		}
		svg.WriteString("</g>\n")
	}
	svg.WriteString("</svg>\n")
	return svg.String()
}
