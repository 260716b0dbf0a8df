#include "run/detach.h"
#include "base/ident.h"
#include "base/listing.h"
#include "base/log.h"
#include "base/text.h"
#include "graph/rundir.h"
#include "hold/protocol.h"
#include "proc/launch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RUNNERS_FOLDER "runners"
#define MESSAGE_MAX    (64u << 20)
#define TIDY_AGE_S     10 /* a younger directory may be one that is just being made */

/* ---- messages ------------------------------------------------------------------------------------------- */

/* One JSON document, then the end of this direction. */
static int send_document(int fd, const json_t *document)
{
    struct buf text CLEANUP(buf_clear) = {.max = MESSAGE_MAX};
    json_write(&text, document, false);
    for (size_t at = 0; !text.failed && at < text.len;) {
        ssize_t sent = send(fd, text.data + at, text.len - at, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return -1;
        at += sent < 0 ? 0 : (size_t)sent;
    }
    return text.failed ? -1 : shutdown(fd, SHUT_WR);
}

/* Everything up to the other side's end; -1 with ETIMEDOUT, or EPIPE when it ended without a word. */
static int receive_document(int fd, int64_t timeout_ms, json_t **ret)
{
    struct buf text CLEANUP(buf_clear) = {.max = MESSAGE_MAX};
    int64_t deadline = clock_now().boot_ms + timeout_ms;
    for (ssize_t got = 1; got != 0;) {
        int64_t left = deadline - clock_now().boot_ms;
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int ready = poll(&wait, 1, left > 0 ? (int)left : 0);
        if (ready == 0)
            return errno = ETIMEDOUT, -1;
        char *room = buf_reserve(&text, 65536);
        if (!room)
            return errno = ENOMEM, -1;
        got = ready < 0 ? -1 : recv(fd, room, 65536, 0);
        if (got < 0 && errno != EINTR && errno != EAGAIN)
            return -1;
        text.len += got > 0 ? (size_t)got : 0;
    }
    *ret = text.len ? json_loadb(text.data, text.len, 0, NULL) : NULL;
    return *ret ? 0 : (errno = EPIPE, -1);
}

/* ---- errors on their way -------------------------------------------------------------------------------- */

static json_t *error_pack(const struct tsk_error *err)
{
    json_t *items = json_array();
    unsigned cursor = 0;
    for (struct error_item item; error_item_next(err, &cursor, &item);) {
        char type[2] = {item.type, '\0'};
        struct buf value CLEANUP(buf_clear) = BUF_INIT;
        buf_json_string(&value, item.value); /* whatever bytes it has */
        json_array_append_new(
            items, json_pack("[s, s, o]", type, item.key, json_loads(buf_str(&value), JSON_DECODE_ANY, NULL)));
    }
    return json_pack("{s:s, s:i, s:s?, s:o}", "code", tsk_code_name(err->code), "errno", err->sys_errno, "text",
                     err->text, "items", items);
}

static void item_unpack(struct tsk_error *err, char type, const char *key, const char *value)
{
    if (type == 'n')
        error_add_next(err, "%s", value);
    else if (type == 'b')
        error_add_beside(err, key, value);
    else if (type == 'j')
        error_add_json(err, key, value);
    else
        error_add(err, key, value);
}

static int error_unpack(const json_t *packed, struct tsk_error *err)
{
    enum tsk_code code = TSK_INTERNAL;
    const char *name = json_get_string(packed, "code", ""), *text = json_get_string(packed, "text", NULL);
    for (enum tsk_code c = TSK_OK; c < code_count(); c++)
        code = strcmp(tsk_code_name(c), name) == 0 ? c : code;
    error_set(err, code, text ? text_key(text) : NULL, NULL);
    err->sys_errno = (int)json_get_int(packed, "errno", 0);
    json_each (json_object_get(packed, "items"), i, item)
        item_unpack(err, json_string_value(json_array_get(item, 0))[0], json_string_value(json_array_get(item, 1)),
                    json_string_value(json_array_get(item, 2)));
    return -1;
}

/* ---- places for holders --------------------------------------------------------------------------------- */

static void empty_dir(int dir)
{
    struct listing names CLEANUP(listing_close);
    listing_open(&names, dir, ".", 0);
    for (const char *name; (name = listing_next(&names));)
        if (strcmp(name, HOLD_LOG_DIR) == 0) {
            int log CLEANUP_FD = fs->openat(dir, HOLD_LOG_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
            if (log >= 0)
                empty_dir(log);
            fs->unlinkat(dir, HOLD_LOG_DIR, AT_REMOVEDIR);
        } else if (name[0] != '.') {
            fs->unlinkat(dir, name, 0);
        }
}

/* T4. A process that has a lock of it still uses it. */
static void place_tidy(int runners, const char *name)
{
    struct stat st;
    struct proc_status start;
    bool has_identity, is_held = true;
    struct tsk_error ignored;
    int dir CLEANUP_FD = fs->openat(runners, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (dir < 0 || fs->fstat(dir, &st) < 0 || clock_now().wall_ms / 1000 - st.st_mtim.tv_sec < TIDY_AGE_S)
        return;
    int lock CLEANUP_FD = proc_holder_lock(dir, 0);
    if (lock < 0)
        return;
    if (proc_start_read(dir, 1, &start, &has_identity, &is_held, &ignored) == 0)
        is_held = false;
    if (is_held)
        return;
    empty_dir(dir);
    fs->unlinkat(runners, name, AT_REMOVEDIR);
}

static void places_tidy(int runners)
{
    struct listing names CLEANUP(listing_close);
    listing_open(&names, runners, ".", 0);
    for (const char *name; (name = listing_next(&names));)
        if (name[0] != '.')
            place_tidy(runners, name);
}

static int place_make(struct tsk_workspace *ws, struct tsk_error *err)
{
    char name[24];
    int runners CLEANUP_FD = fs_open_made_dir(ws->state_dir, RUNNERS_FOLDER);
    if (runners < 0)
        return fs_error(err, "open", ws->state_dir, RUNNERS_FOLDER);
    places_tidy(runners);
    random_hex(name, 16);
    if (fs->mkdirat(runners, name, 0700 | FS_KEEP) < 0)
        return fs_error(err, "make", runners, name);
    int dir = fs->openat(runners, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    return dir < 0 ? fs_error(err, "open", runners, name) : dir;
}

/* ---- the starter ---------------------------------------------------------------------------------------- */

/* The runner is our own process, not one of `tasuki proc`: a failed start is a problem of the machine, and `proc
 * status` would show nothing. */
static int not_launched(struct tsk_error *err)
{
    if (err->code != TSK_PROCESS_START_FAILED)
        return -1;
    if (!err->sys_errno)
        return error_set(err, TSK_ENVIRONMENT, "runner_died", NULL);
    errno = err->sys_errno;
    return error_errno(err, "start", "runner");
}

static int launch_runner(struct tsk_workspace *ws, const json_t *job, int channel, struct tsk_error *err)
{
    char cwd[PATH_MAX];
    struct launch launch;
    int dir CLEANUP_FD = place_make(ws, err);
    if (dir < 0)
        return -1;
    const char *words[] = {"--root", ws->root, DETACH_WORD, NULL};
    struct launch_self what = {.dir = dir,
                               .name = json_get_string(job, "name", "run"),
                               .cwd = json_get_string(job, "cwd", getcwd(cwd, sizeof cwd) ? cwd : ws->root),
                               .words = words,
                               .pass = channel};
    int result = launch_self(&what, &launch, err);
    if (result == 0)
        result = launch_result(&launch, err);
    launch_clear(&launch);
    return result < 0 ? not_launched(err) : 0;
}

static int no_answer(struct tsk_error *err)
{
    return error_set(err, TSK_ENVIRONMENT, errno == ETIMEDOUT ? "runner_slow" : "runner_died", NULL);
}

int run_detach(struct tsk_workspace *ws, const json_t *job, json_t **ret_answer, struct tsk_error *err)
{
    int pair[2];
    json_t *reply CLEANUP_JSON = NULL;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "start", "runner");
    int ours CLEANUP_FD = pair[0], theirs CLEANUP_FD = pair[1];
    if (launch_runner(ws, job, theirs, err) < 0)
        return -1;
    fs_close(&theirs);
    theirs = -1;
    if (send_document(ours, job) < 0 || receive_document(ours, DETACH_ANSWER_MS, &reply) < 0)
        return no_answer(err);
    if (json_object_get(reply, "failed"))
        return error_unpack(json_object_get(reply, "failed"), err);
    *ret_answer = json_incref(json_object_get(reply, "answer"));
    return 0;
}

/* ---- the runner ----------------------------------------------------------------------------------------- */

int job_take(json_t **ret, struct tsk_error *err)
{
    int fd = HOLD_FD_PASS;
    fcntl(fd, F_SETFD, FD_CLOEXEC); /* NOLINT: it came with us; tasks must not have it */
    if (receive_document(fd, DETACH_ANSWER_MS, ret) < 0)
        return error_errno(err, "read", "job");
    return 0;
}

static void detach_reply(json_t *document_take)
{
    json_t *document CLEANUP_JSON = document_take;
    send_document(HOLD_FD_PASS, document); /* a starter that is gone is not missed */
    close(HOLD_FD_PASS);
}

static void move_output(struct tsk_workspace *ws, const char *run_id)
{
    char name[RUN_ID_MAX + 32];
    snprintf(name, sizeof name, "runs/%s/%s", run_id, DETACH_RUNNER_LOG);
    int log CLEANUP_FD = fs->openat(ws->state_dir, name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (log >= 0) {
        dup2(log, 1);
        dup2(log, 2);
    }
}

void job_answer(struct tsk_workspace *ws, const char *run_id, const json_t *answer)
{
    if (run_id)
        move_output(ws, run_id);
    detach_reply(json_pack("{s:O}", "answer", answer));
}

void job_fail(const struct tsk_error *err)
{
    detach_reply(json_pack("{s:o}", "failed", error_pack(err)));
}
