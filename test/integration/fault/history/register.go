package history

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// patience is how long the search for an order of one key's visits may take. A search
// that takes longer has proved nothing. It takes a tenth of a second for 25,000.
const patience = time.Minute

// register is what the visits of one key have to look like from outside: one content, ""
// at first, that each visit finds and replaces.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(content, visit, _ any) (bool, any) {
		v := visit.(Visit)
		return v.Found == content, v.Left
	},
}

// Register finds the keys whose visits are not linearizable: no order of them, in which
// each takes effect between its call and its return, explains what all have found.
func Register(l *Log) []Violation {
	var violations []Violation
	for key, visits := range byKey(l.Visits) {
		if mixed := unlike(key, visits); len(mixed) > 0 {
			violations = append(violations, mixed...)
			continue
		}
		visits = happened(visits)
		history := make([]porcupine.Operation, len(visits))
		for i, v := range visits {
			history[i] = porcupine.Operation{Input: v, Call: int64(v.Called), Return: int64(v.Returned)}
		}
		result := porcupine.CheckOperationsTimeout(register, history, patience)
		violations = append(violations, explain(result, key, visits)...)
	}
	return violations
}

// explain tells what is wrong if the visits are not known to be linearizable.
func explain(result porcupine.CheckResult, key string, visits []Visit) []Violation {
	switch result {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		if found := mistakes(key, visits); len(found) > 0 {
			return found
		}
		return []Violation{because(key, nil, "no order explains %d visits", len(visits))}
	}
	return []Violation{because(key, nil, "unknown: no order of %d visits was found in %v, and none was ruled out", len(visits), patience)}
}

// unlike finds contents that do not tell who left them, on which happened and mistakes
// rely.
func unlike(key string, visits []Visit) []Violation {
	var found []Violation
	left := map[string]Visit{}
	for _, v := range visits {
		if v.Left == "" {
			found = append(found, because(key, []event{v}, "%s left the content that is there at first", v.Client))
		} else if other, ok := left[v.Left]; ok {
			found = append(found, because(key, []event{other, v}, "%s and %s both left %q", other.Client, v.Client, v.Left))
		}
		left[v.Left] = v
	}
	return found
}

// happened returns the visits that have certainly been made. What is left out changes no
// answer, and what is left has no "perhaps" in it:
//
//   - A visit that returned was made.
//   - A visit that somebody found was made, if the finder's was: nobody else leaves the
//     same. It was made before the finder's, so that its unknown return says nothing more.
//   - Any other may have been made or not, and if so it was the last: a visit made behind
//     it would have found it. So an order with it is one without it as well; and an order
//     without it is one in which it was not made.
func happened(visits []Visit) []Visit {
	unknown := map[string]Visit{}
	var made []Visit
	for _, v := range visits {
		if v.Returned == Never {
			unknown[v.Left] = v
		} else {
			made = append(made, v)
		}
	}
	for i := 0; i < len(made); i++ { // made grows
		if v, ok := unknown[made[i].Found]; ok {
			made = append(made, v)
			delete(unknown, v.Left)
		}
	}
	return made
}

func because(key string, parties []event, format string, args ...any) Violation {
	return Violation{Rule: "register", Key: key, Span: hull(parties), What: fmt.Sprintf(format, args...), parties: parties}
}

// mistakes says what is wrong with visits that all were made. Each left something of its
// own: so each has one visit before it, whose content it found, or is the first. If no
// two found the same, nothing was found that nobody left, and none comes behind itself,
// then there is one order that explains all, and what is left to be wrong is that two
// visits, near or far in it, have the other order in time. So something is always found
// where no order explains the visits, and nothing where one does.
func mistakes(key string, visits []Visit) []Violation {
	var violations []Violation
	wrong := func(format string, parties []event, args ...any) {
		violations = append(violations, because(key, parties, format, args...))
	}
	left := map[string]bool{"": true}
	for _, v := range visits {
		left[v.Left] = true
	}
	found := map[string][]Visit{}
	var roots []Visit
	for _, v := range visits {
		if others := found[v.Found]; len(others) > 0 {
			wrong("a lost update: %s and %s both found %q", []event{others[0], v}, others[0].Client, v.Client, v.Found)
		}
		found[v.Found] = append(found[v.Found], v)
		if !left[v.Found] {
			wrong("%s found %q, which nobody left", []event{v}, v.Client, v.Found)
			roots = append(roots, v)
		}
	}
	roots = append(roots, found[""]...)

	// Each visit is looked at behind the one that it found, with the one that was called
	// last of all before it.
	latest := map[string]Visit{}
	told := map[string]bool{}
	walk := func(reached ...Visit) {
		for i := 0; i < len(reached); i++ { // reached grows
			v := reached[i]
			if _, again := latest[v.Left]; again {
				continue
			}
			before, some := latest[v.Found]
			if some && v.Returned < before.Called && !told[before.Left] {
				told[before.Left] = true
				if before.Left == v.Found {
					wrong("%s found %q, and had returned before %s was called to leave it",
						[]event{before, v}, v.Client, v.Found, before.Client)
				} else {
					wrong("%s, by what was found, comes behind %s, and had returned before that was called",
						[]event{before, v}, v.Client, before.Client)
				}
			}
			if !some || v.Called > before.Called {
				before = v
			}
			latest[v.Left] = before
			reached = append(reached, found[v.Left]...)
		}
	}
	walk(roots...)
	for _, v := range visits {
		if _, ok := latest[v.Left]; !ok {
			wrong("%s found %q, which goes back to no first visit", []event{v}, v.Client, v.Found)
			walk(v)
		}
	}
	return violations
}
