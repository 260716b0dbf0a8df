/* protocol.h - the protocol between the holder process (`tasuki-hold`) and tasuki: files, descriptors, words.
 *
 * The holder is a tiny static program: parent and subreaper of one supervised process. It links nothing of tasuki, so this
 * header is all that the two share. No allocation after its start, no wake-up while nothing happens.
 *
 * The directory `.aiflow/processes/<id>/` (0700, files 0600)
 *     holder.lock    OFD write lock on byte 0: its owner is in charge of this process. Byte HOLD_LOCK_PUMP: its owner, always
 *                    a holder, moves bytes from the FIFOs into the log
 *     run.<n>.lock   OFD write lock on byte 0: start n lives. Content: one line, struct "identity" below
 *     want           "up\n" or "down <grace_ms>\n"; replaced by tasuki before it signals the holder. "down <grace_ms> shutdown\n":
 *                    not for good; a restore starts it again
 *     status.json    the status record; replaced by the holder in charge
 *     history        facts, appended, one JSON object per line
 *     phase          what the probe found: {"n":N,"phase":"ready|unhealthy|starting","since_ms":…,"detail":"…"}; replaced.
 *                    With "failed":"did not become ready within 60 s" when the time for that is up
 *     strays         "<boot ms> <pid>:<ticks> …\n": descendants that are not below the holder, found at that time by a
 *                    command that stops many. With it the holder need not look at all processes itself. Written before `want`; the holder takes it away
 *     log/stdout.log log/stderr.log      modes direct and pipe
 *     log/output.log                     mode stamped: both streams, each line "<time> out|err <text>"
 *     stdout.idx stderr.idx output.idx   struct hold_index records, appended
 *     status.new run.new history.new log/NAME.new   the holder's own, on their way to become the file of that name
 *     stdout.pipe stderr.pipe            FIFOs of the modes pipe and stamped; the child has each open for reading and writing
 *     tty            mode tty: the socket for `proc attach`; both outputs are in log/stdout.log
 *
 * Invariants
 *  H1  run.<n>.lock is made and locked before anything is cloned that could become start n, and its open file description is
 *      inherited by holder and child. So at every instant from the decision to start until the last of them has ended,
 *      the lock of n is held by somebody (unless the child closes it: then its identity speaks).
 *  H2  The child's side of the clone writes its identity into run.<n>.lock before it executes the command. So a command never
 *      runs unrecorded.
 *  H3  holder.lock is taken by tasuki before it starts a holder and handed over with its open file description. So there is
 *      never more than one in charge, and never a gap between tasuki's decision and the holder's work.
 *  H4  Only the owner of holder.lock writes status.json and history, makes run.<n>.lock for a new n, or signals the child.
 *  H5  The exit of n is in status.json before holder.lock is dropped, and before start n+1 is made.
 *  H6  `want` is read before every restart by policy. If it says "down", there is no restart.
 *  H7  n grows by one with each start and never repeats; status.json's n, or that number plus one while a start is under way,
 *      is the newest.
 *
 * Descendants that a dead child leaves behind keep its run.<n>.lock. That blocks no start, because n has an exit record. */
#ifndef HOLD_PROTOCOL_H
#define HOLD_PROTOCOL_H

#include <stdint.h>

#define HOLD_LOCK_NAME    "holder.lock"
#define HOLD_RUN_LOCK     "run.%lld.lock" /* n */
#define HOLD_WANT_NAME    "want"
#define HOLD_WANT_UP      "up\n"
#define HOLD_STATUS_NAME  "status.json"
#define HOLD_HISTORY_NAME "history"
#define HOLD_PHASE_NAME   "phase"
#define HOLD_STRAYS_NAME  "strays"
#define HOLD_LOG_DIR      "log"

/* A history that was shortened is longer than this. A shorter one begins at its first fact: its base is 0. */
#define HOLD_HISTORY_WHOLE (32 << 10)

