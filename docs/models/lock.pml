/* lock.pml - the lock protocol of src/lock, for Spin. What the variants mean, what is left out and the
 * measured results: README.md beside this file. tests/checks/model.py runs it.
 *
 * File system: P is the inode number linked at the lock path (0 = absent), TMP the inode at U2's fixed temporary
 * name (0 = absent, DIR = our directory). Every statement is one system call. A SIGKILL may hit a process between
 * any two statements; the kernel then drops its guard byte (G) and its life byte. SIGSTOP needs nothing: a process
 * that the scheduler does not choose is a stopped one, so every interleaving with a stopped holder is included.
 *
 * Asserted: never two in the critical section (with FENCE: never an accepted commit of an overtaken holder), no
 * LOCK_LOST unless somebody really took the lock away, no contender that blocks for ever, and at the end no lock
 * file that names a live holder. Bounds (-D...):
 *   NB=n contenders of ours (3)   ROUNDS=n acquisitions of each (1)   CRASHES=n SIGKILLs in a run (1)
 *   STALE0 start with the file of a dead holder
 * Parts of the protocol that can be added:
 *   RENEW   the holder renews while it holds; a contender that meets a live lock renews it for its holder
 *   CHILD   `lock run`: the holder's child inherits the life byte and works on when the holder is killed
 *   SPARE   the last inode is written again unless it is linked at P, so inode numbers repeat
 *   FENCE   contenders may force over a live holder without killing it; commits check the fence
 *   KILL    contenders may force: SIGKILL the holder, wait for its life byte, take over
 *   FWX     + 1 foreign O_EXCL contender that never recovers
 *   FREC    + 1 foreign O_EXCL contender with D39's stale delete (the residual risk: violation)
 *   FU2     + 1 foreign contender that follows U2
 *   LINE    the line of waiters instead: tickets, and places that are kept for a caller who comes back
 * Mutants (each must give a violation) and other protocols:
 *   NOGUARD     no guard byte
 *   NOVERIFY    release unlinks without looking (with FENCE)
 *   BYINODE     the holder knows its lock by the inode number, not by the fence (with RENEW; with SPARE FENCE)
 *   PLAINRENEW  the holder renews as D39 does: read, write, rename over, no guard (with RENEW FENCE)
 *   PLAINMEET   ... or the contender that renews for another does (with RENEW)
 *   NOINHERIT   the child does not have the life byte (with CHILD)
 *   KEEPTWICE   a kept place stays in the table when it is taken (with LINE)
 *   NOLOOK      the head of the line does not look at it again before it takes the lock (with LINE)
 *   LASTTRY     a caller whose time is up takes a free lock without a look at the line (with LINE)
 *   NODIR       U2's temporary name is not taken as a directory (with FU2)
 *   NAIVE  D39 as written     U2ONLY  U2 as written     HG  Mercurial's break lock
 *   CLAIM  rename the stale file away, look again, no guard
 *   EARLYLIFE   the life byte is dropped before the unlink, outside the guard (harmless: no violation) */
#ifndef NB
#define NB 3
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef MAXI
#define MAXI 24 /* inodes and fences of a run; pan reports an invalid array index if that is too small */
#endif
#define DIR 255
#if defined(FWX) || defined(FREC) || defined(FU2)
#define NP (NB + 1)
#else
#define NP NB
#endif

/* Where a lock can be taken away from a live holder. */
#if defined(FREC) || defined(NODIR) || defined(NOGUARD) || defined(EARLYLIFE)
#define MAY_LOSE true
#elif defined(FENCE)
#define MAY_LOSE forced
#else
#define MAY_LOSE false
#endif

byte P = 0, TMP = 0;
byte G = 0;                  /* who has the guard byte: 0 nobody, else id+1 */
byte nino = 0, gencnt = 0;   /* last inode number, fence counter */
byte iowner[MAXI], igen[MAXI], iinc[MAXI]; /* content of an inode: owner, fence (0: not ours), incarnation */
bool life[MAXI];             /* the life byte of fence g is locked */
byte inc[4];                 /* incarnation of process: its (pid, start time) */
bool up[4];                  /* the process of this incarnation runs */
bool kill_[4];
byte crashes = 0;
byte incs = 0;               /* processes inside the critical section */
bool forced = 0;
byte store = 0;              /* fence of the last accepted commit */
#ifdef SPARE
byte S = 0;                  /* the inode at the spare name: written again when it is not at P */
#endif

