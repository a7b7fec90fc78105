/* Split votes: who asks again, who lets go, and whether somebody gets the key.
 *
 * Clients ask for a free key at the same moment, each with one token, and in each round the nodes in any
 * order. UP nodes answer; a quorum is Q. Once Q have answered, a round may end at any
 * time, without the others: so those that answer late are in it, too. ALL: it waits for all UP. A client whose round has Q
 * votes has the key, for good. Who sees Q votes for another token lets go, and is told that the key
 * is held. Of the rest, who sees no token that ranks before its own (more votes; among equals the
 * greater token) asks again, and the others let go. Who lets go takes its token away at
 * one node after the other, also where a request of its own comes late.
 *
 * There are no leases, no pauses and no bound for rounds, and who has let go does not try again.
 *
 * What must hold: never two have the key; if nobody gets it, not all are told that it is held; and,
 * with every process going on (weak fairness), no contest is without an end. CERTAIN: somebody gets it.
 */
#ifndef UP
#define UP 2
#endif
#ifndef Q
#define Q 2
#endif
#ifndef CLIENTS
#define CLIENTS 3
#endif

#ifdef ALL
#define ENOUGH UP
#else
#define ENOUGH Q
#endif

byte holder[UP];	/* 0: nobody; else the client */
byte had;		/* the key */
byte told;		/* that it is held */
byte over;

inline count(whose, result) {
	result = 0;
	i = 0;
	do
	:: i < UP -> result = result + (view[i] == whose); i++
	:: else -> break
	od
}

proctype client(byte me)
{
	byte view[UP];	/* what the nodes have said in this round */
	byte i, n, answers, mine, most, c, votes;
	bool leads, held;

round:
	if
	:: had != 0 -> progress: skip	/* and soon it will be told so */
	:: else
	fi;
	atomic {
		n = 0;
		do
		:: n < UP -> view[n] = 0; n++
		:: else -> break
		od;
		n = 0; answers = 0
	}
	do
	:: atomic { answers < UP ->
		if
		:: view[0] == 0 -> n = 0
		:: view[1] == 0 -> n = 1
#if UP > 2
		:: view[2] == 0 -> n = 2
#endif
#if UP > 3
		:: view[3] == 0 -> n = 3
#endif
		fi;
		if
		:: holder[n] == 0 -> holder[n] = me
		:: else
		fi;
		view[n] = holder[n];
		answers++
	   }
	:: answers >= ENOUGH -> break
	od;
	atomic {
		count(me, mine);
		if
		:: mine >= Q ->
			assert(had == 0);
			had = me;
			goto end
		:: else
		fi;
		leads = mine > 0;
		held = false;
		c = 1;
		do
		:: c > CLIENTS -> break
		:: c <= CLIENTS ->
			if
			:: c != me ->
				count(c, votes);
				held = held || votes >= Q;
				leads = leads && !(votes > mine || votes > 0 && votes == mine && c > me)
			:: else
			fi;
			c++
		od;
#ifdef MUTANT_NOBODY_LEADS
		leads = false;
#endif
#ifdef MUTANT_NOBODY_LETS_GO
		leads = true;
#endif
#ifdef MUTANT_MAY_BE_HELD
		held = true;
#endif
		if
		:: leads && !held -> goto round
		:: else
		fi;
		told = told + held;
		n = 0
	}
	do
	:: atomic { n < UP ->
		if
		:: view[n] == 0 && holder[n] == 0 ->
			holder[n] = me;	/* late */
#ifdef MUTANT_LATE_GRANT
			view[n] = me;
			count(me, mine);
			if
			:: mine >= Q -> assert(had == 0); had = me; goto end
			:: else
			fi
#endif
		:: else
		fi }
		atomic {
		if
		:: holder[n] == me -> holder[n] = 0
		:: else
		fi;
		n++ }
	:: n >= UP -> break
	od;
end:
	atomic {
		over++;
		if
		:: over == CLIENTS ->
			assert(had != 0 || told < CLIENTS);
#ifdef CERTAIN
			assert(had != 0)
#endif
		:: else
		fi
	}
}

init {
	atomic {
		byte c = 1;
		do
		:: c <= CLIENTS -> run client(c); c++
		:: else -> break
		od
	}
}
