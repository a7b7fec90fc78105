package proxy

import (
	"slices"
	"strings"
	"testing"
)

// resp writes commands of one word of three letters each.
func resp(words ...string) string {
	var text strings.Builder
	for _, word := range words {
		text.WriteString(strings.Join(lines(word), "\r\n") + "\r\n")
	}
	return text.String()
}

// lines are those of commands of one word.
func lines(words ...string) (lines []string) {
	for _, word := range words {
		lines = append(lines, "*1", "$3", word)
	}
	return lines
}

func TestInterruptHappensBetweenTwoCommandsOfABatch(t *testing.T) {
	batch := []string{"one", "two", "six"}
	for ahead := range len(batch) + 1 {
		p, c, seen := through(t)
		var before []string
		end := p.Interrupt(func(commands [][]string) int {
			if commands[0][0] != batch[0] {
				return -1
			}
			return ahead
		}, func() {
			for range lines(batch[:ahead]...) {
				before = append(before, <-seen)
			}
			if len(seen) > 0 {
				t.Errorf("%d commands go ahead: the server has more", ahead)
			}
		})
		ask := func(commands ...string) {
			c.send(strings.TrimSuffix(resp(commands...), "\n")) // which send adds
			for _, line := range lines(commands...) {
				c.expect(line)
			}
		}
		ask("ten") // does not suit
		for range lines("ten") {
			<-seen
		}
		ask(batch...)
		ask(batch...) // it happens once
		if !end() || !slices.Equal(before, lines(batch[:ahead]...)) {
			t.Errorf("%d commands are to go ahead: the server had %q", ahead, before)
		}
	}
}

func TestAnInterruptThatIsTakenBackDoesNotHappen(t *testing.T) {
	p, c, _ := through(t)
	first := p.Interrupt(func([][]string) int { return 0 }, func() { t.Error("the first has happened") })
	second := p.Interrupt(func([][]string) int { return 0 }, func() { t.Error("the second has happened") })
	for i, end := range []func() bool{first, second, second} {
		if end() {
			t.Errorf("end %d says that it has happened", i+1)
		}
	}
	c.send(strings.TrimSuffix(resp("one"), "\n"))
	c.expect("*1")
}

func TestObserveShowsCommandsUntilItsEnd(t *testing.T) {
	p, c, _ := through(t)
	var seen []string
	end := p.Observe(func(commands [][]string) {
		for _, words := range commands {
			seen = append(seen, words[0])
		}
	})
	for _, word := range []string{"one", "two"} {
		c.send(strings.TrimSuffix(resp(word), "\n"))
		for _, line := range lines(word) {
			c.expect(line)
		}
		if end(); !slices.Equal(seen, []string{"one"}) {
			t.Errorf("seen: %q, want the first", seen)
		}
	}
}