inline fill(v, who, g, c) { iowner[v] = who; igen[v] = g; iinc[v] = c }
inline newino(v, who, g, c) { atomic { nino++; v = nino; fill(v, who, g, c) } }

/* A file with its full content that is not at P yet: a new one or, with SPARE, S if P is not linked to it (nlink 1).
 * A new one then takes S's name in two steps; if the first fails (EIO, say) the old spare stays, and its inode can come
 * back at P while a holder that was overtaken still has it open. */
#ifdef SPARE
inline draft(v, who, g, c) {
  if :: atomic { S && P != S -> v = S; fill(v, who, g, c) }
     :: else -> newino(v, who, g, c); if :: S = 0; S = v :: skip fi
  fi
}
#else
inline draft(v, who, g, c) { newino(v, who, g, c) }
#endif

/* The same holder, fence and incarnation; only the times differ. */
inline draft_copy(v, from) { draft(v, iowner[from], igen[from], iinc[from]) }

/* renameat2(private, P, RENAME_EXCHANGE): ENOENT leaves out == 0. */
inline exchange(in_, out) { atomic { out = P; if :: out -> P = in_ :: else fi } }

inline enter() { atomic { incs++;
#ifndef FENCE
  assert(incs == 1);
#endif
  in = 1 } }
inline leave() { atomic { incs--; in = 0 } }

#ifdef NOGUARD
inline lock_guard() { skip }
inline unlock_guard() { skip }
#else
inline lock_guard() { atomic { G == 0 -> G = id+1 } }
inline unlock_guard() { G = 0 }
#endif

inline drop_life() { d_step { life[mygen] = 0; mygen = 0; mine = 0 } }

#ifdef BYINODE
#define IS_OURS(i) (i == mine)
#else
#define IS_OURS(i) (igen[i] == mygen)
#endif

proctype Crasher() {
  do
  :: atomic { crashes < CRASHES -> crashes++;
     if :: up[0] -> kill_[0] = 1 :: up[1] -> kill_[1] = 1
#if NP > 2
        :: up[2] -> kill_[2] = 1
#endif
#if NP > 3
        :: up[3] -> kill_[3] = 1
#endif
        :: else fi }
  :: break
  od }

#ifdef CHILD
/* What is left of `lock run` when tasuki is killed: the command, which works on, then ends. */
proctype Child(byte g) { incs--; life[g] = 0 }

#define KERNEL_CLEANUP atomic { \
  kill_[id] = 0; up[id] = 0; \
  if :: G == id+1 -> G = 0 :: else fi; \
  if :: in -> LIFE_OF_CHILD; run Child(mygen) :: else -> life[mygen] = 0 fi; \
  in = 0; mygen = 0; mine = 0 }
#ifdef NOINHERIT
#define LIFE_OF_CHILD life[mygen] = 0
#else
#define LIFE_OF_CHILD skip
#endif
#else
#define KERNEL_CLEANUP d_step { \
  kill_[id] = 0; up[id] = 0; \
  if :: G == id+1 -> G = 0 :: else fi; \
  life[mygen] = 0; \
  if :: in -> incs--; in = 0 :: else fi; \
  mygen = 0; mine = 0 }
#endif

