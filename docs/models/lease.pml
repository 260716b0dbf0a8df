/* lease.pml - attempts on other machines (docs/decisions/015-redis.md): lease, fence, epoch and takeover, for Spin. The variants, what
 * is left out and the measured results: README.md beside this file. tests/checks/model.py runs it.
 *
 * One task, which a runner sends out under a new id each time it was lost; workers with one place each; their guards; a server. A step
 * of the server is one atomic statement. Between a request, its step and its answer anything may happen, and the answer may be lost. A
 * stopped worker or runner needs nothing: it is one that the scheduler does not choose. Time is a clock that all have (boot clocks run
 * alike): it goes on at any moment, except that a guard ends what is due before the next tick. L is a lease, K the age at which a copy is
 * ended.
 *
 * Asserted: never two copies at once (with FREEZE: not across a tick, unless one of them is frozen); no end is taken while a copy runs, or
 * from a copy that the guard has killed; an attempt that is out is queued, leased or reported, so none is lost for ever; with
 * PROMPT nothing is taken over. Bounds (-D...):
 *   NW=n workers (2)   LOST=n takeovers until the run gives up (2)   FAULTS=n (1)   LOSSES=n answers that are lost (1)
 * Faults that can be added:
 *   FORGET  the server is emptied, or starts again empty     PAST  it starts again with an older dump
 *   CRASH   a worker is killed, its guard ends the copy and gives the lease back      RESUME  the runner is killed, another one goes on
 *   FREEZE  worker 0 is frozen with its guard and its task     PROMPT  nothing is slow: only answers are lost
 * Mutants (each must give a violation):
 *   RENEWPAST    a renewal is granted by a server in the past: it compares nothing, and the runner does not sweep (with PAST)
 *   RENEWFIRST   the worker looks at its clock after renewing
 *   NOLOOKAFTER  the worker does not look at its clock after it has told its guard of a renewal
 *   NONUMBER     a claim has no number (with PROMPT)
 *   NOREPEAT     the repeated answer to a claim does not renew
 *   AFTERSEND    a lease is counted from when the answer comes
 *   NOWAIT       a lease is taken over without waiting for one lease
 *   NOSETTLE     a runner that finds another server opens it at once (with FORGET)
 *   SAMEID       what was taken back comes again with the same id (with FORGET)
 *   NOFENCE      a result is taken without its fence (with SAMEID)
 *   QUIET        a takeover is only in the answer, not in the results
 *   EARLY        a runner that goes on does not wait for what it has revoked (with RESUME) */
#ifndef NW
#define NW 2
#endif
#ifndef LOST
#define LOST 2
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifdef PROMPT
#define L 3
#else
#define L 2
#endif
#define K (L - 1)
#define NI (LOST + 2) /* ids begin with 1 */
#define NONE 0
#define QUEUED 1
#define LEASED 2
#define BACK 3
#define DONE 4
#define WANTED 5
#define GONE 0
#define SETTLING 1
#define OPEN 2

typedef data {
  byte srv, ep, ph, fence; /* meta */
  byte st[NI], f[NI];            /* state, and the fence, which tells the worker, too */
  byte at[NI];                   /* lease: 0 none, 1 its tick was seen by the runner, 2 it has moved since */
  byte ended[NI];                /* results: the fence of an end */
  bool back[NI];                 /* results: it went back */
  byte num[NW], nid[NW], nf[NW]; /* the last claim of each worker */
  byte rev[NI]                   /* revoked: the fence */
};
data S;
byte sid = 1; /* the server's own id */
#ifdef PAST
data D;
bool has_dump;
#endif

bool alive[NW], killed[NW]; /* the copy: it runs; its guard has killed it */
bool frozen[NW], calls[NW], asked[NW], owes[NW]; /* a claim is unanswered; an end is not sent */
bool tells[NW];              /* its guard has not heard of a renewal yet */
byte hold[NW], hf[NW];      /* what a worker has */
byte age[NW], gage[NW], oage[NW], since[NW]; /* since the request: of the lease, as the guard knows it, as it was; of the call */
byte cur = 1;               /* the id that is out */
byte rage, settle;          /* of the runner: since it has seen the tick; how long it settles */
byte faults, losses, ends;
bool over, has_claimed;

