/* The protocol of a hold, as the code has it, for spin: who queues, takes, runs, dies, releases and recovers.
 *
 * One statement is one step that others see or come between; what nobody else can tell apart is put together in a
 * d_step. Any process may pause before any of its steps for as long as it likes, so the late holder, the late taker
 * and the late operator are in every run. The names in the comments are the functions that the steps stand for.
 *
 * Lanes are alike, so they are numbered in the order in which they queue. Each holds once; a killed one stays dead.
 * bench/model.py says by -D who takes part, and which line is broken.
 */

#define SHELL    LANES         /* the peer that knows only create (noclobber) and rm */
#define OPERATOR (LANES + 1)   /* holdtop recover */
#define PARTIES  (LANES + 2)
#define NOBODY   PARTIES       /* also who ran recover before, and was killed */
#define INODES   (LANES + 4)   /* enough: create asserts it */

byte path;                     /* inode at the token's path; 0: nothing lies there */
byte aside, swapped;           /* and at the names beside it: before it is named, and what came out of an exchange */
byte author[INODES + 1];       /* whose nonce a file carries */
byte fd[PARTIES];              /* OwnToken.fd: open from the take to the release */
byte pin[PARTIES];             /* token.pinned: open while it is judged and exchanged */
byte lock = NOBODY;            /* Q/.lock; the kernel drops it with its process */
byte sequence;                 /* Q/.sequence */
byte number[LANES];            /* the ticket's */
bit ticket[LANES];             /* Q/NUMBER-PID */
bit record[LANES];             /* Q/.record/NUMBER-PID.json */
byte lives[PARTIES + 1];       /* processes of a hold: with the last one go its life lock and its identity */
bit struck[PARTIES];           /* the one that acts was killed */
bit payload[LANES + 1];        /* processes of the command live */
bit unwanted[LANES];           /* evicted before its token was linked */
bit robbed[LANES];             /* somebody removed its token */
byte last;                     /* the last lane that took */
byte kills = KILLS, evictions = EVICTIONS, robberies = ROBBERIES, tidyings = TIDYINGS;

hidden byte i, p, running;     /* of no step but their own */
hidden byte two_holders, outlives_its_token, evicted_one_starts, same_number, out_of_order, names_a_strangers_file;

/* ---- what has to be true after every step ---- */

/* Who was robbed, until it has put its token back or ended its payload. A shell's token holds also where an exchange
 * has put it, until it is back. */
#define excused(p) (p == SHELL -> swapped && author[swapped] == SHELL : robbed[p])

inline check() {
	running = 0; outlives_its_token = 0;
	for (p : 0 .. SHELL) {
		running = running + payload[p];
		if
		:: payload[p] && !(path && author[path] == p) && !excused(p) -> outlives_its_token = 1
		:: else
		fi
	}
	two_holders = running > 1;
	assert(!two_holders);
	assert(!outlives_its_token)
}

/* ---- files ---- */

/* A file system may hand out the number of a removed file again as soon as nobody has it open: this one does. */
inline create(name, me) {
	i = 0;
	do
	:: i++;
		running = path == i || aside == i || swapped == i;
		for (p : 0 .. OPERATOR) {
			running = running || (!NO_DESCRIPTOR && lives[p] && fd[p] == i) || (!NO_PIN && pin[p] == i)
		}
		if
		:: running
		:: else -> break
		fi
	od;
	assert(i <= INODES);
	name = i;
	author[name] = me
}

inline unlink(name) { author[name] = 0; name = 0 }

inline take_lock(me, broken) { atomic { lock == NOBODY || broken -> lock = (broken -> lock : me) } }
inline drop_lock(me)         { lock = (lock == me -> NOBODY : lock) }

/* The token's file, complete, beside the path; what a killed one left there goes first. */
inline write_aside(me) { d_step { unlink(aside); create(aside, me); fd[me] = aside } }

/* token.take: what was to come back there has been removed with what stood for it. */
inline clear_swapped() {
	if
	:: swapped -> d_step { unlink(swapped); check() }
	:: else
	fi
}