proctype Ours(byte id) {
  byte r = 0, seen, old, mine = 0, mygen = 0, tries, vic;
  bool in = 0, alive, mkd, lost;
#ifdef RENEW
  byte copy;
#endif
  do
  :: r < ROUNDS -> r++;
   d_step { inc[id]++; up[id] = 1; kill_[id] = 0 };
   { tries = 0; lost = 0;
retry:
     if :: tries >= 2 -> goto done :: else -> tries++ fi;
     lock_guard();                                          /* A1 F_OFD_SETLKW byte 0 */
     mkd = 0;
#if defined(FU2) && !defined(NODIR)
     atomic { if :: TMP == 0 -> TMP = DIR; mkd = 1 :: TMP == DIR :: else -> goto busy fi }; /* A2 mkdir tmp */
#endif
judge:
     seen = P;                                              /* A3 open, read, fstat */
     if :: seen == 0 -> goto create :: else fi;
     d_step { if :: igen[seen] -> alive = life[igen[seen]]  /* A4 ours: F_OFD_GETLK of the life byte */
        :: else -> alive = (up[iowner[seen]] && inc[iowner[seen]] == iinc[seen]) fi }; /* foreign: pid, start time */
     if :: alive ->
        if :: goto busy
#ifdef RENEW
           :: igen[seen] ->                                 /* M1 renew for the holder we met */
#ifdef PLAINMEET
              unlock_guard();
              draft_copy(copy, seen);
              P = copy;                                     /* rename over whatever is there now */
              goto retry
#else
              draft_copy(copy, seen);
              exchange(copy, old);
              if :: old && old != seen -> exchange(old, vic) :: else fi; /* M2 not what we judged: swap back */
              goto busy
#endif
#endif
#ifdef KILL
           :: igen[seen] && iowner[seen] != id -> vic = iowner[seen]; /* confirmed force: end it, then */
              d_step { if :: life[igen[seen]] && inc[vic] == iinc[seen] -> kill_[vic] = 1 :: else fi };
              !life[igen[seen]] -> skip                     /* wait for the life byte */
#endif
#ifdef FENCE
           :: igen[seen] && iowner[seen] != id -> forced = 1 /* confirmed force: fence it off */
#endif
        fi
        :: else fi;
     atomic { gencnt++; mygen = gencnt };                   /* A5 pwrite of the counter, under the guard */
     life[mygen] = 1;                                       /* A6 F_OFD_SETLK of the life byte */
     draft(mine, id, mygen, inc[id]);                       /* A7 a file with its full content */
     exchange(mine, old);                                   /* A8 publish over the stale one */
     if :: old == 0 -> drop_life(); goto judge :: else fi;
     if :: old != seen -> exchange(old, vic);               /* A9 not what we judged: swap back */
           drop_life(); goto busy :: else fi;
     goto got;
create:
     atomic { gencnt++; mygen = gencnt };
     life[mygen] = 1;
     draft(mine, id, mygen, inc[id]);
     atomic { if :: P == 0 -> P = mine; old = 1 :: else -> old = 0 fi }; /* linkat: EEXIST? */
     if :: old == 0 -> drop_life(); goto judge :: else fi;
got:
     unlock_guard();                                        /* A10 */
     enter();
#ifdef RENEW
     if :: skip
        :: 
#ifdef PLAINRENEW
           seen = P;
           if :: igen[seen] == mygen -> draft_copy(copy, seen); P = copy; mine = copy :: else -> lost = 1 fi
#else
           lock_guard();                                    /* N1 */
           seen = P;                                        /* N2 still ours? */
           if :: !IS_OURS(seen) -> lost = 1
              :: else ->
                 draft_copy(copy, seen);
                 exchange(copy, old);                       /* N3 */
                 if :: old == seen -> mine = copy
                    :: old == 0 -> lost = 1
                    :: else -> exchange(old, vic); lost = 1 /* N4 not ours: swap back */
                 fi
           fi;
           unlock_guard()
#endif
     fi;
     if :: lost -> assert(MAY_LOSE); leave(); drop_life(); goto done :: else fi;
#endif
#ifdef FENCE
     lock_guard();                                          /* commit under the guard, fence check */
     d_step { if :: gencnt == mygen -> assert(store <= mygen); assert(igen[P] == mygen); store = mygen
              :: else fi };
     unlock_guard();
#endif
     leave();
#ifdef EARLYLIFE
     life[mygen] = 0;
#endif
     lock_guard();                                          /* R1 */
#ifdef NOVERIFY
     P = 0;
#else
     seen = P;                                              /* R2 still ours? */
     if :: IS_OURS(seen) -> P = 0                           /* R3 unlink */
        :: else -> assert(MAY_LOSE); lost = 1 fi;           /* LOCK_LOST, nothing is touched */
#endif
#if defined(FU2) && !defined(NODIR)
     if :: !lost -> atomic { if :: TMP == DIR -> TMP = 0 :: else fi } :: else fi; /* R4 rmdir, after the unlink */
#endif
     drop_life();                                           /* R5 */
     unlock_guard();
     goto done;
busy:
#if defined(FU2) && !defined(NODIR)
     if :: mkd -> TMP = 0 :: else fi;
#endif
     unlock_guard();
     goto retry
   } unless { kill_[id] -> KERNEL_CLEANUP };
done: skip; d_step { up[id] = 0; kill_[id] = 0 }
  :: else -> break
  od }

/* ---- other tools, and other protocols -------------------------------------------------------------------- */

#define FOREIGN_CLEANUP d_step { kill_[id] = 0; up[id] = 0; if :: in -> incs--; in = 0 :: else fi; mine = 0 }
#define FOREIGN_ALIVE(i) (up[iowner[i]] && inc[iowner[i]] == iinc[i])

