package proxy

import (
	"reflect"
	"slices"
	"testing"
)

func TestABatchIsSplitIntoItsCommands(t *testing.T) {
	const (
		ping = "*1\r\n$4\r\nPING\r\n"
		set  = "*3\r\n$3\r\nSET\r\n$3\r\n*\r\n\r\n$0\r\n\r\n" // a key that looks like a command, and nothing in it
	)
	for _, tt := range []struct {
		batch string
		want  [][]string
		ends  []int
	}{
		{"", nil, []int{0}},
		{ping, [][]string{{"PING"}}, []int{0, len(ping)}},
		{ping + set + ping, [][]string{{"PING"}, {"SET", "*\r\n", ""}, {"PING"}}, []int{0, len(ping), len(ping + set), len(ping + set + ping)}},
		{ping + set[:len(set)-1], [][]string{{"PING"}}, []int{0, len(ping)}}, // the second is not whole
		{set[4:], nil, []int{0}},
		{"PING\r\n", nil, []int{0}},
		{"*0\r\n" + ping, nil, []int{0}},
		{"*-1\r\n", nil, []int{0}},
		{"*1\r\n$-1\r\n", nil, []int{0}},
		{"*9223372036854775807\r\n$9223372036854775807\r\nx\r\n", nil, []int{0}},
		{"*99999999999999999999\r\n", nil, []int{0}},
	} {
		if got, ends := commands([]byte(tt.batch)); !reflect.DeepEqual(got, tt.want) || !slices.Equal(ends, tt.ends) {
			t.Errorf("%q has the commands %q that end at %v, want %q at %v", tt.batch, got, ends, tt.want, tt.ends)
		}
	}
}