/* token._name_it: RENAME_NOREPLACE. Without success fd[me] is 0. */
inline name_it(me) {
	d_step {
		names_a_strangers_file = aside != fd[me];
		assert(!names_a_strangers_file);
		if
		:: !path || OVERWRITE -> path = aside; aside = 0
		:: else -> unlink(aside); fd[me] = 0
		fi;
		check()
	}
}

/* ---- what one sees ---- */

/* TokenFile.ghost: of a hold, whose last process is gone. */
#define ghost    (path && author[path] != SHELL && !lives[author[path]] && !GHOST_STAYS)
/* token._restored: what lies there is no ghost's, so it came out by mistake. */
#define left_swapped (swapped && !(author[swapped] != SHELL && !lives[author[swapped]]) && !NOT_RESTORED)
/* operator.recover: also a shell's, whose pid is gone and whose payload is nowhere to be seen. */
#define freeable (ghost || path && author[path] == SHELL && !lives[SHELL] && !payload[SHELL])
/* OwnToken.in_place */
#define ours(me) (path && (path == fd[me] || author[path] == me || BLIND))
/* Whose ticket has a record runs, or has left somebody running, wherever its token is. */
#define runs(n, me) (n != me && record[n] && !ROBBED_UNSEEN)
#define lives_on(n, me) (runs(n, me) && lives[n])
#if LANES == 3
#define ANY(test, me) (test(0, me) || test(1, me) || test(2, me))
#else
#define ANY(test, me) (test(0, me) || test(1, me))
#endif
/* Waiter._may_try: whoever is ahead may be overtaken after a while, when the token is free or a ghost's. */
#define is_ahead(n, me) (n < me && ticket[n] && lives[n] && !(path && author[path] == n))
#define may_try(me) (!PROMPT || !ANY(is_ahead, me))

/* recovery.end_leftovers, recovery.forget: of a dead hold, by its nonce. */
inline end_leftovers(n) {
	if
	:: n < LANES && !LEFT_ALONE -> payload[n] = 0
	:: else
	fi
}
inline forget(n) {
	if
	:: n < LANES -> d_step { ticket[n] = 0; record[n] = 0 }
	:: else
	fi
}

/* token._swap_back: what stands at the path for a stranger's token goes, the stranger's comes back. If that one's
 * holder has released meanwhile (a shell does so by the path alone), it does not, and what was created since stays. */
inline swap_back(placed) {
	do
	:: atomic {
			path -> i = path; path = swapped; swapped = i;
			placed = (swapped == placed -> 0 : path);
			check()
		}
		if
		:: !placed -> break
		:: else
		fi
	:: !path -> placed = 0; break
	od;
	atomic { unlink(swapped); check() }
}

/* token.exchange_for, under the lock, with what was judged in pin[me]. Without success fd[me] is 0. */
inline exchange_for(me) {
	if
	:: path != pin[me] && !LOOK_NOT_AGAIN
	:: (path == pin[me] || LOOK_NOT_AGAIN) && left_swapped ->   /* _restored: somebody was killed in an exchange */
		other = path; swap_back(other)
	:: (path == pin[me] || LOOK_NOT_AGAIN) && !left_swapped ->
		write_aside(me);
		if
		:: UNLINK_AND_LINK ->
			d_step { unlink(path); check() }
			name_it(me)
		:: else ->
			d_step { unlink(swapped); swapped = aside; aside = 0 }
			d_step {                                         /* RENAME_EXCHANGE */
				if
				:: !path -> unlink(swapped); fd[me] = 0  /* ENOENT */
				:: else -> i = path; path = swapped; swapped = i
				fi;
				check()
			}
			if
			:: !fd[me]
			:: fd[me] && (swapped == pin[me] || NOT_BACK) -> d_step { unlink(swapped); check() }
			:: fd[me] && swapped != pin[me] && !NOT_BACK -> other = fd[me]; swap_back(other); fd[me] = 0
			fi
		fi
	fi
}

