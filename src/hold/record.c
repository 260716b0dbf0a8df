/* record.c - what the holder leaves on disk: status.json, history, the identity of a start, the locks; and the report.
 *
 *  R1  status.json is replaced by rename: a reader sees the old line or the new one. Where the disk has no room for another file
 *      it is overwritten, in one call that stays within its block; readers look again at what they cannot parse.
 *  R2  A fact is in status.json first, then in history. If status.json has a start or an exit that history does not have, and
 *      holder.lock is free, a holder died in between.
 *  R3  What an immediate restart needs, a new status file and a new life lock, lies ready (spares_make): making files is most
 *      of what a restart costs. The spare life lock is locked before it gets its name.
 *  R4  A line of history begins in column 1: after a write that the disk or a SIGKILL cut short, the next begins a new line. */
#include "hold/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef RENAME_EXCHANGE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE  2
#endif
#define STATUS_NEW        "status.new"
#define RUN_NEW           "run.new"
#define HISTORY_NEW       "history.new"
#define HOLD_HISTORY_MAX  (1 << 20)
#define HOLD_HISTORY_KEPT (64 << 10) /* from the next line on, which is within the scratch of 4 KiB */
#define HISTORY_RESERVE   4096
#define HISTORY_FIRST     30
_Static_assert(HOLD_HISTORY_KEPT - sizeof((struct holder *)0)->text > HOLD_HISTORY_WHOLE, "what is kept is longer");
#define HISTORY_TAIL 2048 /* where the newest start is looked for */

static int64_t clock_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

int64_t clock_wall_ms(void)
{
    return clock_ms(CLOCK_REALTIME);
}

/* A time namespace shifts the boot clock and the start times in /proc by this much (src/base/clock.c does the same). */
static int64_t shift_ns(void)
{
    static int64_t shift = INT64_MIN;
    if (shift != INT64_MIN)
        return shift;
    char text[256] = "";
    int fd = open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    char *at = strstr(text, "boottime");
    int64_t seconds = at ? strtoll(at + strlen("boottime"), &at, 10) : 0, ns = at ? strtoll(at, NULL, 10) : 0;
    shift = seconds * 1000000000 + ns;
    return shift;
}

static int64_t tick_ns(void)
{
    return 1000000000 / sysconf(_SC_CLK_TCK);
}

static int64_t shift_ticks(void)
{
    int64_t ns = shift_ns(), tick = tick_ns();
    return ns >= 0 ? ns / tick : -((-ns + tick - 1) / tick);
}

int64_t clock_boot_ms(void)
{
    return clock_ms(CLOCK_BOOTTIME) - shift_ns() / 1000000;
}

uint64_t clock_boot_ticks(void)
{
    return (uint64_t)(clock_boot_ms() * 1000000 / tick_ns()) + 1;
}

bool ticks_are_same(uint64_t a, uint64_t b)
{
    int64_t apart = (int64_t)(a - b), slack = shift_ns() % tick_ns() ? 1 : 0;
    return apart >= -slack && apart <= slack;
}

static int lock_call(int fd, int command, short type, off_t byte)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    if (fcntl(fd, command, &range) < 0)
        return -1;
    return command == F_OFD_GETLK && range.l_type != F_UNLCK;
}

bool lock_try(int fd, off_t byte)
{
    return lock_call(fd, F_OFD_SETLK, F_WRLCK, byte) == 0;
}

void lock_drop(int fd, off_t byte)
{
    lock_call(fd, F_OFD_SETLK, F_UNLCK, byte);
}

bool lock_is_held(int fd, off_t byte)
{
    return lock_call(fd, F_OFD_GETLK, F_WRLCK, byte) != 0;
}

struct dir_entry { /* linux_dirent64 */
    uint64_t inode;
    int64_t offset;
    uint16_t len;
    uint8_t type;
    char name[];
};

