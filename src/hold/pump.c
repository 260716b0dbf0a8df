/* pump.c - modes pipe and stamped: moving what the child writes from FIFOs into the log.
 *
 *  M1  The child has each FIFO open for reading and writing: our death neither breaks it nor loses what is in it, and the holder
 *      that adopts the child continues reading.
 *  M2  Bytes leave the FIFO when they are in the file: splice moves them, the stamped mode copies them with tee, writes, and
 *      consumes exactly what it wrote. Killed in between, it leaves a repetition, never a gap.
 *  M3  The child never waits for a disk: what cannot be written is dropped, counted and said.
 *  M4  Only the owner of byte 1 of holder.lock (HOLD_LOCK_PUMP) moves bytes. A holder in charge keeps it. A holder that only
 *      empties the pipes of leftovers takes it for a moment each time, appends, and leaves if another process has it. */
#include "hold/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PIPE_SIZE      (1 << 20)
#define MOVES_MAX      16 /* in one go, so that signals get their turn */
#define PUMP_DRAIN_MAX 64 /* a pipe holds less than this; a leftover may continue writing for ever */
#define FULL_MS        1000
#define PUMP_WAIT_MS   3000
#define NULL_FD        1 /* /dev/null, as protocol.h says */
#define STAMP_LEN      29

/* M4. Another one's moment is short. */
static bool pump_lock(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < PUMP_WAIT_MS; i++) {
        if (lock_try(HOLD_FD_LOCK, HOLD_LOCK_PUMP))
            return true;
        nanosleep(&pause, NULL);
    }
    errno = EBUSY;
    return false;
}

static int fifo_open(const char *name, int flags)
{
    struct stat st;
    int fd = openat(HOLD_FD_DIR, name, flags | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode))) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd;
}

static int input_open(struct holder *h, int i)
{
    static const char names[2][16] = {"stdout.pipe", "stderr.pipe"};
    static const char words[2][4] = {"out", "err"};
    struct log_input *in = &h->inputs[i];
    memcpy(in->word, words[i], sizeof in->word);
    in->file = &h->files[h->mode == LOG_STAMPED ? 0 : i];
    in->is_mute = false;
    if (mkfifoat(HOLD_FD_DIR, names[i], 0600) < 0 && errno != EEXIST)
        return -1;
    if (in->pipe < 0)
        in->pipe = fifo_open(names[i], O_RDONLY | O_NONBLOCK);
    if (in->pipe < 0)
        return -1;
    fcntl(in->pipe, F_SETPIPE_SZ, PIPE_SIZE); /* may be more than this user is allowed */
    if (h->opt.adopt)
        return 0;
    h->child_fd[i] = fifo_open(names[i], O_RDWR);
    return h->child_fd[i] < 0 ? -1 : 0;
}

/* Whether a SIGKILL can have left this: the beginning of a stamp, and nothing of the line that it was made for. */
static bool is_torn_stamp(const char *text, size_t len)
{
    static const char form[] = "0000-00-00T00:00:00.000Z ";
    bool is_like_it = len > 0 && len <= STAMP_LEN;
    for (size_t i = 0; is_like_it && i < len && i < sizeof form - 1; i++)
        is_like_it = form[i] == '0' ? text[i] >= '0' && text[i] <= '9' : text[i] == form[i];
    return is_like_it;
}

/* The stamped file may end inside a line of a holder before us. A line that was not begun is in the FIFO as a whole (M2), so
 * that a piece of its stamp can go. */
static void line_look(struct holder *h)
{
    struct log_file *f = &h->files[0];
    char tail[STAMP_LEN + 1];
    size_t want = f->size < (int64_t)sizeof tail ? (size_t)f->size : sizeof tail;
    ssize_t len = want ? pread(f->fd, tail, want, f->size - (off_t)want) : 0;
    size_t line = 0;
    while (len > 0 && line < (size_t)len && tail[(size_t)len - 1 - line] != '\n')
        line++;
    h->is_line_open = line > 0;
    if (len > 0 && is_torn_stamp(tail + len - line, line) && ftruncate(f->fd, f->size - (off_t)line) == 0) {
        f->size -= (off_t)line;
        h->is_line_open = false;
    }
}

int pump_open(struct holder *h)
{
    if (!pump_lock())
        return -1;
    if (h->mode == LOG_TTY ? tty_open(h) < 0 : input_open(h, 0) < 0 || input_open(h, 1) < 0)
        return -1;
    history_reserve(h);
    h->open_line = NULL; /* a new start does not continue in anybody's line */
    if (h->mode == LOG_STAMPED && h->peek[0] < 0) {
        line_look(h);
        return pipe2(h->peek, O_CLOEXEC | O_NONBLOCK);
    }
    return 0;
}

