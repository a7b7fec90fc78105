package inspect

import (
	"errors"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
)

// inForce reports whether the settings need a feature.
func (e *exam) inForce(f *acl.Feature) bool {
	return map[*acl.Feature]bool{
		acl.Locks: true, acl.Fences: e.Fences, acl.RestartGuard: e.RestartGuard, acl.Replicated: e.Replicated > 0 && !e.Durable, acl.Durable: e.Durable,
	}[f]
}

// checkRights says what the user lacks, and what it has and does not need.
func (t *target) checkRights() {
	needed := []*acl.Feature{acl.Locks, acl.WakeUps}
	for _, f := range acl.Features {
		if t.exam.inForce(f) && f != acl.Locks {
			needed = append(needed, f)
		}
	}
	name := t.locksUser()
	if name == "default" {
		name = "locks" // the default user may be an administrator's, who would lose his rights
	}
	t.report.ACL = Printable("ACL SETUSER " + name + " " + strings.Join(acl.Anew(t.exam.Prefix, needed...), " "))
	r := &t.rights
	switch {
	case r.excluded:
		t.find("acl", Unfit, Seen{"user": t.locksUser()}, "there is no such user at the node",
			t.newUser(t.locksUser(), needed)...)
		return
	case r.missing == nil:
		t.cannotTell("acl", "what "+t.locksUser()+" may do", "acl|dryrun", r.refused)
		return
	}
	t.noteWake()
	var lacks, others, forWhat, forOthers []string
	for _, f := range acl.Features {
		rules := t.lacking(f)
		switch {
		case len(rules) == 0 || f == acl.Doctor: // see [target.gather]
		case t.exam.inForce(f):
			lacks, forWhat = append(lacks, rules...), append(forWhat, f.Name)
		default:
			others, forOthers = append(others, rules...), append(forOthers, f.Name)
		}
	}
	var mend []string
	if lacks != nil {
		mend = append(mend, t.allow(t.typed(lacks, "~", "&")...))
	}
	if others != nil {
		if slices.Contains(lacks, "~*") {
			others = slices.DeleteFunc(others, func(rule string) bool { return rule[0] == '~' })
		}
		mend = append(mend, "# and for "+strings.Join(forOthers, ", ")+":", t.allow(t.typed(others, "&")...))
	}
	switch {
	case lacks != nil:
		t.find("acl", Unfit, Seen{"user": t.locksUser(), "lacks": join(lacks), "for": strings.Join(forWhat, ", ")},
			"the node has no vote: its user may not do what locks need", mend...)
	case others != nil:
		t.find("acl", Warning, Seen{"user": t.locksUser(), "lacks": join(others), "for": strings.Join(forOthers, ", ")},
			"clients that use these have no vote from the node, and waiters that are not woken poll it", mend...)
	}
	if !r.keys && t.exam.Prefix == "" {
		t.find("acl", Unknown, Seen{"user": t.locksUser(), "keys": "some"}, "nobody can tell whether its user may use the keys of locks: it may not use all keys",
			"# give the prefix of the keys (--prefix), or see that these rules name them: "+acl.Locks.String())
	}
	if len(r.broad) > 0 && lacks == nil && others == nil { // first it gets what it lacks
		t.find("acl", Info, Seen{"user": t.locksUser(), "may": strings.Join(r.broad, ", ")},
			"the user may do more than locks need: give them one of their own", t.newUser("locks", needed)...)
	}
}

// typed are rules as one line of ACL SETUSER takes them. Where nobody can tell whether the user has
// rules for keys ("~") or channels ("&"), the line takes them away first: a server refuses a whole
// line that adds a pattern to that of all. Who may run no command with a key loses nothing by it.
func (t *target) typed(rules []string, kinds ...string) (line []string) {
	line = distinct(rules)
	if slices.Contains(line, "~*") {
		line = slices.DeleteFunc(line, func(rule string) bool { return rule[0] == '~' && rule != "~*" })
	}
	for _, kind := range kinds {
		if t.rights.untried[kind[0]] && slices.ContainsFunc(line, func(rule string) bool { return rule[0] == kind[0] }) {
			line = append([]string{map[string]string{"~": "resetkeys", "&": "resetchannels"}[kind]}, line...)
		}
	}
	return line
}