#define HOLD_BACKOFF_MS     1000     /* the pause before a first restart; it doubles */
#define HOLD_BACKOFF_MAX_MS 60000    /* its longest */
#define HOLD_HEALTHY_MS     10000    /* after a run of this length, back-off begins with the first pause again */
#define HOLD_LOG_MAX        67108864 /* bytes that are kept of each stream, unless somebody asks for another number */
#define HOLD_GRACE_MS       3000     /* between SIGTERM and SIGKILL, unless somebody asks for another time */

enum { HOLD_LOCK_PUMP = 1 };

/* Descriptors that a holder finds open at its start. 0, 1, 2 are /dev/null. */
enum {
    HOLD_FD_DIR = 3,    /* processes/<id>/, O_RDONLY|O_DIRECTORY */
    HOLD_FD_LOCK = 4,   /* holder.lock, locked */
    HOLD_FD_RUN = 5,    /* run.<n>.lock, locked; adopting: open, not locked by us */
    HOLD_FD_REPORT = 6, /* write end of a pipe to the starter; closed after the one line */
    HOLD_FD_PASS = 7,   /* pass=1: not ours */
};

#define HOLD_UP_TO_ROOT "../../.." /* from processes/<id>/ in .aiflow/ to the workspace */

/* Command line: `tasuki-hold ID key=value… -- COMMAND ARG…`. The environment is the child's, complete.
 *
 *   n=N start_id=32HEX boot_id=UUID pid_ns=N      identity of the first start
 *   cwd=PATH                                       the child's working directory; a relative one begins at HOLD_FD_DIR
 *   log=direct|pipe|stamped|tty  log_max=BYTES     tty: a terminal for the child; the holder reads it into the log
 *   restart=no|on-failure|always  max_retries=N (-1: no limit)
 *   backoff_ms=N backoff_max_ms=N healthy_ms=N     delay of the second retry in a row (the first is at once), its cap after
 *                                                  doubling, and the running time after which the count begins again
 *   restarts=N                                     restarts so far, continues counting
 *   probe=PATH root=PATH                           run `PATH probe --root ROOT ID` beside each start; root as cwd
 *   tell=PATH root=PATH                            after a failure that no start follows, and that nobody asked for, run
 *                                                  `PATH --root ROOT __failed ID N`, once; it outlives the holder
 *   notify=1                                       bind the abstract datagram socket named in $NOTIFY_SOCKET (sd_notify) and
 *                                                  give it to the probe as descriptor HOLD_FD_NOTIFY
 *   sweep=1                                        a child that a signal ended takes its descendants with it
 *   pass=1                                         descriptor HOLD_FD_PASS is the first start's, under that number
 *   adopt=PID:TICKS:STARTED_MS                     do not start: take charge of this living process (start n)
 *
 * The report: one line, then the pipe is closed.
 *   "ok PID TICKS STARTED_MS\n"     the command runs (its exec succeeded)
 *   "error STAGE ERRNO\n"           it does not; nothing was changed: run.<n>.lock is unlinked, status.json as before.
 *                                   STAGE: log pipe tty notify record clone cwd exec
 * No line: the holder was killed; whether the command runs, the locks tell.
 *
 * Signals: SIGUSR1 "look at want". SIGTERM, SIGINT, SIGHUP: end the child in order (grace 3 s), do not restart, leave `want`
 * as it is (so that a restore starts it again). */
enum { HOLD_FD_NOTIFY = 3 };        /* in the probe */
#define HOLD_FAILED_WORD "__failed" /* the hidden way in: not an operation */

/* The descriptor at which a child and its descendants have run.<n>.lock open. The number tells an inherited descriptor from that
 * of a process that opened the file itself (a look, a starter, `tail`), and avoids the low numbers that programs rely on. */
enum { HOLD_FD_LIFE = 100 };

