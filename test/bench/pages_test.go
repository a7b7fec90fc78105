package main

import (
	"os"
	"strings"
	"testing"
)

// The figures of the pages are those of the last run that was committed.
func TestThePagesShowTheFigures(t *testing.T) {
	reports, blocks := readReports(), 0
	for _, path := range pages() {
		page := string(must(os.ReadFile(path))) //nolint:gosec // a page of ours
		blocks += len(mark.FindAllString(page, -1))
		marks := 0
		for _, name := range published {
			marks += strings.Count(page, "<!-- "+name+" ")
		}
		if marks != len(mark.FindAllString(page, -1)) {
			t.Errorf("%s has %d marks of figures, and some of them cannot be read", path, marks)
		}
		if text, err := filled(page, reports); err != nil || text != page {
			t.Errorf("%s shows other figures than those files in docs: run `go run . -pages` in test/bench (%v)", path, err)
		}
	}
	if blocks < 5 {
		t.Errorf("the pages have %d blocks of figures, so the test looks at too little", blocks)
	}
}

func TestABlockIsFilledWithFigures(t *testing.T) {
	report := &Report{Tables: []Table{{Name: "throughput"}}}
	for contender, cycles := range map[string]float64{"redlock redigo": 50_322, "redsync redigo": 8_592} {
		report.Tables[0].Add(Key{Contender: contender, Goroutines: 128}, map[string]float64{"cycles": cycles})
	}
	report.Tables[0].Add(Key{Contender: "redsync redigo", Goroutines: 16}, map[string]float64{"cycles": 8_441})
	for page, want := range map[string]string{
		"a\n<!-- bench throughput; 128 goroutines; cycles; ^redlock -->\nold\n<!-- end -->\nb\n": "a\n<!-- bench throughput; 128 goroutines; cycles; ^redlock -->\n" +
			"| 128 goroutines | cycles a second |\n|---|---|\n| quorumlock redigo | 50,322 |\n<!-- end -->\nb\n",
		"<!-- bench throughput; [0-9]+ goroutines; cycles; redsync -->\n<!-- end -->": "<!-- bench throughput; [0-9]+ goroutines; cycles; redsync -->\n" +
			"|  | cycles a second |\n|---|---|\n| 128 goroutines | 8,592 |\n| 16 goroutines | 8,441 |\n<!-- end -->",
		"no marks <!-- end -->": "no marks <!-- end -->",
	} {
		got, err := filled(page, map[string]*Report{"bench": report})
		if err != nil || got != want {
			t.Errorf("filled(%q) = %q, %v", page, got, err)
		}
	}
	for _, words := range []string{"throughput; 1 goroutine; cycles; .", "throughput; 128 goroutines; allocs; .", "fair; 128 goroutines; cycles; .", "throughput; 128 goroutines; cycles; ("} {
		if text, err := report.block(words); err == nil {
			t.Errorf("block(%q) = %q, want an error", words, text)
		}
	}
}

func TestFiguresOfADayAreReplacedCaseByCase(t *testing.T) {
	table := func(name string, cycles float64) Table {
		table := Table{Name: name}
		table.Add(Key{Contender: "redlock redigo", Goroutines: 1}, map[string]float64{"cycles": cycles})
		return table
	}
	today := Machine{Date: "2026-11-27", Rounds: 5}
	report := &Report{Machine: today, Tables: []Table{table("throughput", 1), table("safety", 2)}}
	today.Rounds = 3
	if err := report.replace(&Report{Machine: today, Tables: []Table{table("safety", 3), table("far", 4)}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"throughput": 1, "safety": 3, "far": 4} {
		if got := report.Table(name).Rows[0].Median("cycles"); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	today.Date = "2026-11-28"
	if err := report.replace(&Report{Machine: today, Tables: []Table{table("safety", 5)}}); err == nil || report.Table("safety").Rows[0].Median("cycles") != 3 {
		t.Errorf("figures of two days were put together (%v)", err)
	}
}

func TestWhatAllTitlesEndInHeadsThem(t *testing.T) {
	for _, tt := range []struct {
		titles []string
		want   string
	}{
		{[]string{"1 node, one key, 16 goroutines", "3 nodes, one key, 16 goroutines"}, ", one key, 16 goroutines"},
		{[]string{"1 node, 16 goroutines", "3 nodes, 6 goroutines"}, ""},
		{[]string{"1 node, 16 goroutines", "1 node, 16 goroutines"}, "1 node, 16 goroutines"},
		{[]string{"1 node, a, 16 goroutines", "16 goroutines"}, ""},
	} {
		var rows []*Row
		for _, title := range tt.titles {
			rows = append(rows, &Row{Key: Key{Situation: title}})
		}
		if got := ending(rows); got != tt.want {
			t.Errorf("%q end in %q, want %q", tt.titles, got, tt.want)
		}
	}
}