int file_make(int dir, const char *name, int flags)
{
    return openat(dir, name, flags | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
}

int dir_open(struct dir_reader *dir, int at, const char *path)
{
    dir->at = dir->len = 0;
    dir->fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir->fd < 0 ? -1 : 0;
}

const char *dir_next(struct dir_reader *dir)
{
    if (dir->at >= dir->len) {
        dir->len = syscall(SYS_getdents64, dir->fd, dir->data, sizeof dir->data);
        dir->at = 0;
    }
    if (dir->len <= 0) {
        close(dir->fd);
        return NULL;
    }
    const struct dir_entry *entry = (const void *)(dir->data + dir->at);
    dir->at += entry->len;
    return entry->name;
}

int stat_read(pid_t pid, char *line, size_t size)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t len = read(fd, line, size - 1);
    close(fd);
    line[len < 0 ? 0 : len] = '\0';
    return len <= 0 || !strrchr(line, ')') ? -1 : 0;
}

uint64_t stat_field(const char *line, int field)
{
    /* The name may contain anything, so the fields are counted from the last parenthesis, the end of field 2. */
    const char *at = strrchr(line, ')');
    for (int i = 2; at && i < field; i++)
        at = strchr(at + 1, ' ');
    uint64_t value = at ? strtoull(at, NULL, 10) : 0;
    return field == STAT_TICKS ? value - (uint64_t)shift_ticks() : value;
}

bool stat_is_living(const char *line)
{
    char state = strrchr(line, ')')[2];
    /* A process whose first thread has ended looks like a zombie while the others continue. */
    return (state != 'Z' && state != 'X') || stat_field(line, STAT_THREADS) > 1;
}

/* The words that the identity of a start and status.json have in common. */
static int put_output(const struct holder *h, char *text, size_t size)
{
    return snprintf(text, size, "\"log\":\"%s\",\"stdout_offset\":%" PRId64 ",\"stderr_offset\":%" PRId64, h->opt.log,
                    h->run.offset[0], h->run.offset[1]);
}

/* A write that was cut short has met the end of the disk. */
static int write_whole(int fd, const char *text, size_t len)
{
    ssize_t done = pwrite(fd, text, len, 0);
    if (done >= 0 && done < (ssize_t)len)
        errno = ENOSPC;
    return done == (ssize_t)len ? 0 : -1;
}

int record_identity(struct holder *h)
{
    size_t len = (size_t)snprintf(
        h->text, sizeof h->text,
        "{\"n\":%" PRId64 ",\"pid\":%d,\"start_ticks\":%" PRIu64 ",\"boot_id\":\"%s\",\"pid_ns\":%" PRId64
        ",\"start_id\":\"%s\",\"started_at_ms\":%" PRId64 ",",
        h->run.n, (int)h->run.pid, h->run.ticks, h->opt.boot_id, h->opt.pid_ns, h->opt.start_id, h->run.started_ms);
    len += (size_t)put_output(h, h->text + len, sizeof h->text - len - 2);
    h->text[len++] = '}';
    h->text[len++] = '\n';
    return write_whole(h->run.lock, h->text, len);
}

static size_t put_exit_record(const struct holder *h, char *text, size_t size)
{
    if (!h->has_exit)
        return (size_t)snprintf(text, size, ",\"exit\":null}\n");
    return (size_t)snprintf(
        text, size, ",\"exit\":{\"status\":%d,\"stopped_at_ms\":%" PRId64 ",\"by\":\"%s\",\"reason\":\"%s\"}}\n",
        h->status, h->stopped_ms, h->by, h->reason);
}

static size_t put_status(const struct holder *h, char *text, size_t size)
{
    size_t len = (size_t)snprintf(
        text, size,
        "{\"version\":1,\"n\":%" PRId64 ",\"start_id\":\"%s\",\"boot_id\":\"%s\",\"pid_ns\":%" PRId64
        ",\"holder\":{\"pid\":%d,\"start_ticks\":%" PRIu64 "},\"child\":{\"pid\":%d,\"start_ticks\":%" PRIu64
        "},\"started_at_ms\":%" PRId64 ",\"phase\":\"%s\",\"restarts\":%" PRId64 ",\"retries\":%" PRId64
        ",\"next_start_ms\":%" PRId64 ",%s",
        h->run.n, h->opt.start_id, h->opt.boot_id, h->opt.pid_ns, (int)h->self, h->self_ticks, (int)h->run.pid,
        h->run.ticks, h->run.started_ms, h->phase, h->restarts, h->retries, h->next_start_ms,
        h->is_foreign ? "\"adopted\":true," : "");
    len += (size_t)put_output(h, text + len, size - len);
    return len + put_exit_record(h, text + len, size - len);
}