#define SAME_SERVER (S.ph != GONE && S.srv == sid)
#define IS_MINE(i) (S.st[i] == LEASED && S.f[i] == hf[w])
#define IS_QUEUED (S.st[cur] == QUEUED || S.st[cur - 1] == QUEUED) /* a hint */
#ifdef FREEZE
#define MAY_CLAIM true
#else
#define MAY_CLAIM (w == 0 || has_claimed) /* workers are alike: the first claim is worker 0's */
#endif
#define COPIES (alive[0] + alive[1])

inline wipe(X) {
  d_step {
    X.srv = 0; X.ep = 0; X.ph = GONE; X.fence = 0;
    i = 0;
    do :: i < NI -> X.st[i] = 0; X.f[i] = 0; X.at[i] = 0; X.ended[i] = 0; X.back[i] = 0; X.rev[i] = 0; i++ :: else -> break od;
    i = 0;
    do :: i < NW -> X.num[i] = 0; X.nid[i] = 0; X.nf[i] = 0; i++ :: else -> break od;
    i = 0
  }
}

inline copy(X, Y) {
  d_step {
    X.srv = Y.srv; X.ep = Y.ep; X.ph = Y.ph; X.fence = Y.fence;
    i = 0;
    do :: i < NI -> X.st[i] = Y.st[i]; X.f[i] = Y.f[i]; X.at[i] = (Y.at[i] -> 2 : 0); X.ended[i] = Y.ended[i]; X.back[i] = Y.back[i];
                    X.rev[i] = Y.rev[i]; i++ :: else -> break od;
    i = 0;
    do :: i < NW -> X.num[i] = Y.num[i]; X.nid[i] = Y.nid[i]; X.nf[i] = Y.nf[i]; i++ :: else -> break od;
    i = 0
  }
}

/* An answer comes, or is lost. */
inline answered(got) { if :: got = 1 :: losses < LOSSES -> losses++; got = 0 fi }

#define w _pid /* workers are the first processes */

/* ---- workers -------------------------------------------------------------------------------------------- */

inline ask() { atomic { since[w] = 0; calls[w] = 1 } }

inline start() {
#ifdef AFTERSEND
  age[w] = 0;
#else
  age[w] = since[w];
#endif
  gage[w] = age[w]; oage[w] = 0; hold[w] = rid; hf[w] = rf; killed[w] = 0;
  if :: age[w] >= K -> back = 1
     :: else -> alive[w] = 1;
#ifndef FREEZE
        assert(COPIES == 1)
#endif
  fi
}

inline serve_claim() {
  ok = SAME_SERVER; rid = 0;
  if :: ok ->
#ifndef NONUMBER
        if :: S.num[w] == number -> rid = S.nid[w]; rf = S.nf[w];
              if :: rid && S.st[rid] == LEASED && S.f[rid] == rf ->
#ifndef NOREPEAT
                    S.at[rid] = 2
#endif
                 :: else -> rid = 0
              fi
           :: else ->
#endif
              if :: S.ph == OPEN ->
                    S.num[w] = number; i = 1;
                    do :: i < NI && S.st[i] != QUEUED -> i++ :: else -> break od;
                    if :: i < NI -> S.fence++; S.st[i] = LEASED; S.f[i] = S.fence; S.at[i] = 2; rid = i; rf = S.fence; has_claimed = 1 :: else fi;
                    S.nid[w] = rid; S.nf[w] = (rid -> rf : 0); i = 0
                 :: else
              fi
#ifndef NONUMBER
        fi
#endif
     :: else
  fi
}

