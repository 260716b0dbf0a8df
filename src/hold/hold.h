/* hold.h - the holder program: parent and subreaper of one supervised process. hold/protocol.h has what it shares with tasuki
 * (files, words, the invariants H1-H7); this header is about the inside.
 *
 * One struct, one loop, no allocation. The loop (main.c) sleeps in ppoll on a signalfd and on the few descriptors of the
 * output; all signals stay blocked, so nothing ever interrupts a step. The states and events:
 *
 *   state       the child ended            told to stop          a timer ran out
 *   RUNNING     -> BACKOFF or the end      -> STOPPING           -
 *   BACKOFF     -                          -> STOPPING           RESTART: -> RUNNING, or the next try
 *   STOPPING    noted                      a shorter grace       KILL: -> KILLING
 *   KILLING     noted                      -                     CHECK: next pass; GIVE_UP: -> the end, with a reason
 *   RECORDING   -                          SIGTERM: -> OVER      RECORD: tries again to write the exit, continues as it would have
 *   PUMPING     -                          SIGTERM: -> OVER      -
 *
 * "The end" is PUMPING while a leftover has a pipe of ours open for writing, else OVER. STOPPING and KILLING end as soon as
 * neither the child nor any descendant lives.
 *
 * main.c     command line, set-up, the loop          record.c  status.json, history, want, locks, the report
 * state.c    the table above, the restart policy     output.c  log files, index, dropping the oldest, mode direct
 * child.c    starting the child and what is beside it pump.c    modes pipe and stamped
 * adopt.c    a child that another holder started     sweep.c   finding and ending every descendant
 * tty.c      mode tty: the terminal, and the clients that attach
 *
 * It must stay small: 100 holders cost 100 times what is touched here. So no stdio, no tables that need relocation, and the
 * large buffers at the end of the struct are not touched in mode direct. */
#ifndef HOLD_HOLD_H
#define HOLD_HOLD_H

#include "hold/protocol.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/types.h>

enum log_mode { LOG_DIRECT, LOG_PIPE, LOG_STAMPED, LOG_TTY };
enum restart_policy { RESTART_NO, RESTART_ON_FAILURE, RESTART_ALWAYS };
enum state { RUNNING, BACKOFF, STOPPING, KILLING, RECORDING, PUMPING, OVER };
enum timer {
    TIMER_RESTART,
    TIMER_KILL,
    TIMER_CHECK,
    TIMER_GIVE_UP,
    TIMER_LOOK,
    TIMER_PROBE,
    TIMER_RECORD,
    TIMER_REAP,
    TIMER_FLUSH,
    TIMER_COUNT
};

/* The command line (protocol.h). The strings are argv's. */
struct hold_options {
    const char *start_id, *boot_id, *cwd, *log, *restart, *probe, *tell, *root, *adopt;
    int64_t n, pid_ns, log_max, max_retries, backoff_ms, backoff_max_ms, healthy_ms, restarts, notify, sweep, pass;
};

/* A start. The child's side of the clone fills in who it is. */
struct hold_run {
    int64_t n;
    int lock; /* the life lock */
    pid_t pid;
    uint64_t ticks;
    int64_t started_ms;
    int64_t offset[2]; /* logical, where its output begins */
};

/* One file of log/ with its index. */
struct log_file {
    const char *name; /* "stdout"; NULL: this mode does not have it */
    int fd, index;
    uint64_t inode;
    int64_t base;  /* logical offset of the file's first byte */
    int64_t size;  /* as last seen; in the modes with pipes: where we write next */
    int64_t noted; /* logical end in the newest index record; -1: none */
    int64_t front; /* what is before this was dropped */
    int64_t index_front, index_size;
    int64_t block;
    int64_t lost;    /* bytes that were cut before we opened it; said when the start has succeeded */
    int64_t dropped; /* bytes that a full disk cost */
    int64_t retry_at;
    bool is_full;
};

/* One stream of the modes pipe and stamped. */
struct log_input {
    int pipe; /* the FIFO's reading end; mode tty: the master; -1: none */
    struct log_file *file;
    char word[4]; /* "out", "err" */
    bool is_mute; /* nobody has it open for writing: not polled until the next start */
};

/* One who attached. */
struct tty_client {
    int fd;         /* -1: nobody */
    int64_t unseen; /* bytes that he did not take */
};

