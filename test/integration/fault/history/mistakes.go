package history

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
