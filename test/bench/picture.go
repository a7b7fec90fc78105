package main

import (
	"bytes"
	"image/color"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// bar is one series of the picture: the best of some contenders.
type bar struct {
	legend string
	fill   color.Color
	among  func(Contender) bool
}

// bars are the series. The colours are those of Okabe and Ito, which also people who
// see no red or no green tell apart; ours are the strong ones, redsync's pale.
func bars() []bar {
	over := func(library, client string) func(Contender) bool {
		return func(c Contender) bool {
			return c.Library == library && c.Client == client && (c.Mode == "" || c.Mode == failFast)
		}
	}
	return []bar{
		{"redlock, go-redis", color.RGBA{0x00, 0x72, 0xB2, 0xFF}, over("redlock", "go-redis")},
		{"redlock, redigo", color.RGBA{0xD5, 0x5E, 0x00, 0xFF}, over("redlock", "redigo")},
		{"redlock, rueidis", color.RGBA{0x00, 0x9E, 0x73, 0xFF}, over("redlock", "rueidis")},
		{"redsync, go-redis", color.RGBA{0x9F, 0xC9, 0xE4, 0xFF}, over("redsync", "go-redis")},
		{"redsync, redigo", color.RGBA{0xF2, 0xBE, 0x99, 0xFF}, over("redsync", "redigo")},
		{"redsync, rueidis", color.RGBA{0x99, 0xD8, 0xC7, 0xFF}, over("redsync", "rueidis")},
		{"redsync, go-redis auto-pipeline", color.RGBA{0x8A, 0x8A, 0x8A, 0xFF}, func(c Contender) bool {
			return c.Library == "redsync" && (c.Mode == autoPipeline || c.Mode == autoPipeline+" "+failFast)
		}},
	}
}

// drawPicture draws folder/bench.svg from folder/bench.json.
func drawPicture(folder string) error {
	report, err := readReport(filepath.Join(folder, "bench.json"))
	if err != nil {
		return err
	}
	p := newPlot("Lock and unlock over five nodes: cycles a second")
	p.X.Label.Text = "goroutines, each on keys of its own (redsync in the faster of its modes)"

	names := make([]string, len(concurrency))
	for i, goroutines := range concurrency {
		names[i] = whole(float64(goroutines))
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.5, float64(len(names))-0.5

	for i, b := range bars() {
		values := make(plotter.Values, len(concurrency))
		for k, goroutines := range concurrency {
			if v := best(report.Table(throughput.Name), goroutines, b.among).Median("cycles"); !math.IsNaN(v) {
				values[k] = v
			}
		}
		if err := b.add(p, values, vg.Points(width*(float64(i)-float64(len(bars())-1)/2))); err != nil {
			return err
		}
	}
	p.Y.Max *= 1.1 // room for the numbers on top
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.Padding = vg.Points(3)
	p.Legend.XOffs = vg.Points(10)
	return saveSVG(p, filepath.Join(folder, "bench.svg"))
}

// newPlot is an empty picture of cycles a second.
func newPlot(title string) *plot.Plot {
	sans := font.Font{Typeface: "Liberation", Variant: "Sans"}
	plot.DefaultFont, plotter.DefaultFont = sans, sans
	p := plot.New()
	p.Title.Text = title
	p.Title.Padding = vg.Points(10)
	p.Title.TextStyle.Font.Size = vg.Points(14)
	p.Y.Label.Text = "thousand cycles a second"
	p.Y.Tick.Marker = thousands{}
	p.Y.Min = 0
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color = color.Gray{0xDD}
	p.Add(grid)
	return p
}

// drawScale draws folder/scale.svg from folder/scale.json: cycles over the number of nodes, and
// what they would be if each node cost as much as each of five does.
func drawScale(folder string) error {
	report, err := readReport(filepath.Join(folder, "scale.json"))
	if err != nil {
		return err
	}
	p := newPlot("Lock and unlock over 1 to 15 nodes: cycles a second")
	p.X.Label.Text = "nodes, with all clients on one machine"
	p.X.Tick.Marker = plot.ConstantTicks(nodeTicks())
	over := find("redlock", "go-redis", "").Name()
	for i, goroutines := range []int{128, 1} {
		var measured, even plotter.XYs
		five := report.Table(scale.Name).Row(Key{over, goroutines, nodesTitle(nodes)}).Median("cycles")
		for _, count := range counts {
			if v := report.Table(scale.Name).Row(Key{over, goroutines, nodesTitle(count)}).Median("cycles"); !math.IsNaN(v) {
				measured = append(measured, plotter.XY{X: float64(count), Y: v})
			}
			if v := five * nodes / float64(count); goroutines > 1 && count >= 3 {
				even = append(even, plotter.XY{X: float64(count), Y: v})
			}
		}
		line, points, err := plotter.NewLinePoints(measured)
		if err != nil {
			return err
		}
		line.Color, points.Color = bars()[i].fill, bars()[i].fill
		line.Width, points.Radius = vg.Points(1.5), vg.Points(3)
		p.Add(line, points)
		p.Legend.Add(Key{Goroutines: goroutines}.title(), line, points)
		if len(even) > 0 {
			line, err := plotter.NewLine(even)
			if err != nil {
				return err
			}
			line.Color, line.Dashes = color.Gray{0x8A}, []vg.Length{vg.Points(4), vg.Points(3)}
			p.Add(line)
			p.Legend.Add("if cost were in proportion to the nodes", line)
		}
	}
	p.Legend.Top = true
	p.Legend.Padding = vg.Points(3)
	return saveSVG(p, filepath.Join(folder, "scale.svg"))
}

func nodeTicks() (ticks []plot.Tick) {
	for _, count := range counts {
		ticks = append(ticks, plot.Tick{Value: float64(count), Label: whole(float64(count))})
	}
	return ticks
}

// saveSVG writes the picture. A browser has the font's name, not the font, and takes a
// like one.
func saveSVG(p *plot.Plot, path string) error {
	canvas, err := p.WriterTo(9*vg.Inch, 5*vg.Inch, "svg")
	if err != nil {
		return err
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	text := bytes.ReplaceAll(svg.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
	return os.WriteFile(path, text, 0o644) //nolint:gosec // everybody may read it
}

// width is that of a bar, in points, with the gap behind it.
const width = 17

// add draws the series, beside the middle of each group, with its numbers on top.
func (b bar) add(p *plot.Plot, values plotter.Values, beside vg.Length) error {
	chart, err := plotter.NewBarChart(values, vg.Points(width-1))
	if err != nil {
		return err
	}
	chart.Color = b.fill
	chart.LineStyle.Width = 0
	chart.Offset = beside
	numbers := plotter.XYLabels{}
	for i, value := range values {
		text := decimal(value / 1000)
		if value >= 9950 {
			text = whole(value / 1000)
		}
		numbers.XYs = append(numbers.XYs, plotter.XY{X: float64(i), Y: value})
		numbers.Labels = append(numbers.Labels, text)
	}
	labels, err := plotter.NewLabels(numbers)
	if err != nil {
		return err
	}
	labels.Offset = vg.Point{X: beside, Y: vg.Points(2)}
	for i := range labels.TextStyle {
		labels.TextStyle[i].XAlign = draw.XCenter
		labels.TextStyle[i].Font.Size = vg.Points(8)
	}
	p.Add(chart, labels)
	p.Legend.Add(b.legend, chart)
	return nil
}

// thousands labels the axis of cycles in thousands.
type thousands struct{}

func (thousands) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = whole(ticks[i].Value / 1000)
		}
	}
	return ticks
}