inline serve_end() {
  ok = SAME_SERVER; letter = 0;
  if :: ok -> letter = 'a';
        if :: S.rev[kept] == kf -> S.rev[kept] = 0 :: else fi;
        if
#ifdef NOFENCE
        :: S.st[kept] == LEASED || (S.ph == SETTLING && S.st[kept] == WANTED) ->
#else
        :: (S.st[kept] == LEASED && S.f[kept] == kf) || (S.ph == SETTLING && S.st[kept] == WANTED) ->
#endif
#ifndef FREEZE
           assert(COPIES == 0 || kept != cur);
#endif
           S.st[kept] = DONE; S.f[kept] = kf; S.ended[kept] = kf; letter = 'y' /* its lease stays until it is acknowledged */
        :: else -> if :: S.ph == SETTLING && S.st[kept] == NONE -> letter = 'd' :: else fi
        fi
     :: else
  fi
}

inline serve_renew() {
#ifdef RENEWPAST
  ok = 1; letter = (IS_MINE(hold[w]) -> 'k' : 'l');
  if :: letter == 'k' -> S.at[hold[w]] = 2 :: else fi
#else
  ok = SAME_SERVER; letter = 0;
  if :: ok && S.ph == OPEN -> letter = 'l';
        if :: IS_MINE(hold[w]) -> S.at[hold[w]] = 2; letter = 'k' :: else fi
     :: else
  fi
#endif
}

inline serve_back() {
  ok = SAME_SERVER;
  if :: ok ->
        if :: S.rev[hold[w]] == hf[w] -> S.rev[hold[w]] = 0 :: else fi;
        if :: IS_MINE(hold[w]) -> S.st[hold[w]] = BACK; S.at[hold[w]] = 0; S.back[hold[w]] = 1 :: else fi
     :: else
  fi
}

/* The place is free again. */
inline place_free() { hold[w] = 0; hf[w] = 0; back = 0; age[w] = 0; gage[w] = 0; oage[w] = 0; killed[w] = 0 }
inline hang_up() { calls[w] = 0; since[w] = 0; ok = 0; got = 0; letter = 0; rid = 0; rf = 0 }

active [NW] proctype worker() provided (!frozen[_pid]) {
  byte i, rid, rf, letter, kept, kf, number = 1;
  bool ok, got, back, sent;
  { do

  /* The clock, and the end of the process. */
  :: atomic { hold[w] && !back && age[w] >= K -> alive[w] = 0; back = 1 }
  :: atomic { hold[w] && !back && age[w] < K && !alive[w] && !kept ->
       assert(!killed[w]);
       kept = hold[w]; kf = hf[w]; sent = 0; owes[w] = 1; place_free() }

  :: hold[w] == 0 && (asked[w] || IS_QUEUED) && MAY_CLAIM -> /* a claim */
       atomic { if :: !asked[w] -> asked[w] = 1; number = 3 - number :: else fi };
       ask();
       atomic { serve_claim() };
       atomic { answered(got);
         if :: got -> asked[w] = 0; if :: rid -> start() :: else fi :: else fi;
         hang_up() }

#ifdef RENEWFIRST
  :: hold[w] && !back ->
#else
  :: hold[w] && !back && age[w] < K -> /* renewal (W2) */
#endif
       ask();
       atomic { serve_renew() };
       atomic { answered(got);
         if :: got && letter == 'k' -> oage[w] = age[w]; age[w] = since[w]; tells[w] = 1
            :: got && letter == 'l' -> alive[w] = 0; place_free(); hang_up()
            :: else -> hang_up()
         fi };
       if :: tells[w] ->
             atomic { gage[w] = age[w] }; /* the guard hears of it */
             atomic {
#if !defined(NOLOOKAFTER) && !defined(RENEWFIRST)
               if :: oage[w] >= K -> alive[w] = 0; back = 1 :: else fi; /* the guard may have killed it before it heard */
#endif
               oage[w] = 0; tells[w] = 0; hang_up() }
          :: else
       fi

  :: kept && !sent -> /* its end */
       atomic { serve_end(); answered(got);
         if :: got && letter == 'a' -> kept = 0; kf = 0; owes[w] = 0 :: got && (letter == 'y' || letter == 'd') -> sent = 1; owes[w] = 0 :: else fi;
         hang_up() }

  :: atomic { kept && sent && SAME_SERVER && !(S.st[kept] == DONE && S.f[kept] == kf) -> /* is it wanted again? */
       if :: S.st[kept] == WANTED -> sent = 0
          :: S.st[kept] == NONE && S.ph == SETTLING
          :: else -> kept = 0; kf = 0; sent = 0
       fi }

  :: hold[w] && back -> /* it goes back */
       atomic { serve_back(); answered(got); if :: got -> place_free() :: else fi; hang_up() }

#ifdef RESUME
  :: atomic { hold[w] && !back && S.rev[hold[w]] == hf[w] -> alive[w] = 0; back = 1 } /* the order to end it */
#endif
#ifdef CRASH
  :: atomic { faults < FAULTS -> faults++; hang_up(); asked[w] = 0; kept = 0; kf = 0; sent = 0; back = 0 };
       atomic { alive[w] = 0; gage[w] = 0 }; /* G2 */
       atomic { if :: hold[w] -> serve_back() :: skip fi; place_free(); ok = 0;
         S.num[w] = 0; S.nid[w] = 0; S.nf[w] = 0 } /* another worker */
#endif
  od } unless { over }
}