/* A new file under a name that only we use. A holder that was killed may have left one, which a reader may still read. */
static int file_new(const char *name)
{
    int fd = file_make(HOLD_FD_DIR, name, O_RDWR | O_EXCL);
    if (fd < 0 && errno == EEXIST && unlinkat(HOLD_FD_DIR, name, 0) == 0)
        fd = file_make(HOLD_FD_DIR, name, O_RDWR | O_EXCL);
    return fd;
}

void spares_make(struct holder *h)
{
    if (h->spare_status < 0)
        h->spare_status = file_new(STATUS_NEW);
    if (h->spare_run < 0)
        h->spare_run = file_new(RUN_NEW);
    if (h->spare_status >= 0)
        fallocate(h->spare_status, FALLOC_FL_KEEP_SIZE, 0, (off_t)sizeof h->text);
    if (h->spare_run >= 0 && !lock_try(h->spare_run, 0)) {
        close(h->spare_run);
        h->spare_run = -1;
    }
}

void spares_remove(struct holder *h)
{
    if (h->spare_status >= 0)
        unlinkat(HOLD_FD_DIR, STATUS_NEW, 0);
    if (h->spare_run >= 0)
        unlinkat(HOLD_FD_DIR, RUN_NEW, 0);
}

/* ext4 writes a file's data out when it is renamed over another, so that a power cut leaves one of the two. A record that is
 * replaced at once again need not survive that: it is exchanged with the old one, which spares_make removes later. */
static int status_publish(bool is_brief)
{
    if (is_brief &&
        syscall(SYS_renameat2, HOLD_FD_DIR, STATUS_NEW, HOLD_FD_DIR, HOLD_STATUS_NAME, RENAME_EXCHANGE) == 0)
        return 0;
    return renameat(HOLD_FD_DIR, STATUS_NEW, HOLD_FD_DIR, HOLD_STATUS_NAME);
}

static int status_replace(struct holder *h, size_t len, enum record_kind kind)
{
    int fd = h->spare_status >= 0 ? h->spare_status : file_new(STATUS_NEW);
    if (fd < 0)
        return -1;
    int result = write_whole(fd, h->text, len);
    if (result == 0 && kind == RECORD_FINAL)
        result = fdatasync(fd);
    int number = errno;
    close(fd);
    h->spare_status = -1;
    errno = number;
    return result < 0 ? -1 : status_publish(kind == RECORD_BRIEF);
}

