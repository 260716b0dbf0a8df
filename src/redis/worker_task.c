/* worker_task.c - one attempt on a worker: its files, its start, its lease, its end. */
#include "base/fs.h"
#include "base/listing.h"
#include "base/log.h"
#include "graph/output.h"
#include "redis/sign.h"
#include "redis/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOG_TAIL_MAX (1 << 20)
#define MARGIN_MS    1000
#define REST_MS      10000 /* W7: a worker that cannot start a task claims none for this long */

struct attempt_files {
    char channel[PATH_MAX], output[PATH_MAX], answer[PATH_MAX], log[PATH_MAX];
    char dir[PATH_MAX]; /* with the files that travelled with the run */
};

static void files_name(const struct worker *w, const struct worker_place *place, struct attempt_files *ret)
{
    unsigned long long fence = place->claim.fence;
    int number = (int)(place - w->places);
    snprintf(ret->output, PATH_MAX, "%.3900s/output.%d.%llu", w->scratch, number, fence);
    snprintf(ret->answer, PATH_MAX, "%.3900s/answer.%d.%llu", w->scratch, number, fence);
    snprintf(ret->log, PATH_MAX, "%.3900s/log.%d", w->scratch, number);
    snprintf(ret->dir, PATH_MAX, "%.3900s/files.%d.%llu", w->scratch, number, fence);
}

static int file_write_whole(const char *path, const char *text, size_t len)
{
    int fd CLEANUP_FD = fs->openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return fd < 0 ? -1 : fs_write_all(fd, text, len);
}

static struct guard_word word_of(const struct worker *w, const struct worker_place *place)
{
    struct guard_word word = {.place = (uint32_t)(place - w->places),
                              .kill_at_ms = place->run && !place->is_lost ? place->kill_at_ms : 0,
                              .fence = place->claim.fence};
    snprintf(word.root, sizeof word.root, "%s", place->run ? place->run->root : "");
    snprintf(word.id, sizeof word.id, "%s", place->id);
    return word;
}

static bool tell_words(struct worker *w, bool is_all)
{
    struct guard_word words[GUARD_WORDS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < w->place_count; i++) {
        if (is_all ? w->places[i].run != NULL : w->places[i].tells)
            words[count++] = word_of(w, &w->places[i]);
        if (count == GUARD_WORDS_MAX || (count && i + 1 == w->place_count)) {
            if (!guard_tell(w->guard_fd, words, count))
                return false;
            count = 0;
        }
    }
    return true;
}

void guard_words(struct worker *w)
{
    if (w->has_words && !tell_words(w, false)) {
        /* It died, or does not hear (G5): another one hears of all places. It is killed first: one that sees the end of its socket
         * takes the worker for dead. */
        if (w->guard_pid > 0 && kill(w->guard_pid, SIGKILL) == 0)
            waitpid(w->guard_pid, NULL, 0);
        fs_close(&w->guard_fd);
        w->guard_fd = guard_start(&w->settings, w->id, w->scratch, w->place_count, &w->guard_pid);
        if (w->guard_fd < 0 || !tell_words(w, true))
            return;
    }
    w->has_words = false;
    for (size_t i = 0; i < w->place_count; i++)
        w->places[i].tells = false;
}

static void tell_guard(struct worker *w, struct worker_place *place)
{
    place->tells = w->has_words = true;
}

/* No call waits past the time at which the next attempt has to be killed: the guard may be stopped. */
static void limit_calls(const struct worker *w)
{
    int64_t due = INT64_MAX, now = clock_now().boot_ms;
    for (size_t i = 0; i < w->place_count; i++)
        if (w->places[i].run && w->places[i].kill_at_ms > now && w->places[i].kill_at_ms < due)
            due = w->places[i].kill_at_ms;
    redis_due(due);
}

static void place_lease(struct worker *w, struct worker_place *place, int64_t before_ms)
{
    int64_t lease = place->run->lease_ms;
    place->lease_until_ms = before_ms + lease;
    place->kill_at_ms = place->lease_until_ms - (lease / 5 < MARGIN_MS ? lease / 5 : MARGIN_MS);
    tell_guard(w, place);
    limit_calls(w);
}

void place_renewed(struct worker *w, struct worker_place *place, int64_t before_ms)
{
    place->renewed_ms = place->kill_at_ms;
    place_lease(w, place, before_ms);
}

