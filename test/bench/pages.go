package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// repository is the root, seen from this folder.
var repository = filepath.Join("..", "..")

// A block of a page is what stands behind such a mark, up to the end's. The first says where and when
// a run took place. The second is a table: of which file and case, the titles of situations by a
// pattern, metrics, and the contenders by a pattern. Of one situation it has a row for each
// contender, of several a row for each of these.
//
//	<!-- bench machine -->
//	<!-- bench throughput; 128 goroutines; cycles, lock p50; ^redlock -->
//	<!-- end -->
var mark = regexp.MustCompile(`(?s)(<!-- (` + strings.Join(published, "|") + `) (machine|[^;>]+; [^;>]+; [^;>]+; [^;>]+) -->\n).*?(<!-- end -->)`)

// headings are the metrics whose name does not say what is counted.
var headings = map[string]string{
	"cycles": "cycles a second", "changes": "changes of owner a second", "waiter memory": "a waiter's memory", "memory": "a process's memory", "server memory": "a node's memory more",
	"client cpu": "client's CPU a cycle", "server cpu": "all servers' CPU a cycle", "done": "all done in", "jain": "fairness (Jain)", "commands": "commands a node for a lock", "renewals": "renewals a second", "clients busy": "client's CPU, of a core", "servers busy": "all servers' CPU",
	"allocs": "allocations a cycle", "share": "cycles, of those without",
}

// filled is a page whose blocks show the reports, by the names of their files.
func filled(page string, reports map[string]*Report) (string, error) {
	var failures []error
	page = mark.ReplaceAllStringFunc(page, func(block string) string {
		parts := mark.FindStringSubmatch(block)
		text, err := reports[parts[2]].block(parts[3])
		failures = append(failures, err)
		return parts[1] + text + parts[4]
	})
	return page, errors.Join(failures...)
}

// block is what a mark asks for.
func (r *Report) block(words string) (string, error) {
	if words == "machine" {
		return r.where(), nil
	}
	parts := strings.Split(words, "; ")
	titles, err := regexp.Compile("^(" + parts[1] + ")$")
	if err != nil {
		return "", err
	}
	contenders, err := regexp.Compile(parts[3])
	if err != nil {
		return "", err
	}
	metrics := strings.Split(parts[2], ", ")
	var rows []*Row
	if table := r.Table(parts[0]); table != nil {
		rows = slices.DeleteFunc(slices.Clone(table.Rows), func(row *Row) bool {
			return !titles.MatchString(row.title()) || !contenders.MatchString(row.Contender)
		})
	}
	if len(rows) == 0 {
		return "", fmt.Errorf("%s: there are no such figures", words)
	}
	var text strings.Builder
	one := rows[0].title() == rows[len(rows)-1].title()
	common := ending(rows)
	text.WriteString("| " + strings.TrimPrefix(common, ", "))
	for _, metric := range metrics {
		text.WriteString(" | " + cmp.Or(headings[metric], metric))
	}
	text.WriteString(" |\n|---" + strings.Repeat("|---", len(metrics)) + "|\n")
	for _, row := range rows {
		if one {
			text.WriteString("| " + strings.Replace(row.Contender, "redlock ", "quorumlock ", 1))
		} else {
			text.WriteString("| " + strings.TrimSuffix(row.title(), common))
		}
		for _, metric := range metrics {
			if len(row.Rounds[metric]) == 0 {
				return "", fmt.Errorf("%s: nobody has measured %s of %s", words, metric, row.Contender)
			}
			text.WriteString(" | " + show(metric, row.Median(metric)))
		}
		text.WriteString(" |\n")
	}
	return text.String(), nil
}

// ending is how the titles of all rows end, in whole parts, or the title of all: it heads them.
func ending(rows []*Row) string {
	common := rows[0].title()
	for _, row := range rows {
		for !strings.HasSuffix(row.title(), common) {
			_, rest, more := strings.Cut(strings.TrimPrefix(common, ", "), ", ")
			if !more {
				return ""
			}
			common = ", " + rest
		}
	}
	return common
}

// published are the reports whose figures stand in pages, by the names of their files.
var published = []string{"bench", "scale", far.Name}

func readReports() map[string]*Report {
	reports := map[string]*Report{}
	for _, name := range published {
		report := readReport(filepath.Join(repository, "docs", name+".json"))
		reports[name] = &report
	}
	return reports
}

// pages are the paths of all pages that may have marks.
func pages() []string {
	return append(must(filepath.Glob(filepath.Join(repository, "docs", "*.md"))), filepath.Join(repository, "README.md"))
}

// fillPages writes the figures of the reports into the pages that have marks.
func fillPages() {
	reports := readReports()
	for _, path := range pages() {
		was := string(must(os.ReadFile(path))) //nolint:gosec // a page of ours
		text, err := filled(was, reports)
		check(err)
		if text != was {
			check(os.WriteFile(path, []byte(text), 0o644)) //nolint:gosec // everybody may read it
		}
	}
}