/* ---- a lane: Waiter, Taker, Supervisor and Keeper ---- */

/* Ending, then HoldCustody.conclude: by the keeper, or by the supervisor as its heir. */
inline end_and_conclude(me) {
	if
	:: ours(me) || ticket[me] ->                          /* not Held.concluded */
		if
		:: FREE_FIRST
		:: else -> payload[me] = 0
		fi;
		record[me] = 0;
		take_lock(me, RELEASE_UNLOCKED);
		ticket[me] = 0;
		if
		:: ours(me) -> d_step { unlink(path); drop_lock(me); check() }   /* OwnToken.release */
		:: else -> drop_lock(me)
		fi
	:: else
	fi
}

inline leave(me) {
	atomic { payload[me] = 0; ticket[me] = 0; lives[me] = 0; fd[me] = 0; unwanted[me] = 0; robbed[me] = 0; started = 0 }
}

proctype Lane(byte me) {
	byte dead = NOBODY, other;
	bit started;
	{
		/* queue.join */
		atomic { (lock == NOBODY || JOIN_UNLOCKED) && (me == 0 || number[me - 1]) ->
			d_step { lock = (JOIN_UNLOCKED -> lock : me); lives[me] = 1; number[me] = sequence + 1 }
		}
		d_step {
			sequence = number[me]; ticket[me] = 1;
			same_number = me && ticket[me - 1] && number[me] == number[me - 1];
			assert(!same_number);
			drop_lock(me)
		}
wait:		/* Waiter._until_held: asleep until there is something to do */
		if
		:: !ticket[me] -> goto gone                                      /* evicted */
		:: ticket[me] && may_try(me) && !path && !ANY(lives_on, me) -> goto take
		:: ticket[me] && may_try(me) && ghost -> goto recover
		fi;

take:		/* Taker._cleared, then token.take */
		atomic {
			for (p : 0 .. LANES - 1) {
				if
				:: record[p] && !lives[p] && !LEFT_ALONE ->
					payload[p] = 0; ticket[p] = 0; record[p] = 0
				:: else
				fi
			}
		}
		take_lock(me, TAKE_UNLOCKED);
		if
		:: (ticket[me] || UNCHECKED) && !path && !ANY(runs, me) -> clear_swapped(); write_aside(me); name_it(me)
		:: else
		fi;
		atomic {
			drop_lock(me);
			if
			:: fd[me] -> goto taken
			:: else -> goto wait
			fi
		}

recover:	/* Taker.attempt: pin, judge what is pinned, end what it left, then exchange */
		pin[me] = path;
		if
		:: d_step { pin[me] == path && ghost -> dead = author[path] }
			end_leftovers(dead);
			take_lock(me, TAKE_UNLOCKED);
			if
			:: ticket[me] || UNCHECKED -> exchange_for(me)
			:: else
			fi;
			drop_lock(me)
		:: else
		fi;
		atomic {
			pin[me] = 0;
			if
			:: fd[me]
			:: else -> dead = NOBODY; goto wait
			fi
		}
		forget(dead);

taken:		atomic {
			dead = NOBODY;
			out_of_order = PROMPT && me < last;
			assert(!out_of_order);
			last = PROMPT * me;
			if
			:: true -> goto end                     /* Taker._check: it is given back */
			:: lives[me] = 2                        /* Supervisor.start: the keeper is forked */
			fi
		}
		record[me] = !UNPUBLISHED;                      /* HoldCustody.placed */
watch:		/* HoldCustody.check: once before the command is executed, then until the end */
		if
		:: (ticket[me] || UNCHECKED) && ours(me) && !started ->
			d_step {
				started = 1; payload[me] = 1;
				evicted_one_starts = unwanted[me];
				assert(!evicted_one_starts);
				check()
			}
			goto watch
		:: (!ticket[me] && !UNCHECKED) || (path && !ours(me)) || started -> goto end
		:: !path && ticket[me] ->                       /* HoldCustody._put_back */
			take_lock(me, PUT_BACK_UNLOCKED);
			fd[me] = 0;
			if
			:: !path -> clear_swapped(); write_aside(me); name_it(me)
			:: else
			fi;
			drop_lock(me);
			goto watch
		fi;
end:		end_and_conclude(me);
gone:		leave(me)
	} unless { struck[me] };
	do
	:: d_step { struck[me] && lives[me] -> struck[me] = 0 }
		{ end_and_conclude(me); leave(me) } unless { struck[me] }
	:: else -> break
	od
}