/* W2. */
void places_renewed(struct worker *w)
{
    guard_words(w);
    int64_t now = clock_now().boot_ms;
    for (size_t i = 0; i < w->place_count; i++) {
        struct worker_place *place = &w->places[i];
        if (place->run && place->renewed_ms && now >= place->renewed_ms) {
            place->is_back = true;
            execution_kill(&place->run->executor, &place->claim, &place->process);
        }
        place->renewed_ms = 0;
    }
}

/* ---- ends ----------------------------------------------------------------------------------------------- */

static struct worker_result *result_add(struct worker *w, const struct worker_place *place)
{
    struct worker_result *result = calloc(1, sizeof *result), **at = &w->results;
    BUG(!result);
    result->run = place->run;
    result->made_ms = clock_now().boot_ms;
    snprintf(result->id, sizeof result->id, "%s", place->id);
    snprintf(result->fence, sizeof result->fence, "%s", place->fence);
    result->result.max = result->log.max = BUF_MAX_DEFAULT;
    while (*at)
        at = &(*at)->next;
    *at = result;
    return result;
}

/* What the runner has not seen of the log. A long rest is cut, and says so. */
static void task_take_log(struct worker_place *place, struct worker_result *result)
{
    struct stat st;
    if (place->log_fd < 0 || fs->fstat(place->log_fd, &st) < 0 || st.st_size <= place->log_sent)
        return;
    int64_t rest = st.st_size - place->log_sent, skip = rest > LOG_TAIL_MAX ? rest - LOG_TAIL_MAX : 0;
    result->log_at = place->log_sent;
    if (skip)
        buf_printf(&result->log, "\n[tasuki: %lld bytes of output are left out here]\n", (long long)skip);
    char *room = buf_reserve(&result->log, (size_t)(rest - skip));
    ssize_t len = room ? fs->pread(place->log_fd, room, (size_t)(rest - skip), place->log_sent + skip) : 0;
    result->log.len += len > 0 ? (size_t)len : 0;
}

static int attempt_log_open(const char *path, int flags)
{
    return fs->openat(AT_FDCWD, path, O_RDWR | O_APPEND | O_CLOEXEC | flags, 0600);
}

/* Whether nobody else has it open for writing: the kernel gives the lease only then. Who would open it meanwhile gets it after that, and
 * we a signal that is ignored, not SIGIO, which ends a process. */
static bool is_ours_alone(int fd)
{
    return fcntl(fd, F_SETSIG, SIGURG) == 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0 &&
           fcntl(fd, F_SETLEASE, F_UNLCK) == 0;
}

/* A log without a word serves the next attempt: to make a file and remove it may take longer than the attempt itself. It is opened anew for
 * that. An attempt that has left a process running has it open still, and leaves it to that process. */
static void log_free(struct worker_place *place, const char *path)
{
    struct stat st;
    bool is_empty = place->log_fd >= 0 && fs->fstat(place->log_fd, &st) == 0 && st.st_size == 0;
    fs_close(&place->log_fd);
    place->log_fd = is_empty ? attempt_log_open(path, 0) : -1;
    if (place->log_fd >= 0 && is_ours_alone(place->log_fd) && fs->fstat(place->log_fd, &st) == 0 && st.st_size == 0)
        return;
    fs_close(&place->log_fd);
    place->log_fd = -1;
    fs->unlinkat(AT_FDCWD, path, 0);
}

static void place_free(struct worker *w, struct worker_place *place)
{
    struct attempt_files files;
    files_name(w, place, &files);
    log_free(place, files.log);
    scratch_note(w->attempts_fd, (size_t)(place - w->places), 0, "");
    if (!place->has_no_output)
        fs->unlinkat(AT_FDCWD, files.output, 0);
    if (place->has_answer)
        fs->unlinkat(AT_FDCWD, files.answer, 0);
    if (place->has_files)
        listing_remove_tree(AT_FDCWD, files.dir);
    fs_close(&place->process.pidfd);
    place->run->look_ms = clock_now().boot_ms;
    free((char *)place->claim.task);
    free((char *)place->claim.session);
    *place = (struct worker_place){.log_fd = place->log_fd, .process.pidfd = -1};
    w->used--;
    tell_guard(w, place);
}

