package main

// Which servers may vote, and what is done about those that fail.
var nodes = []mutant{
	{
		name:  "one client votes twice",
		file:  "redlock/locker.go",
		edits: []edit{{`n.Name == other.Name || same(n.Client, other.Client) || same(n.Driver, other.Driver)`, `n.Name == other.Name`}},
	},
	{
		name:  "one server under two addresses votes twice",
		file:  "redlock/identities.go",
		edits: []edit{{`if i != n.index && other == f.runID {`, `if i != n.index && other == f.runID && n == nil {`}},
	},
	{
		name:  "a replica votes",
		file:  "redlock/fitness.go",
		edits: []edit{{`if f.role == "" || f.role == "master" {`, `if f.role == "" || f.role != "" {`}},
	},
	{
		name:  "a node votes that evicts keys",
		file:  "redlock/contact.go",
		edits: []edit{{`if !n.locker.options.evictingOK {`, `if n == nil {`}},
	},
	{
		name:  "a node is not looked at again",
		file:  "redlock/nodeclock.go",
		edits: []edit{{`fit = (again || now >= n.fit.due) &&`, `fit = again &&`}},
	},
	{
		name:  "a batch that is sent once more does not ask whose connection it is on",
		file:  "redlock/nodeclock.go",
		edits: []edit{{`fit = (again || now >= n.fit.due) &&`, `fit = now >= n.fit.due &&`}},
	},
	{
		name: "a batch that is sent once more counts without an answer to whose connection it is on",
		file: "redlock/tail.go",
		edits: []edit{{`		t.unfit = errUnasked
`, `		t.unfit = nil
`}},
	},
	{
		name:  "the votes count of the batch behind which a node was found to be unfit",
		file:  "redlock/tail.go",
		edits: []edit{{`	case t.unfit != nil:`, `	case t.unfit != nil && err != nil:`}},
	},
	{
		name: "a twin that is found later goes on voting",
		file: "redlock/fitness.go",
		edits: []edit{{`	reborn, err := n.identify(&f)
`, `	reborn, _ := n.identify(&f)
	var err error
`}},
	},
	{
		name:  "an eviction policy that is switched on later goes unseen",
		file:  "redlock/fitness.go",
		edits: []edit{{`n.fit.unfit = cmp.Or(f.replica(), err, evicting, unfit)`, `n.fit.unfit = cmp.Or(f.replica(), err, unfit)`}},
	},
	{
		name:  "a node that becomes a replica later goes on voting",
		file:  "redlock/fitness.go",
		edits: []edit{{`n.fit.unfit = cmp.Or(f.replica(), err, evicting, unfit)`, `n.fit.unfit = cmp.Or(err, evicting, unfit)`}},
	},
	{
		name:  "a server votes twice for one lock, as two nodes that have changed places",
		file:  "redlock/operation.go",
		edits: []edit{{`op.task.agrees(answer) && op.twice(r) {`, `op.task.agrees(answer) && op.twice(r) && r == nil {`}},
	},
	{
		name: "nodes that have changed places keep each other out",
		file: "redlock/identities.go",
		edits: []edit{{`			ids.of[n.index] = ""
`, ``}},
	},
	{
		name:  "closing a Locker closes the drivers that another one shares",
		file:  "redlock/locker.go",
		edits: []edit{{`if u.of[d]--; u.of[d] > 0 {`, `if u.of[d]--; u == nil {`}},
	},
	{
		name:  "a Locker on nodes that were closed waits for them to come back",
		file:  "redlock/refusal.go",
		edits: []edit{{`errors.Is(err, ErrNodeSet) || errors.Is(err, driver.ErrClosed)`, `errors.Is(err, ErrNodeSet)`}},
	},
}