/* open(P, O_CREAT|O_EXCL) */
#define create_excl(got) atomic { if :: P == 0 -> newino(mine, id, 0, inc[id]); P = mine; goto got :: else fi }

/* D39: O_EXCL create; stale: unlink, O_EXCL again; release: unlink. */
proctype D39(byte id; bool recover) {
  byte r = 0, seen, mine = 0, tries; bool in = 0, alive;
  do
  :: r < ROUNDS -> r++;
   d_step { inc[id]++; up[id] = 1; kill_[id] = 0 };
   { tries = 0;
again:
     if :: tries >= 2 -> goto fdone :: else -> tries++ fi;
     create_excl(fgot);
     if :: !recover -> goto again :: else fi;
     seen = P;
     if :: seen == 0 -> goto again :: else fi;
     d_step { alive = FOREIGN_ALIVE(seen) };
     if :: alive -> goto again :: else -> P = 0 fi;        /* unlink whatever is there now */
     goto again;
fgot: enter(); leave();
     if :: 1 -> P = 0 fi                                   /* unlink, unchecked */
   } unless { kill_[id] -> FOREIGN_CLEANUP };
fdone: skip; d_step { up[id] = 0; kill_[id] = 0 }
  :: else -> break
  od }

/* U2: check, write the shared temporary name, rename over, read back, rm. */
proctype U2(byte id) {
  byte r = 0, seen, mine = 0; bool in = 0, alive;
  do
  :: r < ROUNDS -> r++;
   d_step { inc[id]++; up[id] = 1; kill_[id] = 0 };
   { seen = P;                                             /* step 1 */
     if :: seen -> d_step { alive = FOREIGN_ALIVE(seen) }; /* step 2 */
           if :: alive -> goto udone :: else fi            /* zombie: the user confirms */
        :: else fi;
     atomic { if :: TMP == DIR -> goto udone :: else -> newino(mine, id, 0, inc[id]); TMP = mine fi }; /* > tmp */
     atomic { if :: TMP == 0 || TMP == DIR -> goto udone :: else -> P = TMP; TMP = 0 fi };    /* mv */
     seen = P;                                             /* verify */
     if :: seen != mine -> P = 0; goto udone :: else fi;   /* as written: delete and abort */
     enter(); leave();
     P = 0                                                 /* rm, even if it is another's */
   } unless { kill_[id] -> FOREIGN_CLEANUP };
udone: skip; d_step { up[id] = 0; kill_[id] = 0 }
  :: else -> break
  od }

/* No guard: rename(P, private), look whether it is what was judged, else link it back. */
proctype Claim(byte id) {
  byte r = 0, seen, old, mine = 0, tries; bool in = 0, alive;
  do
  :: r < ROUNDS -> r++;
   d_step { inc[id]++; up[id] = 1; kill_[id] = 0 };
   { tries = 0;
cagain:
     if :: tries >= 3 -> goto cdone :: else -> tries++ fi;
     create_excl(cgot);
     seen = P;
     if :: seen == 0 -> goto cagain :: else fi;
     d_step { alive = FOREIGN_ALIVE(seen) };
     if :: alive -> goto cagain :: else fi;
     atomic { old = P; P = 0 };                            /* rename(P, private) */
     if :: old && old != seen -> atomic { if :: P == 0 -> P = old :: else fi } :: else fi; /* link back */
     goto cagain;
cgot: enter(); leave();
     seen = P;
     if :: seen == mine -> P = 0 :: else fi
   } unless { kill_[id] -> FOREIGN_CLEANUP };
cdone: skip; d_step { up[id] = 0; kill_[id] = 0 }
  :: else -> break
  od }

/* Mercurial: stale: take P.break with O_EXCL (a crash leaves it), unlink P without reading it again. */
byte BRK = 0;
proctype Hg(byte id) {
  byte r = 0, seen, mine = 0, tries; bool in = 0, alive;
  do
  :: r < ROUNDS -> r++;
   d_step { inc[id]++; up[id] = 1; kill_[id] = 0 };
   { tries = 0;
hagain:
     if :: tries >= 3 -> goto hdone :: else -> tries++ fi;
     create_excl(hgot);
     seen = P;
     if :: seen == 0 -> goto hagain :: else fi;
     d_step { alive = FOREIGN_ALIVE(seen) };
     if :: alive -> goto hagain :: else fi;
     atomic { if :: BRK == 0 -> BRK = id+1 :: else -> goto hagain fi };
     P = 0;
     BRK = 0;
     goto hagain;
hgot: enter(); leave();
     P = 0
   } unless { kill_[id] -> FOREIGN_CLEANUP };
hdone: skip; d_step { up[id] = 0; kill_[id] = 0 }
  :: else -> break
  od }