/* ---- the others ---- */

active [SHELLS] proctype Shell() {
end_idle:                                                  /* it waits for ever at a ghost that nobody recovers */
	{
		d_step { !path -> create(path, SHELL); lives[SHELL] = 1; check() }   /* set -C; … > token */
		d_step { payload[SHELL] = 1; check() }
		payload[SHELL] = 0;
		d_step { unlink(path); lives[SHELL] = 0; check() }                   /* rm -f token, unseen */
	} unless { struck[SHELL] };
	payload[SHELL] = 0                                                     /* what it left ends by itself */
}

active [OPERATORS] proctype Recover() {
	byte dead = NOBODY, other;
end_idle:
	do
	:: {
		d_step { freeable -> lives[OPERATOR] = 1; pin[OPERATOR] = path }
		if
		:: d_step { pin[OPERATOR] == path && freeable -> dead = author[path] }
			end_leftovers(dead);
			take_lock(OPERATOR, TAKE_UNLOCKED);
			exchange_for(OPERATOR);
			if
			:: fd[OPERATOR] && ours(OPERATOR) -> d_step { unlink(path); check() }
			:: else
			fi;
			drop_lock(OPERATOR);
			if
			:: fd[OPERATOR] -> forget(dead)
			:: else
			fi
		:: else
		fi
		} unless { struck[OPERATOR] };
		d_step { lives[OPERATOR] = 0; struck[OPERATOR] = 0; fd[OPERATOR] = 0; pin[OPERATOR] = 0; dead = NOBODY; other = 0 }
	od
}

inline kill(who, left) {
	kills--; lives[who] = left; struck[who] = 1;
	lock = (lock == who && !LOCK_STAYS -> NOBODY : lock);
	pin[who] = 0;
	fd[who] = (lives[who] -> fd[who] : 0);
	for (i : 1 .. INODES) {
		author[i] = (who == OPERATOR && author[i] == OPERATOR -> NOBODY : author[i])   /* the next has another nonce */
	}
}

/* Everything that may happen to them, each only so often. */
active proctype World() {
	byte who;
end_idle:
	do
	:: atomic {
		kills || evictions || robberies || tidyings -> select(who : 0 .. OPERATOR);
		if
		:: kills && lives[who] && (who != SHELL || OPERATORS) ->              /* only an operator frees a shell's */
			kill(who, lives[who] - 1)                                     /* the one that acts */
		:: kills && lives[who] == 2 -> kill(who, 0)                           /* both */
		:: kills && lives[who] == 2 -> kills--; lives[who] = 1                /* the one that does not act */
		:: evictions && who < LANES && ticket[who] && lives[who] ->
			evictions--; ticket[who] = 0; unwanted[who] = !fd[who]
		:: robberies && lock == NOBODY && who < LANES && path && author[path] == who ->
			robberies--; robbed[who] = 1; unlink(path); check()
		:: tidyings && who < LANES && ghost && author[path] == who && !payload[who] ->
			tidyings--; unlink(path); check()
		:: else
		fi;
		who = 0
	}
	od
}

init {
	byte me;
	atomic {
		for (me : 0 .. LANES - 1) { run Lane(me) }
	}
}

#if SERVED
/* Every lane comes to its end: it held and ended, or was evicted or killed. Fair: nobody pauses for ever. */
#define over(n) (number[n] && !lives[n])
ltl served { <>(over(0) && over(1) && over(LANES - 1)) }
#endif
