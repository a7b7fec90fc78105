// Command words fails where the comments of a Go file point at things more often than they name them: of its words, fewer
// than 8 in 100 may be pronouns and the like. A reader of a comment should not have to look for its subject.
//
//	go run ./test/words redlock internal/...
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// pointing are words that only point.
var pointing = []string{"it", "that", "which", "who", "what", "one", "others", "so"}

const (
	limit = 8  // of 100 words
	few   = 60 // a file with fewer words has no share worth the name
)

var word = regexp.MustCompile(`[A-Za-z']+`)

// count returns how many words the comments of a file have, and how many of them point.
func count(file *ast.File) (words, points int) {
	for _, group := range file.Comments {
		for _, w := range word.FindAllString(group.Text(), -1) {
			words++
			if slices.Contains(pointing, strings.ToLower(w)) {
				points++
			}
		}
	}
	return words, points
}

func main() {
	failed := false
	for _, root := range os.Args[1:] {
		folder, deep := strings.CutSuffix(root, "/...")
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error { //nolint:gosec // as it was asked
			switch {
			case err != nil:
				return err
			case entry.IsDir() && path != folder && !deep:
				return fs.SkipDir
			case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			if words, points := count(file); words >= few && 100*points >= limit*words {
				failed = true
				fmt.Printf("%s: %d of %d words in comments only point (%s): name the subject; at most %d in 100 may\n",
					path, points, words, strings.Join(pointing, ", "), limit-1)
			}
			return nil
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, "words:", err)
			os.Exit(1)
		}
	}
	if failed {
		os.Exit(1)
	}
}
