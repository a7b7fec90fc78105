package rueidis

import (
	"maps"
	"slices"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
)

// toReplies returns the replies up to the first result that is none, and that one's
// error.
func toReplies(results []rueidis.RedisResult) ([]driver.Reply, error) {
	replies := make([]driver.Reply, len(results))
	for i := range results {
		if err := results[i].NonRedisError(); err != nil {
			return replies[:i], err
		}
		message, _ := results[i].ToMessage() // an error reply is in the message too
		replies[i] = toReply(&message)
	}
	return replies, nil
}

func toReply(m *rueidis.RedisMessage) driver.Reply {
	switch {
	case m.IsInt64():
		number, _ := m.ToInt64()
		return driver.Reply{Kind: driver.Integer, Int: number}
	case m.IsNil():
		return driver.Reply{}
	case m.IsString(), m.IsFloat64():
		text, _ := m.ToString()
		return driver.Reply{Kind: driver.String, Str: text}
	case m.IsBool():
		if yes, _ := m.ToBool(); yes {
			return driver.Reply{Kind: driver.Integer, Int: 1}
		}
		return driver.Reply{Kind: driver.Integer}
	case m.IsArray():
		elems, _ := m.ToArray()
		reply := driver.Reply{Kind: driver.Array, Elems: make([]driver.Reply, len(elems))}
		for i := range elems {
			reply.Elems[i] = toReply(&elems[i])
		}
		return reply
	case m.IsMap():
		return toPairs(m)
	}
	text, err := m.ToString() // which, unlike the error, still has its ERR
	if err != nil {
		return driver.Reply{Kind: driver.Failure, Str: text}
	}
	if len(text) > 3 && text[3] == ':' { // a verbatim string: its format comes first
		text = text[4:]
	}
	return driver.Reply{Kind: driver.String, Str: text} // or a big number
}

// toPairs returns a map in the order of its keys: rueidis does not keep the server's.
func toPairs(m *rueidis.RedisMessage) driver.Reply {
	pairs, err := m.ToMap()
	if err != nil {
		return driver.Reply{Kind: driver.Failure, Str: "ERR " + err.Error()}
	}
	reply := driver.Reply{Kind: driver.Array, Elems: make([]driver.Reply, 0, 2*len(pairs))}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		value := pairs[key]
		reply.Elems = append(reply.Elems, driver.Reply{Kind: driver.String, Str: key}, toReply(&value))
	}
	return reply
}