struct holder { /* NOLINT(clang-analyzer-optin.performance.Padding): in groups, one of it */
    const char *id;
    struct hold_options opt;
    char **command; /* NULL-terminated; command[-1] is free for us ("--" was there) */
    enum log_mode mode;
    enum restart_policy policy;
    mode_t child_umask;
    pid_t self;
    uint64_t self_ticks;

    enum state state;
    int64_t due[TIMER_COUNT]; /* CLOCK_BOOTTIME ms, 0: off */
    int signals, pidfd, history;
    int spare_status, spare_run; /* -1: none */
    bool is_history_torn;

    struct hold_run run;
    int64_t restarts, retries, next_start_ms, started_boot_ms;
    dev_t life_dev; /* of run.lock's file, to recognise it in other processes */
    ino_t life_inode;
    uint64_t first_ticks;   /* is_foreign: no descendant is older */
    pid_t foreign_session;  /* is_foreign: of the adopted child */
    uint64_t session_until; /* who began later in it is not ours: the number may have been given away */
    bool is_alive;          /* the child has not been seen to end */
    bool is_adopted;        /* it is not our child */
    bool has_strays;        /* is_foreign: the stopping command has found them */
    bool is_foreign;        /* there may be descendants that are not below us: a holder before us has died */
    const char *phase;

    /* The end of `run`. */
    bool has_exit, is_exit_told; /* in status.json's form; in history */
    int status;
    int64_t stopped_ms, ran_ms;
    const char *by;
    char reason[48];

    /* Stopping. */
    bool is_ending, has_gave_up;
    const char *end_by; /* "stop" or "signal" */
    int passes;

    /* The restart that follows; -1: none. */
    int64_t delay_ms;

    /* Written by the child's side of the clone, which shares our memory until its exec. */
    const char *failed_stage;
    int failed_errno;
    bool has_tried_exec;

    pid_t probe;
    int probe_failures;
    int notify;

    /* Output. */
    int log_dir, child_fd[2];
    struct log_file files[2];
    struct log_input inputs[2];
    bool is_line_open;           /* stamped: the file does not end in a newline */
    struct log_input *open_line; /* then: whose line it is; NULL: of a start before this */
    int peek[2];
    int watch; /* PUMPING: the process's directory, to notice the next holder */

    struct {
        int listener; /* -1: none */
        int slave;    /* of an adopted child whose master is not ours; -1 */
        struct tty_client clients[HOLD_TTY_CLIENTS];
        struct winsize size;
        bool has_cr; /* the last byte that was read, and not yet written */
    } tty;

    char env_mark[64];           /* "TASUKI_PROCESS_START=<start_id>" */
    _Alignas(8) char text[4096]; /* scratch: a record, a path */

    /* Not touched unless needed. */
    int herd_count, herd_doubts, herd_signal; /* doubts: below us, in the middle of an exec, perhaps of another start */
    pid_t herd[8192];
    uint64_t herd_ticks[8192];
    char data[64 << 10];
    char stamped[128 << 10];
};