static void put_result(struct worker *w, struct worker_place *place, struct worker_result *result, enum wire_end end,
                       int status, const char *text)
{
    struct attempt_files files;
    struct buf output CLEANUP(buf_clear) = {.max = OUTPUT_MAX};
    struct wire_result r = {.end = end,
                            .status = status,
                            .has_timed_out = place->process.stops == STOP_TIMEOUT,
                            .ms = clock_now().boot_ms - place->started_ms};
    files_name(w, place, &files);
    if (end <= WIRE_KILLED && fs_read_file(AT_FDCWD, files.output, OUTPUT_MAX - 1, &output) < 0) {
        r.is_output_too_large = errno == EFBIG;
        place->has_no_output = errno == ENOENT;
    }
    r.output = text ? text : buf_str(&output);
    r.output_len = text ? strlen(text) : output.len;
    wire_put_result(&result->result, &r);
}

/* It has ended; W2: only within its lease is that a result. */
static void place_end(struct worker *w, struct worker_place *place, enum wire_end end, int status, const char *text)
{
    bool is_late = clock_now().boot_ms >= place->kill_at_ms;
    worker_say(w, place->run->root, place->claim.task, place->claim.session,
               place->is_lost || is_late ? "lost"
               : place->is_back          ? "returned"
                                         : "ended");
    if (!place->is_lost) {
        struct worker_result *result = result_add(w, place);
        result->is_back = place->is_back || is_late;
        result->is_unknown = place->is_unknown;
        task_take_log(place, result);
        if (!result->is_back)
            put_result(w, place, result, end, status, text);
    }
    place_free(w, place);
}

void place_stop(struct worker *w, struct worker_place *place, enum stop why)
{
    (void)w;
    execution_stop(&place->run->executor, &place->claim, &place->process, why);
}

void place_lose(struct worker *w, struct worker_place *place)
{
    (void)w;
    place->is_lost = true;
    execution_kill(&place->run->executor, &place->claim, &place->process);
}

static void place_look(struct worker *w, struct worker_place *place, int64_t now)
{
    struct attempt_process *process = &place->process;
    if (!place->is_lost && now >= place->kill_at_ms && process->kill_at_ms != INT64_MAX) {
        execution_kill(&place->run->executor, &place->claim, process); /* W1 */
        process->kill_at_ms = INT64_MAX;
        process->stops = process->stops == STOP_NONE ? STOP_RUN : process->stops;
    }
    if (process->deadline_ms && process->deadline_ms <= now)
        place_stop(w, place, STOP_TIMEOUT);
    else if (process->kill_at_ms && process->kill_at_ms <= now)
        place_stop(w, place, process->stops);
    bool has_exited = process->look_at_ms ? process->look_at_ms <= now : execution_has_exited(process);
    if (has_exited && execution_ended(&place->run->executor, &place->claim, process))
        place_end(w, place, execution_was_killed(process) ? WIRE_KILLED : WIRE_EXITED, process->end.si_status, NULL);
}

void places_look(struct worker *w)
{
    for (size_t i = 0; i < w->place_count; i++)
        if (w->places[i].run)
            place_look(w, &w->places[i], clock_now().boot_ms);
    limit_calls(w);
}

/* ---- the start ------------------------------------------------------------------------------------------ */

/* The values of a session that has none. Attempts that run may be reading it. */
static int make_empty(const char *path)
{
    struct stat st;
    bool is_there = fs->fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
    return is_there && st.st_size == 2 ? 0 : file_write_whole(path, "{}", 2);
}

/* 1: its files are refused. */
static int make_files(struct worker *w, struct worker_place *place, const struct wire_spec *wire,
                      struct attempt_files *files)
{
    files_name(w, place, files);
    place->has_answer = wire->answer != NULL;
    if (wire->answer && file_write_whole(files->answer, wire->answer, strlen(wire->answer)) < 0)
        return -1;
    if (wire->channel == 0) {
        snprintf(files->channel, PATH_MAX, "%.4000s/empty.json", w->scratch);
        if (make_empty(files->channel) < 0)
            return -1;
    } else if (talk_channel(w, place->run, wire->values ? wire->values : "", wire->channel, files->channel) < 0) {
        return -1;
    }
    if (place->log_fd < 0)
        place->log_fd = attempt_log_open(files->log, O_CREAT | O_EXCL);
    if (place->log_fd < 0 ||
        scratch_note(w->attempts_fd, (size_t)(place - w->places), place->claim.fence, place->run->root) < 0)
        return -1;
    if (!wire->files)
        return 0;
    place->has_files = true;
    return files_unpack(w, wire->files, files->dir);
}