// noteWake notes what a subscription has shown of the rights: without ACL DRYRUN nothing else does.
func (t *target) noteWake() {
	var reply *driver.ServerError
	if !errors.As(t.wake.err, &reply) || reply.Code != "NOPERM" {
		return
	}
	t.rights.missing[acl.WakeUps] = distinct(append(t.rights.missing[acl.WakeUps], wanted(reply.Error(), t.exam.Prefix, acl.WakeUps)...))
}

// wanted are the rules of a feature that a refusal asks for: its commands, or its keys and channels.
func wanted(refusal, prefix string, f *acl.Feature) []string {
	ofCommand, _ := forbids(driver.Reply{Kind: driver.Failure, Str: refusal})
	return slices.DeleteFunc(acl.Rules(prefix, f), func(rule string) bool { return ofCommand != (rule[0] == '+') })
}

// newUser is how the node gets a user that may do what is needed, and no more.
func (t *target) newUser(name string, needed []*acl.Feature) []string {
	return []string{
		t.redis(append([]string{"acl", "setuser", name}, acl.Anew(t.exam.Prefix, needed...)...)...),
		"# then a password, also in the URLs of all clients: ACL SETUSER " + name + " on >PASSWORD",
	}
}

// lacking are the rules that a feature lacks, as far as they can be told: of a user who may not
// use all keys under an empty prefix nobody knows which ones locks have.
func (t *target) lacking(f *acl.Feature) (rules []string) {
	for _, rule := range t.rights.missing[f] {
		if strings.HasPrefix(rule, "~") && !t.rights.keys && t.exam.Prefix == "" {
			continue
		}
		rules = append(rules, rule)
	}
	return rules
}

// distinct are the words in order, each once.
func distinct(words []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(words)))
}

// gather makes one finding of all that the ACL of the nodes' user is the cause of: what it lacks for
// locks, and what nobody can tell without. A finding whose id nobody asks for, or that is known,
// stays as it is.
func (t *target) gather() {
	counts := func(id string) bool {
		return (t.exam.Only == nil || slices.Contains(t.exam.Only, id)) && !slices.Contains(t.exam.Accepted, id)
	}
	if !counts("acl") {
		return
	}
	var caused, rest []Finding
	for _, f := range t.report.Findings {
		if f.lacks != nil && counts(f.ID) {
			caused = append(caused, f)
		} else {
			rest = append(rest, f)
		}
	}
	at := slices.IndexFunc(rest, func(f Finding) bool { return f.ID == "acl" && f.Severity != Info })
	if caused == nil || at < 0 && len(caused) == 1 {
		return
	}
	if at < 0 {
		t.report.Findings, at = rest, len(rest)
		t.find("acl", Unknown, Seen{"user": t.asker()}, "nobody can tell what its user may not ask")
		rest = t.report.Findings
	}
	f := &rest[at]
	var ids, untold []string
	lacks := t.lacking(acl.Doctor)
	for _, c := range caused {
		f.Severity = worse(f.Severity, c.Severity)
		if c.Severity == Unknown {
			untold, lacks = append(untold, c.ID), append(lacks, c.lacks...)
		} else {
			ids = append(ids, c.ID)
		}
	}
	if ids != nil {
		f.Seen["also"] = strings.Join(distinct(ids), ", ")
	}
	if untold != nil {
		f.Seen["untold"] = strings.Join(distinct(untold), ", ")
		f.Mend = append(f.Mend, "# for doctor to tell what nobody can:", Printable(t.redis(append([]string{"acl", "setuser", t.asker()}, distinct(lacks)...)...)))
	}
	t.report.Findings = rest
}

func join(rules []string) string { return strings.Join(distinct(rules), " ") }