/* record.c */
int64_t clock_wall_ms(void);
int64_t clock_boot_ms(void);
void holder_timer(struct holder *h, enum timer timer, int64_t delay_ms); /* -1: off */
bool lock_try(int fd, off_t byte);
void lock_drop(int fd, off_t byte);
bool lock_is_held(int fd, off_t byte); /* by another open file description */
struct dir_reader {                    /* opendir would allocate */
    int fd;
    long at, len;
    _Alignas(8) char data[1024];
};
int file_make(int dir, const char *name, int flags); /* openat, 0600 */
int dir_open(struct dir_reader *dir, int at, const char *path);
const char *dir_next(struct dir_reader *dir); /* NULL at the end; then it is closed */
#define STAT_SIZE 512
int stat_read(pid_t pid, char *line, size_t size); /* /proc/<pid>/stat; -1 if there is no such process */
bool stat_is_living(const char *line);
/* Start times of one process: a shift by a part of a tick rounds up or down. No pid comes round again within a tick. */
bool ticks_are_same(uint64_t a, uint64_t b);      /* a zombie does not live */
uint64_t clock_boot_ticks(void);                  /* a process that starts from now on has no less, or one less */
uint64_t stat_field(const char *line, int field); /* a number of it, as proc(5) counts */
enum {
    STAT_PARENT = 4,
    STAT_SESSION = 6,
    STAT_TTY = 7,
    STAT_THREADS = 20,
    STAT_TICKS = 22,
    STAT_MEMORY = 23,
    STAT_CODE_START = 26,
    STAT_ENV_START = 50,
    STAT_ENV_END = 51,
    STAT_EXIT_CODE = 52
};
int record_identity(struct holder *h); /* the child's side of the clone */
/* Replaces status.json. BRIEF: the next one follows at once. FINAL: it is on the disk, whatever happens to the machine. */
enum record_kind { RECORD_BRIEF, RECORD_NORMAL, RECORD_FINAL };
int record_status(struct holder *h, enum record_kind kind);
void spares_make(struct holder *h);
void spares_remove(struct holder *h);
int history_open(struct holder *h);
void history_reserve(struct holder *h); /* so that a full disk can be recorded */
void history_add(struct holder *h, const char *what, int64_t n, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void history_add_start(struct holder *h);
bool history_has_start(struct holder *h, int64_t n); /* near its end */
bool want_is_down(struct holder *h, int64_t *ret_grace_ms);
int run_lock_make(struct holder *h, int64_t n, int *ret_fd); /* a new one, locked */
void run_lock_end(struct holder *h, int fd, int64_t n);      /* closes it; unlinks it if nobody has it any more */
void run_locks_tidy(struct holder *h);              /* removes those of earlier starts that nobody has any more */
void run_lock_remember(struct holder *h);           /* so that it is recognised in other processes */
void run_lock_abandon(struct holder *h, int64_t n); /* n did not come to be */
void report_ok(struct holder *h);
void report_error(struct holder *h);

/* state.c */
int holder_first_start(struct holder *h);
void holder_child_ended(struct holder *h, int status, const char *by, const char *reason);
void holder_stop(struct holder *h, const char *by, int64_t grace_ms);
void holder_look_at_want(struct holder *h);
void holder_check_stop(struct holder *h);
void holder_timer_ran_out(struct holder *h, enum timer timer);
void holder_started(struct holder *h); /* after the first start or the adoption was recorded */

/* child.c */
int child_start(struct holder *h); /* -1: failed_stage and failed_errno say why */
int notify_open(struct holder *h);
void probe_start(struct holder *h);
void probe_kill(struct holder *h);
void probe_ended(struct holder *h, int status);
void failure_tell(struct holder *h); /* after the last start */

/* adopt.c */
int adopt_begin(struct holder *h);
void adopt_look(struct holder *h, short revents);
void adopt_timer(struct holder *h);

/* output.c */
int output_open(struct holder *h);   /* before a start: files, FIFOs, the child's descriptors; -1 with failed_stage */
void output_begin(struct holder *h); /* after it has succeeded */
void output_close_child(struct holder *h);
void output_settle(struct holder *h); /* after its end: everything that was written is in the file and in the index */
void output_look(struct holder *h);   /* TIMER_LOOK */
void output_grew(struct holder *h);   /* something was written */
bool log_file_check_cut(struct holder *h, struct log_file *f, int64_t size); /* it has that size now */
void log_file_bound(struct holder *h, struct log_file *f);

/* pump.c */
int pump_open(struct holder *h);
void pump_wake(struct holder *h, struct log_input *in); /* there is something in it, or nobody writes to it any more */
void pump_drain(struct holder *h);                      /* moves what is in the pipes now */
void pump_watch(struct holder *h);                      /* PUMPING: something happened in our directory */
void pump_alone(struct holder *h);                      /* continues without holder.lock, if anybody may still write */

/* tty.c */
void tty_clear(struct holder *h);
int tty_open(struct holder *h);   /* a terminal for a new start, or that of the adopted child */
int tty_child(struct holder *h);  /* the child's side of the clone: its terminal, and its copy of the master */
void tty_flush(struct holder *h); /* TIMER_FLUSH */
void tty_end(struct holder *h);
void tty_show(struct holder *h, char type, const void *data, size_t len); /* to all who attached */
size_t tty_plain(struct holder *h, size_t len);                           /* h->data as lines of a log, in h->stamped */
void tty_poll(const struct holder *h, struct pollfd fds[HOLD_TTY_CLIENTS + 1]);
void tty_wake(struct holder *h, const struct pollfd fds[HOLD_TTY_CLIENTS + 1]);

/* sweep.c */
void strays_take(struct holder *h);   /* before a stop */
int sweep(struct holder *h, int sig); /* to every living descendant (0: only counts); returns how many there were */

#endif