#ifdef LINE
/* The line of waiters (src/lock/line.h). Callers 0 and 1 are calls of one instance, every other one is its own. Each makes up to
 * two waiting calls; the first may end by its time limit, which keeps its place. What happens under byte 1 is one step, and so is
 * taking the lock under the guard, which the rest of the model checks. */
#define TICKETS  12
#define INSTANCE (id / 2)
byte tickets = 0;
byte kept[TICKETS];        /* instance + 1 that the place is kept for */
bool at_place[TICKETS];    /* byte T + t is locked */
bool was_there[TICKETS];   /* ... when the lock was released last */
bool taken = 1;            /* somebody has the lock; at the start an outsider */
bool overtaken = 0;

inline release_lock() { d_step { taken = 0; i = 0; do :: i < TICKETS -> was_there[i] = at_place[i]; i++ :: else -> break od } }

/* Whether nobody before us is in line: F_OFD_GETLK of all smaller tickets. */
inline look_at_line(first) {
  d_step { first = 1; i = 0; do :: i < t -> if :: at_place[i] -> first = 0 :: else fi; i++ :: else -> break od } }

inline enter_line() { atomic {
  t = 0; i = 1;
  do :: i < TICKETS -> if :: kept[i] == INSTANCE + 1 && t == 0 -> t = i :: else fi; i++ :: else -> break od;
  if :: t ->
#ifndef KEEPTWICE
        kept[t] = 0
#else
        skip
#endif
     :: else -> tickets++; t = tickets
  fi;
  assert(!at_place[t]);                                     /* at most one call per place */
  at_place[t] = 1 } }

proctype Caller(byte id) {
  byte t = 0, i, calls = 0; bool first;
next: calls++;
  enter_line();
wait:
  if :: look_at_line(first); if :: first -> skip :: else -> goto blocked fi
#ifdef LASTTRY
     :: !taken -> goto take
#endif
     :: calls == 1 -> atomic { kept[t] = INSTANCE + 1; at_place[t] = 0 }; goto next /* its time limit, and it comes back */
     :: atomic { crashes < CRASHES -> crashes++; at_place[t] = 0 }; goto gone
  fi;
  !taken;                                                   /* the head waits for the holder */
  atomic {                                                  /* under the guard */
#ifdef NOLOOK
    skip;
#else
    look_at_line(first); if :: first -> skip :: else -> goto blocked fi;
#endif
take: if :: taken -> goto wait
       :: else -> taken = 1; i = 0;
          do :: i < t -> overtaken = overtaken || (was_there[i] && at_place[i]); i++ :: else -> break od;
          assert(!overtaken);
          at_place[t] = 0
    fi };
  release_lock();
  goto gone;
blocked:                                                    /* until one before us has left the line */
  look_at_line(first);
  if :: first -> goto wait
     :: else -> i = 0; do :: i < t && !at_place[i] -> i++ :: else -> break od; (i >= t || !at_place[i]) -> goto wait
  fi;
gone: skip }

proctype Outsider() { byte i; release_lock() }

init {
  byte i = 0;
  atomic { run Outsider(); do :: i < NB -> run Caller(i); i++ :: else -> break od };
  _nr_pr == 1 -> assert(!taken)
}
#else
init {
  byte i = 0;
  atomic {
#ifdef STALE0
    nino = 1; gencnt = 1; P = 1; iowner[1] = 0; igen[1] = 1; iinc[1] = 0;
#ifdef SPARE
    S = 1;
#endif
#endif
    do :: i < NB ->
#if defined(NAIVE)
       run D39(i, 1);
#elif defined(U2ONLY)
       run U2(i);
#elif defined(CLAIM)
       run Claim(i);
#elif defined(HG)
       run Hg(i);
#else
       run Ours(i);
#endif
       i++ :: else -> break od;
#if defined(FWX)
    run D39(NB, 0);
#elif defined(FREC)
    run D39(NB, 1);
#elif defined(FU2)
    run U2(NB);
#endif
    run Crasher()
  };
  _nr_pr == 1 -> assert(!life[igen[P]]) /* all are gone: whatever is left can be taken over */
}
#endif
