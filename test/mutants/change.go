package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
	"strings"
)

// A change returns the source of a declaration without one of its mechanisms. What it looks
// for stands there exactly once; see find for when two pieces of source are the same.
type change func(source string) (string, error)

// never makes a condition, or a part of one, false.
func never(condition string) change { return wrap(condition, "((", ") && false)") }

// always makes a condition, or a part of one, true.
func always(condition string) change { return wrap(condition, "((", ") || true)") }

// replace puts another piece of source in the place of old, by the names that old has now.
func replace(old, other string) change {
	return func(source string) (string, error) {
		text := scan(source)
		m, err := once(old, find(text, scan(old)))
		if err != nil {
			return "", err
		}
		return source[:text[m.from].from] + m.respell(other) + source[text[m.to-1].to:], nil
	}
}

// returns makes a function do nothing else.
func returns(expr string) change {
	return func(source string) (changed string, err error) {
		changed, err = source, errors.New("it is no function")
		inspect(source, func(n ast.Node, at func(ast.Node) span) {
			if f, ok := n.(*ast.FuncDecl); ok {
				changed, err = source[:at(f.Body).from]+"{ return "+expr+" }", nil
			}
		})
		return changed, err
	}
}

// drop leaves out the statement, or the case, that begins like this. What the statement
// alone has used stays used.
func drop(start string) change {
	return func(source string) (string, error) {
		var clauses, statements []span
		inspect(source, func(n ast.Node, at func(ast.Node) span) {
			switch n.(type) {
			case *ast.CaseClause, *ast.CommClause:
				clauses = append(clauses, at(n))
			case ast.Stmt:
				statements = append(statements, at(n))
			}
		})
		text, found := scan(source), []span(nil)
		for _, m := range find(text, scan(start)) {
			for _, s := range slices.Concat(clauses, statements) {
				if s.from == text[m.from].from {
					found = append(found, s)
				}
			}
		}
		s, err := once(start, found)
		switch {
		case err != nil:
			return "", err
		case slices.Contains(clauses, s):
			return source[:s.from] + source[s.to:], nil
		}
		return s.wrap(source, "if false { ", " }"), nil
	}
}

// wrap writes around a condition.
func wrap(condition, before, behind string) change {
	return func(source string) (string, error) {
		var conditions []span
		inspect(source, func(n ast.Node, at func(ast.Node) span) {
			var exprs []ast.Expr
			switch n := n.(type) {
			case *ast.IfStmt:
				exprs = []ast.Expr{n.Cond}
			case *ast.CaseClause:
				exprs = n.List
			case *ast.BinaryExpr:
				if n.Op == token.LAND || n.Op == token.LOR {
					exprs = []ast.Expr{n.X, n.Y}
				}
			case *ast.ReturnStmt:
				exprs = n.Results
			case *ast.AssignStmt:
				exprs = n.Rhs
			}
			for _, e := range exprs {
				conditions = append(conditions, at(e))
			}
		})
		text, found := scan(source), []span(nil)
		for _, m := range find(text, scan(condition)) {
			if s := (span{text[m.from].from, text[m.to-1].to}); slices.Contains(conditions, s) {
				found = append(found, s)
			}
		}
		s, err := once(condition, found)
		if err != nil {
			return "", err
		}
		return s.wrap(source, before, behind), nil
	}
}

// line changes what is no Go.
func line(old, other string) change {
	return func(source string) (string, error) {
		_, err := once(old, make([]span, strings.Count(source, old)))
		return strings.Replace(source, old, other, 1), err
	}
}

func once[T any](what string, found []T) (one T, err error) {
	if len(found) != 1 {
		return one, fmt.Errorf("it has this %d times, want it once: %s", len(found), what)
	}
	return found[0], nil
}

// A span is a part of a text.
type span struct{ from, to int }

// wrap writes around the span.
func (s span) wrap(text, before, behind string) string {
	return text[:s.from] + before + text[s.from:s.to] + behind + text[s.to:]
}