/* Mode tty. The child's copy of its terminal's master. */
enum { HOLD_FD_TTY = 101 };

/* The socket `tty`, SOCK_SEQPACKET. The first byte of a packet is its type. */
#define HOLD_TTY_NAME    "tty"
#define HOLD_TTY_CLIENTS 8   /* at a time */
#define HOLD_TTY_KEYS    'k' /* to the holder: what was typed; at most HOLD_TTY_KEYS_MAX bytes */
#define HOLD_TTY_SIZE    'w' /* to the holder: rows and columns, each a uint16_t; the last one counts */
#define HOLD_TTY_REPLAY  'r' /* from the holder: the newest of the log, as in the log */
#define HOLD_TTY_OUTPUT  'o' /* what the terminal shows, as it is */
#define HOLD_TTY_UNSEEN  'u' /* int64_t: the number of bytes that this terminal missed; the log has them */
#define HOLD_TTY_UNTYPED 't' /* int64_t: the number of bytes of keys that did not reach the child */
#define HOLD_TTY_AGAIN   'a' /* int64_t: the child has ended and will be restarted in this many ms */
#define HOLD_TTY_FULL    'f' /* there are HOLD_TTY_CLIENTS already; the connection ends */
enum { HOLD_TTY_KEYS_MAX = 4095, HOLD_TTY_PACKET_MAX = 65537 };

/* Set by tasuki in the child's environment; how descendants are recognised. */
#define HOLD_ENV_ID    "TASUKI_PROCESS_ID"    /* the process's id */
#define HOLD_ENV_MARK  "TASUKI_PROCESS_MARK"  /* device:inode of its directory; the same for all its starts */
#define HOLD_ENV_START "TASUKI_PROCESS_START" /* start_id, unique for each holder; the same for restarts by policy */

/* run.<n>.lock, one line written at once by the child before exec:
 *   {"n":3,"pid":4711,"start_ticks":123456,"boot_id":"…","pid_ns":4026531836,"start_id":"…","started_at_ms":…,
 *    "log":"direct","stdout_offset":…,"stderr_offset":…}
 * The offsets are logical (see below); in mode stamped both are that of output.log.
 *
 * status.json, one line:
 *   {"version":1,"n":3,"start_id":"…","boot_id":"…","pid_ns":…,"holder":{"pid":…,"start_ticks":…},
 *    "child":{"pid":…,"start_ticks":…},"started_at_ms":…,"phase":"running|stopping|backoff|ended","restarts":2,"retries":0,
 *    "next_start_ms":0,"adopted":true (only after an adoption: descendants may be anywhere),"log":"direct","stdout_offset":…,"stderr_offset":…,
 *    "exit":null}                      while start n runs; afterwards
 *    "exit":{"status":256,"stopped_at_ms":…,"by":"itself|stop|signal|unknown","reason":""}
 * status is the raw wait status, -1 when unknown. by: "itself" it ended by itself or by somebody's signal; "stop" want was
 * down; "signal" the holder got SIGTERM; "unknown" nobody saw it, reason says why.
 *
 * history, each line {"time":<wall ms>,"what":WORD,"n":N,…}; its first line is {"base":B}, B being the logical offset of that
 * line (0 unless the file was shortened):
 *   started pid log stdout_offset stderr_offset · adopted pid · exited status by · restarting delay_ms retry (n is the new one)
 *   gave_up retries · start_failed stage errno · truncated stream lost · gap stream · log_full stream · log_resumed stream
 *   dropped · lost reason (by tasuki) */

/* *.idx: at `time_ms` (wall) the stream's logical end was `offset`. Logical offset = base + offset in the file. The last record
 * with the file's inode has its base: a file that was compacted, or cut by the child, continues with a greater base, so cursors
 * stay valid. Records of zeros (punched) are skipped. */
struct hold_index {
    int64_t time_ms;
    int64_t offset;
    int64_t base;
    uint64_t inode;
};

#endif