static void file_count_dropped(struct holder *h, struct log_file *f, ssize_t len)
{
    f->dropped += len;
    if (!f->is_full && h->state != PUMPING)
        history_add(h, "log_full", h->run.n, ",\"stream\":\"%s\"", f->name);
    f->is_full = true;
}

/* M3. Returns as splice. */
static ssize_t input_drop(struct holder *h, struct log_input *in, size_t len)
{
    ssize_t done = splice(in->pipe, NULL, NULL_FD, NULL, len, SPLICE_F_NONBLOCK);
    if (done > 0)
        file_count_dropped(h, in->file, done);
    return done;
}

static void file_is_full(struct log_file *f)
{
    f->retry_at = clock_boot_ms() + FULL_MS;
}

static void file_has_room(struct holder *h, struct log_file *f)
{
    if (!f->is_full)
        return;
    if (h->state != PUMPING)
        history_add(h, "log_resumed", h->run.n, ",\"stream\":\"%s\",\"dropped\":%" PRId64, f->name, f->dropped);
    history_reserve(h);
    f->is_full = false;
    f->dropped = 0;
}

/* Mode pipe, in charge: no byte passes through our memory. */
static ssize_t input_splice(struct holder *h, struct log_input *in)
{
    struct log_file *f = in->file;
    off_t at = f->size;
    ssize_t done = splice(in->pipe, NULL, f->fd, &at, PIPE_SIZE, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (done < 0 && errno != EAGAIN) {
        file_is_full(f);
        return input_drop(h, in, PIPE_SIZE);
    }
    if (done > 0) {
        f->size += done;
        file_has_room(h, f);
    }
    return done;
}

/* All of it, at the end of the file; or nothing, the file being as before. */
static int file_append(struct holder *h, struct log_file *f, const char *data, size_t len)
{
    off_t at = f->size;
    while (len > 0) {
        ssize_t done = pwrite(f->fd, data, len, at);
        if (done <= 0) {
            if (h->state != PUMPING && ftruncate(f->fd, f->size) < 0)
                f->size = at;
            return -1;
        }
        at += done;
        data += done;
        len -= (size_t)done;
    }
    f->size = at;
    return 0;
}

static size_t stamp_make(const struct log_input *in, char *stamp, size_t size)
{
    int64_t now = clock_wall_ms();
    time_t seconds = now / 1000;
    struct tm t;
    gmtime_r(&seconds, &t);
    return (size_t)snprintf(stamp, size, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ %s ", t.tm_year + 1900, t.tm_mon + 1,
                            t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, (int)(now % 1000), in->word);
}

/* Fills h->stamped with lines of h->data from `at` on, each with the stamp before it, unless it continues with the line that the
 * file ends in. Returns how far it got. */
static size_t lines_stamp(struct holder *h, struct log_input *in, const char *stamp, size_t stamp_len, size_t at,
                          size_t len, size_t *ret_used)
{
    bool is_inside = h->is_line_open && h->open_line == in;
    char *out = h->stamped;
    if (h->is_line_open && !is_inside)
        *out++ = '\n';
    while (at < len) {
        const char *from = h->data + at, *newline = memchr(from, '\n', len - at);
        size_t piece = newline ? (size_t)(newline + 1 - from) : len - at;
        if (out + stamp_len + piece > h->stamped + sizeof h->stamped)
            break;
        if (!is_inside) {
            memcpy(out, stamp, stamp_len);
            out += stamp_len;
        }
        memcpy(out, from, piece);
        out += piece;
        at += piece;
        is_inside = !newline;
    }
    *ret_used = (size_t)(out - h->stamped);
    return at;
}

/* Writes h->data. Returns how much of it is in the file. */
static size_t data_write(struct holder *h, struct log_input *in, size_t len)
{
    char stamp[64];
    if (h->mode == LOG_PIPE)
        return file_append(h, in->file, h->data, len) < 0 ? 0 : len;
    size_t stamp_len = stamp_make(in, stamp, sizeof stamp);
    for (size_t done = 0; done < len;) {
        size_t used, at = lines_stamp(h, in, stamp, stamp_len, done, len, &used);
        if (file_append(h, in->file, h->stamped, used) < 0)
            return done;
        done = at;
        h->is_line_open = h->data[done - 1] != '\n';
        h->open_line = in;
    }
    return len;
}

/* M2: the bytes stay in the FIFO until they are in the file. */
static ssize_t input_copy(struct holder *h, struct log_input *in)
{
    ssize_t len = tee(in->pipe, h->peek[1], sizeof h->data, SPLICE_F_NONBLOCK);
    if (len > 0)
        len = read(h->peek[0], h->data, (size_t)len);
    if (len <= 0)
        return len;
    size_t done = data_write(h, in, (size_t)len);
    if (done > 0)
        file_has_room(h, in->file);
    if (done > 0 && splice(in->pipe, NULL, NULL_FD, NULL, done, SPLICE_F_NONBLOCK) < 0)
        return -1;
    if (done < (size_t)len) {
        file_is_full(in->file);
        input_drop(h, in, (size_t)len - done);
    }
    return len;
}

/* Of a terminal's master (tty.c). EIO: nobody has the terminal open. */
static ssize_t input_take(struct holder *h, struct log_input *in)
{
    struct log_file *f = in->file;
    ssize_t len = read(in->pipe, h->data, sizeof h->data);
    if (len <= 0)
        return len < 0 && errno == EIO ? 0 : len;
    tty_show(h, HOLD_TTY_OUTPUT, h->data, (size_t)len);
    size_t plain = tty_plain(h, (size_t)len);
    if (file_append(h, f, h->stamped, plain) < 0) {
        file_is_full(f);
        file_count_dropped(h, f, (ssize_t)plain);
    } else {
        file_has_room(h, f);
    }
    return len;
}

static ssize_t input_move(struct holder *h, struct log_input *in)
{
    struct log_file *f = in->file;
    if (h->mode == LOG_TTY)
        return input_take(h, in);
    if (f->is_full && clock_boot_ms() < f->retry_at)
        return input_drop(h, in, PIPE_SIZE);
    return h->mode == LOG_PIPE && h->state != PUMPING ? input_splice(h, in) : input_copy(h, in);
}

static void input_work(struct holder *h, struct log_input *in, int moves)
{
    struct log_file *f = in->file;
    struct stat st;
    if (in->pipe < 0 || in->is_mute || fstat(f->fd, &st) < 0)
        return;
    if (h->state == PUMPING)
        f->size = st.st_size;
    else
        log_file_check_cut(h, f, st.st_size);
    ssize_t done = 1;
    while (done > 0 && moves-- > 0) {
        done = input_move(h, in);
        log_file_bound(h, f);
    }
    in->is_mute = done == 0;
}

static bool inputs_are_mute(const struct holder *h)
{
    return h->inputs[0].is_mute && (h->inputs[1].is_mute || h->inputs[1].pipe < 0);
}

/* The next holder takes the lock before it replaces status.json, which this function notices. */
void pump_watch(struct holder *h)
{
    if (fcntl(h->watch, F_SETSIG, SIGRTMIN) < 0 || fcntl(h->watch, F_NOTIFY, DN_RENAME) < 0)
        return; /* then it is noticed at the next output */
    if (lock_is_held(HOLD_FD_LOCK, HOLD_LOCK_PUMP))
        h->state = OVER;
}

/* M4. */
static void alone_wake(struct holder *h, struct log_input *in)
{
    if (!lock_try(HOLD_FD_LOCK, HOLD_LOCK_PUMP)) {
        h->state = OVER;
        return;
    }
    input_work(h, in, MOVES_MAX);
    output_grew(h);
    lock_drop(HOLD_FD_LOCK, HOLD_LOCK_PUMP);
    if (inputs_are_mute(h))
        h->state = OVER;
}

void pump_wake(struct holder *h, struct log_input *in)
{
    if (h->state == PUMPING) {
        alone_wake(h, in);
        return;
    }
    input_work(h, in, MOVES_MAX);
    output_grew(h);
}

void pump_drain(struct holder *h)
{
    input_work(h, &h->inputs[0], PUMP_DRAIN_MAX);
    input_work(h, &h->inputs[1], PUMP_DRAIN_MAX);
}

void pump_alone(struct holder *h)
{
    if (inputs_are_mute(h))
        return;
    if (h->peek[0] < 0 && pipe2(h->peek, O_CLOEXEC | O_NONBLOCK) < 0)
        return;
    for (int i = 0; i < 2; i++) {
        if (h->files[i].name)
            fcntl(h->files[i].fd, F_SETFL, O_APPEND);
    }
    lock_drop(HOLD_FD_LOCK, HOLD_LOCK_PUMP);
    h->state = PUMPING;
    h->watch = openat(HOLD_FD_DIR, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pump_watch(h);
}