// inspect calls visit for all nodes of a function, with what says where a node stands.
func inspect(source string, visit func(n ast.Node, at func(ast.Node) span)) {
	const before = "package p;"
	parsed, err := parser.ParseFile(token.NewFileSet(), "", before+source, parser.SkipObjectResolution)
	if err != nil {
		return // a part of a declaration, which has no statements
	}
	start := parsed.FileStart + token.Pos(len(before))
	at := func(n ast.Node) span { return span{int(n.Pos() - start), int(n.End() - start)} }
	ast.Inspect(parsed, func(n ast.Node) bool {
		visit(n, at)
		return true
	})
}

// A word is a token of Go, but for semicolons and the commas in front of a bracket: gofmt
// and line breaks decide on those.
type word struct {
	from, to int
	text     string
	name     bool
	selected bool // behind a dot
}

func scan(source string) (words []word) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", 1, len(source)), []byte(source), nil, 0)
	for last := ""; ; {
		pos, tok, text := s.Scan()
		switch tok {
		case token.EOF:
			return words
		case token.SEMICOLON:
			continue
		case token.RPAREN, token.RBRACE, token.RBRACK:
			if last == "," {
				words = words[:len(words)-1]
			}
		}
		if text == "" {
			text = tok.String()
		}
		words = append(words, word{int(pos) - 1, int(pos) - 1 + len(text), text, tok == token.IDENT, last == "."})
		last = text
	}
}

// A match is where a piece of source stands in words, and what became of its names.
type match struct {
	from, to int
	names    map[word]string
}

// find returns where old stands. If that is nowhere, it is looked for as it reads when its
// function has moved: names were exported, qualified, or are other ones now.
func find(text, old []word) (found []match) {
	for _, moved := range []bool{false, true} {
		for i := range text {
			if m, ok := at(text, i, old, moved); ok {
				found = append(found, m)
			}
		}
		if found != nil {
			break
		}
	}
	return found
}

// at reports whether old stands at text[i].
func at(text []word, i int, old []word, moved bool) (m match, ok bool) {
	m = match{from: i, names: make(map[word]string)}
	kept, renamed := 0, 0
	for _, o := range old {
		if i >= len(text) {
			return m, false
		}
		t := text[i]
		i++
		now := t.text
		switch {
		case now == o.text && (!moved || t.selected == o.selected):
			kept++
		case !moved || !o.name || !t.name || t.selected != o.selected:
			return m, false
		case strings.EqualFold(now, o.text):
			kept++
		case o.selected:
			return m, false
		case i+1 < len(text) && text[i].text == "." && strings.EqualFold(text[i+1].text, o.text):
			now += "." + text[i+1].text
			i += 2
			kept++
		case slices.ContainsFunc(text, func(t word) bool { return t.name && !t.selected && t.text == o.text }):
			return m, false
		default: // nothing has the old name any more
			renamed++
		}
		if o.name {
			if was, ok := m.names[o.key()]; ok && was != now {
				return m, false
			}
			m.names[o.key()] = now
		}
	}
	m.to = i
	return m, renamed <= kept
}

// key is the word wherever it stands.
func (w word) key() word { return word{text: w.text, selected: w.selected} }

// respell returns source with the names that the match has found.
func (m match) respell(source string) string {
	var b strings.Builder
	end := 0
	for _, w := range scan(source) {
		if now, ok := m.names[w.key()]; ok && w.name {
			b.WriteString(source[end:w.from] + now)
			end = w.to
		}
	}
	return b.String() + source[end:]
}

// qualifiers returns the names that stand in front of a dot: those of packages are among them.
func qualifiers(source string) map[string]bool {
	names, text := make(map[string]bool), scan(source)
	for i, w := range text {
		if w.name && !w.selected && i+1 < len(text) && text[i+1].text == "." {
			names[w.text] = true
		}
	}
	return names
}