static void place_start(struct worker *w, struct worker_place *place, const struct wire_spec *wire,
                        const struct attempt_files *files)
{
    char cwd[PATH_MAX];
    struct tsk_error err;
    bool is_absolute = wire->cwd && wire->cwd[0] == '/';
    const char *base = wire->files ? files->dir : w->dir;
    snprintf(cwd, sizeof cwd, "%.2000s%s%.2000s", is_absolute ? "" : base, wire->cwd && !is_absolute ? "/" : "",
             wire->cwd ? wire->cwd : "");
    struct attempt_spec spec = {.claim = &place->claim,
                                .argv = wire->argv,
                                .cwd = cwd,
                                .env = wire->env,
                                .env_count = wire->env_count,
                                .channel = files->channel,
                                .output = files->output,
                                .answer = wire->answer ? files->answer : NULL,
                                .root = w->dir,
                                .chain = wire->chain,
                                .worker = w->name,
                                .log_fd = place->log_fd};
    place->started_ms = clock_now().boot_ms;
    place->process.deadline_ms = wire->timeout_ms ? place->started_ms + wire->timeout_ms : 0;
    place->run->executor.grace_ms = wire->grace_ms;
    place->is_back = place->started_ms >= place->kill_at_ms; /* W2: the claim was answered late, or we were stopped */
    if (place->is_back) {
        place_end(w, place, WIRE_NOT_STARTED, 0, "");
        return;
    }
    if (execution_start(&place->run->executor, &spec, &place->process, &err) == 0) {
        worker_say(w, place->run->root, place->claim.task, place->claim.session, "started");
        return;
    }
    const char *what = tsk_error_context(&err, "what");
    place_end(w, place, WIRE_NOT_STARTED, err.sys_errno, what ? what : "cwd");
}

static struct worker_place *free_place(struct worker *w)
{
    for (size_t i = 0; i < w->place_count; i++)
        if (!w->places[i].run)
            return &w->places[i];
    BUG(true);
}

/* What is executed: 0; it goes back to others (-1); or the reason for a refusal. */
static int spec_read(struct worker *w, struct worker_place *place, struct parcel item, struct wire_spec *ret,
                     const char **ret_reason)
{
    struct parcel spec = {"", 0};
    *ret = (struct wire_spec){0};
    *ret_reason = sign_check(&w->settings, place->run->root, place->id, item, &spec);
    if (*ret_reason)
        return -1;
    int result = wire_read_spec(spec, &w->env, ret);
    if (result == 1) { /* W7 */
        worker_say(w, place->run->root, place->id, "", "is of another version, and goes back");
        place->is_unknown = true;
        w->rest_ms = clock_now().boot_ms + REST_MS;
    }
    if (result < 0)
        *ret_reason = WIRE_UNREADABLE;
    return result == 0 ? 0 : -1;
}

/* W7 */
static void worker_rest(struct worker *w, const struct worker_place *place, int number)
{
    worker_say(w, place->run->root, place->claim.task, place->claim.session, strerrordesc_np(number));
    w->rest_ms = clock_now().boot_ms + REST_MS;
}

struct worker_place *place_take(struct worker *w, struct worker_run *run, const char *id, const char *fence,
                                int64_t before_ms)
{
    struct worker_place *place = free_place(w);
    *place = (struct worker_place){.run = run, .log_fd = place->log_fd, .process.pidfd = -1};
    snprintf(place->id, sizeof place->id, "%s", id);
    snprintf(place->fence, sizeof place->fence, "%s", fence);
    place->claim.fence = strtoull(fence, NULL, 10);
    w->used++;
    place_lease(w, place, before_ms);
    return place;
}

void place_begin(struct worker *w, struct worker_place *place, struct parcel item)
{
    struct wire_spec wire;
    struct attempt_files files;
    const char *reason;
    int made = spec_read(w, place, item, &wire, &reason);
    place->claim.attempt = wire.attempt;
    place->claim.task = strdup(made == 0 ? wire.task : "?");
    place->claim.session = strdup(made == 0 ? wire.session : "?");
    BUG(!place->claim.task || !place->claim.session);
    guard_words(w); /* G1: before the process */
    if (reason)
        talk_dead(w, place, reason);
    if (made == 0 && w->ends > 1) { /* W5: it was in an answer that had been lost */
        made = -1;
    } else if (made == 0) {
        made = make_files(w, place, &wire, &files);
        reason = made > 0 ? WIRE_FILES : NULL;
        if (made < 0 && errno)
            worker_rest(w, place, errno);
    }
    place->is_back = made < 0 && !reason;
    if (made == 0)
        place_start(w, place, &wire, &files);
    else
        place_end(w, place, reason ? WIRE_REFUSED : WIRE_NOT_STARTED, 0, reason ? reason : "");
    free(wire.argv);
}