/* A shorter line is filled up with blanks before its newline: nothing of the old one may stay behind it. */
static int status_overwrite(struct holder *h, size_t len)
{
    struct stat st;
    int fd = openat(HOLD_FD_DIR, HOLD_STATUS_NAME, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    unlinkat(HOLD_FD_DIR, STATUS_NEW, 0);
    int result = fstat(fd, &st);
    if (result == 0 && st.st_size > (off_t)len && st.st_size <= (off_t)sizeof h->text) {
        memset(h->text + len - 1, ' ', (size_t)st.st_size - len);
        len = (size_t)st.st_size;
        h->text[len - 1] = '\n';
    }
    if (result == 0)
        result = write_whole(fd, h->text, len);
    if (result == 0)
        result = fdatasync(fd);
    close(fd);
    return result;
}

int record_status(struct holder *h, enum record_kind kind)
{
    size_t len = put_status(h, h->text, sizeof h->text);
    if (status_replace(h, len, kind) == 0)
        return 0;
    return errno == ENOSPC || errno == EDQUOT ? status_overwrite(h, len) : -1;
}

static void history_write(struct holder *h, const char *text, size_t len)
{
    if (h->is_history_torn && write(h->history, "\n", 1) == 1)
        h->is_history_torn = false;
    ssize_t done = write(h->history, text, len);
    if (done > 0 && (size_t)done < len)
        h->is_history_torn = true;
}

int history_open(struct holder *h)
{
    struct stat st;
    char last = '\n';
    h->history = file_make(HOLD_FD_DIR, HOLD_HISTORY_NAME, O_RDWR | O_APPEND);
    if (h->history < 0 || fstat(h->history, &st) < 0)
        return -1;
    h->is_history_torn = st.st_size > 0 && pread(h->history, &last, 1, st.st_size - 1) == 1 && last != '\n';
    return 0;
}

void history_reserve(struct holder *h)
{
    struct stat st;
    if (fstat(h->history, &st) == 0)
        fallocate(h->history, FALLOC_FL_KEEP_SIZE, st.st_size, HISTORY_RESERVE);
}

/* Replaces history by its newest lines; its first line says where they were. A holder that is left alone with a child that
 * never stays up would fill the disk otherwise. */
static void history_shorten(struct holder *h, int64_t size)
{
    int64_t base = 0, from = size - HOLD_HISTORY_KEPT;
    char *const text = h->text;
    ssize_t len = pread(h->history, text, 64, 0);
    if (len > 8 && memcmp(text, "{\"base\":", 8) == 0)
        base = strtoll(text + 8, NULL, 10);
    len = pread(h->history, text, sizeof h->text, from);
    const char *newline = len > 0 ? memchr(text, '\n', (size_t)len) : NULL;
    if (!newline)
        return;
    from += newline + 1 - text;
    int fd = file_make(HOLD_FD_DIR, HISTORY_NEW, O_RDWR | O_APPEND | O_TRUNC);
    if (fd < 0)
        return;
    /* The first line stands for the bytes just before the next one, and is as long whatever its number. */
    len = snprintf(text, sizeof h->text, "{\"base\":%-20" PRId64 "}\n", base + from - HISTORY_FIRST);
    bool is_whole = write(fd, text, (size_t)len) == len;
    while (is_whole && from < size) {
        len = pread(h->history, text, sizeof h->text, from);
        is_whole = len > 0 && write(fd, text, (size_t)len) == len;
        from += len;
    }
    if (!is_whole || renameat(HOLD_FD_DIR, HISTORY_NEW, HOLD_FD_DIR, HOLD_HISTORY_NAME) < 0) {
        close(fd);
        return;
    }
    close(h->history);
    h->history = fd;
}

void history_add(struct holder *h, const char *what, int64_t n, const char *format, ...)
{
    char *const text = h->text;
    struct stat st;
    if (fstat(h->history, &st) < 0)
        return;
    if (st.st_size == 0)
        history_write(h, "{\"base\":0}\n", 11);
    else if (st.st_size > HOLD_HISTORY_MAX)
        history_shorten(h, st.st_size);
    const bool is_exit = strcmp(what, "exited") == 0; /* has one time, here and in status.json */
    const size_t size = sizeof h->text - 2;
    size_t len = (size_t)snprintf(text, size, "{\"time\":%" PRId64 ",\"what\":\"%s\",\"n\":%" PRId64,
                                  is_exit ? h->stopped_ms : clock_wall_ms(), what, n);
    va_list args;
    va_start(args, format);
    len += (size_t)vsnprintf(text + len, size - len, format, args);
    va_end(args);
    text[len++] = '}';
    text[len++] = '\n';
    history_write(h, text, len);
}

void history_add_start(struct holder *h)
{
    char output[160];
    put_output(h, output, sizeof output);
    history_add(h, "started", h->run.n, ",\"pid\":%d,%s", (int)h->run.pid, output);
}

bool history_has_start(struct holder *h, int64_t n)
{
    char mark[64];
    struct stat st;
    if (fstat(h->history, &st) < 0)
        return false;
    off_t from = st.st_size > HISTORY_TAIL ? st.st_size - HISTORY_TAIL : 0;
    ssize_t len = pread(h->history, h->text, HISTORY_TAIL, from);
    h->text[len < 0 ? 0 : len] = '\0';
    snprintf(mark, sizeof mark, "\"what\":\"started\",\"n\":%" PRId64 ",", n);
    return strstr(h->text, mark) != NULL;
}

bool want_is_down(struct holder *h, int64_t *ret_grace_ms)
{
    (void)h;
    char text[32];
    int fd = openat(HOLD_FD_DIR, HOLD_WANT_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    text[len < 0 ? 0 : len] = '\0';
    if (strncmp(text, "down", 4) != 0)
        return false;
    char *end;
    int64_t grace = strtoll(text + 4, &end, 10);
    *ret_grace_ms = end == text + 4 || grace < 0 ? HOLD_GRACE_MS : grace;
    return true;
}

static const char *run_lock_name(struct holder *h, int64_t n)
{
    snprintf(h->text, sizeof h->text, HOLD_RUN_LOCK, (long long)n);
    return h->text;
}

static int run_lock_open(struct holder *h, int64_t n)
{
    struct stat st;
    int fd = file_make(HOLD_FD_DIR, run_lock_name(h, n), O_RDWR);
    if (fd < 0)
        return -1;
    /* It may be there, empty or not: a holder that died before its clone leaves it so. */
    if (lock_try(fd, 0) && fstat(fd, &st) == 0 && (st.st_size == 0 || ftruncate(fd, 0) == 0))
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

int run_lock_make(struct holder *h, int64_t n, int *ret_fd)
{
    int fd = h->spare_run;
    h->spare_run = -1;
    /* The spare is locked already, so H1 holds from the first moment of its new name on. */
    if (fd >= 0 &&
        syscall(SYS_renameat2, HOLD_FD_DIR, RUN_NEW, HOLD_FD_DIR, run_lock_name(h, n), RENAME_NOREPLACE) < 0) {
        close(fd);
        fd = -1;
    }
    if (fd < 0)
        fd = run_lock_open(h, n);
    if (fd < 0)
        return -1;
    *ret_fd = fd;
    return 0;
}

/* Another descriptor than the one that was inherited tells whether it is held. */
static void run_lock_unlink_free(const char *name)
{
    int fd = openat(HOLD_FD_DIR, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (lock_try(fd, 0))
        unlinkat(HOLD_FD_DIR, name, 0);
    close(fd);
}

void run_lock_end(struct holder *h, int fd, int64_t n)
{
    close(fd);
    run_lock_unlink_free(run_lock_name(h, n));
}

void run_locks_tidy(struct holder *h)
{
    struct dir_reader dir;
    const char *name;
    if (dir_open(&dir, HOLD_FD_DIR, ".") < 0)
        return;
    while ((name = dir_next(&dir))) {
        char *end;
        if (strncmp(name, "run.", 4) != 0)
            continue;
        int64_t n = strtoll(name + 4, &end, 10);
        if (n > 0 && n < h->run.n && strcmp(end, ".lock") == 0)
            run_lock_unlink_free(name);
    }
}

void run_lock_remember(struct holder *h)
{
    struct stat st;
    if (fstat(h->run.lock, &st) == 0) {
        h->life_dev = st.st_dev;
        h->life_inode = st.st_ino;
    }
}

void run_lock_abandon(struct holder *h, int64_t n)
{
    unlinkat(HOLD_FD_DIR, run_lock_name(h, n), 0);
}

static void report_end(struct holder *h, int len)
{
    /* Nobody may be listening any more; SIGPIPE is blocked. */
    if (write(HOLD_FD_REPORT, h->text, (size_t)len) < 0)
        errno = 0;
    close(HOLD_FD_REPORT);
}

void report_ok(struct holder *h)
{
    report_end(h, snprintf(h->text, sizeof h->text, "ok %d %" PRIu64 " %" PRId64 "\n", (int)h->run.pid, h->run.ticks,
                           h->run.started_ms));
}

void report_error(struct holder *h)
{
    report_end(h, snprintf(h->text, sizeof h->text, "error %s %d\n", h->failed_stage, h->failed_errno));
}