/* ---- the runner ----------------------------------------------------------------------------------------- */

inline lose() {
  rage = 0; out = 0; unsure = 0;
  if :: cur == LOST + 1 -> over = 1
     :: else ->
#ifdef SAMEID
        ids++; if :: ids > LOST -> over = 1 :: else fi; S.st[cur] = NONE; S.back[cur] = 0
#else
        S.st[cur] = NONE; cur++
#endif
  fi
}

inline stale() { phase = GONE; epoch++ }
#define FITS (SAME_SERVER)

active proctype runner() {
  byte i, phase, epoch = 1, out /* 0 new, 1 sent, 2 pushed */, ids;
  bool unsure, has_begun, was_interrupted, may_be_early, is_new, taken, got;
  { do

  :: phase == GONE ->
       atomic {
         is_new = S.ph == GONE;
         may_be_early = !has_begun && S.ph == OPEN && S.srv == sid;
         S.ep = (S.ep + 1 > epoch -> S.ep + 1 : epoch); epoch = S.ep;
         S.srv = sid; S.ph = SETTLING; S.fence = epoch * 8;
         i = 1;
         do :: i < NI -> if :: may_be_early && S.at[i] && S.st[i] == LEASED -> S.rev[i] = S.f[i] :: else fi; i++ :: else -> break od;
         i = 0 };
       atomic {
         if :: FITS ->
#ifndef RENEWPAST
               i = 0;
               do :: i < NI -> S.st[i] = 0; S.f[i] = 0; S.at[i] = 0; S.ended[i] = 0; S.back[i] = 0; i++ :: else -> break od;
               i = 0;
#endif
               settle = (has_begun || was_interrupted || !is_new -> L : 0);
               unsure = out > 0; out = 0; phase = SETTLING
            :: else -> stale()
         fi }

  /* What is out is wanted, so that its end is taken. */
  :: atomic { phase == SETTLING && unsure && FITS && S.st[cur] == NONE -> S.st[cur] = WANTED }

#if defined(NOSETTLE)
  :: atomic { phase == SETTLING ->
#elif defined(EARLY)
  :: atomic { phase == SETTLING && (settle == 0 || may_be_early) ->
#else
  :: atomic { phase == SETTLING && (settle == 0 || (may_be_early && S.rev[cur - 1] == 0)) ->
#endif
       if :: FITS -> S.ph = OPEN; phase = OPEN; has_begun = 1; settle = 0;
             if :: unsure && !S.ended[cur] -> lose() :: else fi
          :: else -> stale()
       fi }

  :: atomic { phase == OPEN && out < 2 -> /* the push; it is repeated until it is answered */
       if :: FITS ->
             if :: S.st[cur] == NONE || S.st[cur] == WANTED -> S.st[cur] = QUEUED :: else fi;
            
             answered(got);
             if :: got -> out = 2 :: else -> out = 1 fi
          :: else -> stale()
       fi }

  /* Results. */
  :: atomic { phase != GONE && FITS && S.ended[cur] ->
       ends++; assert(ends == 1);
#ifndef FREEZE
       assert(COPIES == 0);
#endif
       over = 1 }
  :: atomic { phase == OPEN && FITS && S.back[cur] && !S.ended[cur] -> lose() }

  /* Leases. */
  :: atomic { phase == OPEN ->
       if :: !FITS -> stale()
          :: else ->
             if :: out == 2 -> assert(S.st[cur] == QUEUED || S.at[cur] || S.ended[cur] || S.back[cur]) :: else fi;
             if :: S.at[cur] == 2 -> S.at[cur] = 1; rage = 0 :: else fi
       fi }
#ifdef NOWAIT
  :: atomic { phase == OPEN && FITS && S.at[cur] == 1 && S.st[cur] == LEASED ->
#else
  :: atomic { phase == OPEN && FITS && S.at[cur] == 1 && S.st[cur] == LEASED && rage >= L ->
#endif
#ifdef PROMPT
       assert(rage < L);
#endif
       S.at[cur] = 0; S.st[cur] = BACK;
#ifdef QUIET
       answered(got);
       if :: got -> lose() :: else fi }
#else
       S.back[cur] = 1 }
#endif

#ifdef RESUME
  :: atomic { faults < FAULTS && cur <= LOST -> faults++; cur++; phase = GONE; epoch = epoch + 2; out = 0; unsure = 0;
       has_begun = 0; was_interrupted = 1; rage = 0; settle = 0 }
#endif
  od } unless { over }
}

/* ---- the world ------------------------------------------------------------------------------------------ */

#define IS_DUE(p) (alive[p] && gage[p] >= K && !frozen[p])
#ifdef PROMPT
#define IS_BUSY(p) (calls[p] || asked[p] || owes[p] || age[p] >= 1)
#else
#define IS_BUSY(p) false
#endif
inline older(x) { if :: x < L -> x++ :: else fi }
inline older_of(p) {
  if :: calls[p] -> older(since[p]) :: else fi;
  if :: hold[p] -> older(age[p]); older(gage[p]) :: else fi;
  if :: tells[p] -> older(oage[p]) :: else fi
}

active proctype world() {
  byte i;
  { do
  :: atomic { !IS_DUE(0) && !IS_DUE(1) && !IS_BUSY(0) && !IS_BUSY(1) -> /* a tick */
#ifdef FREEZE
       assert((alive[0] && !frozen[0]) + (alive[1] && !frozen[1]) <= 1);
#endif
       older_of(0); older_of(1); if :: S.at[cur] == 1 -> older(rage) :: else fi;
       if :: settle -> settle-- :: else fi }
  :: atomic { alive[0] && !frozen[0] -> alive[0] = 0 } /* a task ends by itself */
  :: atomic { alive[1] -> alive[1] = 0 }
  :: atomic { IS_DUE(0) -> alive[0] = 0; killed[0] = 1 } /* a guard */
  :: atomic { IS_DUE(1) -> alive[1] = 0; killed[1] = 1 }
#ifdef FREEZE
  :: atomic { faults < FAULTS && !frozen[0] -> faults++; frozen[0] = 1 }
  :: atomic { frozen[0] -> frozen[0] = 0 }
#endif
#ifdef FORGET
  :: atomic { faults < FAULTS && S.ph != GONE -> faults++; if :: sid++ :: skip fi; wipe(S) }
#endif
#ifdef PAST
  :: atomic { !has_dump && S.ph == OPEN -> has_dump = 1; copy(D, S) }
  :: atomic { has_dump && faults < FAULTS -> faults++; sid++; copy(S, D) }
#endif
  od } unless { over }
}
