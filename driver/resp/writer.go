package resp

import (
	"io"
	"strconv"

	"github.com/quorumlock/quorumlock/driver"
)

// chunk is the size from which commands are written without waiting for the rest of the batch.
// It holds a batch as locks send it.
const chunk = 64 << 10

// WriteCommands writes a batch, and returns how many bytes have left. A large batch is encoded
// piece by piece, so that encoding it does not outlast its context.
func WriteCommands(w io.Writer, cmds []driver.Command) (sent int, err error) {
	var batch []byte
	for i, cmd := range cmds {
		batch = appendCommand(batch, cmd.Args)
		if len(batch) < chunk && i < len(cmds)-1 {
			continue
		}
		n, err := w.Write(batch)
		if sent += n; err != nil {
			return sent, err
		}
		batch = batch[:0]
	}
	return sent, nil
}

// appendCommand appends a command, whose arguments are strings.
func appendCommand(batch []byte, args []any) []byte {
	batch = appendLength(batch, '*', len(args))
	for _, arg := range args {
		text := arg.(string)
		batch = append(appendLength(batch, '$', len(text)), text...)
		batch = append(batch, "\r\n"...)
	}
	return batch
}

func appendLength(batch []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(batch, kind), int64(n), 10), "\r\n"...)
}
