package fence_test

import (
	"errors"
	"fmt"
	"sync"

	"github.com/quorumlock/quorumlock/fence"
)

// An account keeps the number of the last holder beside what it protects.
type account struct {
	mu      sync.Mutex // one transaction at a time
	balance int
	fence   int64
}

func (a *account) set(balance int, number int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := fence.Check(a.fence, number); err != nil {
		return err
	}
	a.balance, a.fence = balance, number
	return nil
}

// The holder of lock 33 is paused. Meanwhile its lease runs out, and another holder writes.
func ExampleCheck() {
	var a account
	fmt.Println(a.set(150, 34))
	fmt.Println(a.set(160, 34)) // once more
	err := a.set(110, 33)       // late
	fmt.Println(err)

	var stale *fence.StaleError
	if errors.As(err, &stale) {
		fmt.Println("begin again: somebody holds", stale.Last)
	}
	fmt.Println(a.balance)
	fmt.Println(a.set(0, 0))
	// Output:
	// <nil>
	// <nil>
	// fence: 33 is stale: 34 was seen before
	// begin again: somebody holds 34
	// 160
	// fence: no fence: 0 was offered
}

// A service that is one process, and serves what it keeps in memory.
func ExampleGuard() {
	var (
		mu     sync.Mutex
		guard  fence.Guard
		prices = map[string]int{}
	)
	set := func(product string, price int, number int64) error { // number is lock.Fence()
		mu.Lock()
		defer mu.Unlock()
		if err := guard.Admit(product, number); err != nil {
			return err
		}
		prices[product] = price
		return nil
	}
	fmt.Println(set("tea", 5, 34))
	fmt.Println(set("tea", 4, 33))
	fmt.Println(set("jam", 3, 33))
	fmt.Println(prices)
	// Output:
	// <nil>
	// fence: 33 is stale: 34 was seen before
	// <nil>
	// map[jam:3 tea:5]
}

// A reader is paused: its lease runs out, and a writer comes. What the reader asks for late is
// refused, or it would mix what was before the write with what is after.
func ExampleRead() {
	var marks fence.Marks // beside the data, in one transaction with each read and write
	reader, writer := int64(33), int64(34)
	marks, err := fence.Read(marks, reader)
	fmt.Println(err)
	marks, err = fence.Write(marks, writer)
	fmt.Println(err)
	_, err = fence.Read(marks, reader)
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
	// fence: 33 is stale: 34 was seen before
}
