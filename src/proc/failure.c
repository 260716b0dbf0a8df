#include "proc/failure.h"
#include "base/fs.h"
#include "base/listing.h"
#include "base/log.h"
#include "proc/log.h"
#include "proc/log_text.h"
#include "proc/registry.h"
#include "store/notify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK_PREFIX "notified.failure."

enum {
    TOLD_LINES = 20,
    TOLD_BYTES = 8 << 10,
};

bool proc_failure_is_told(struct tsk_workspace *ws)
{
    return notify_has_command(ws, NOTIFY_FAILURE);
}

/* ---- the mark ---- */

/* The start whose mark that is; 0: it is none. */
static int64_t start_of_mark(const char *name)
{
    const size_t len = sizeof MARK_PREFIX - 1;
    return strncmp(name, MARK_PREFIX, len) == 0 ? strtoll(name + len, NULL, 10) : 0;
}

/* F2. Whether a later start has a mark; if not, those of earlier ones go. */
static bool tidy_marks(int dir, int64_t n)
{
    struct listing names CLEANUP(listing_close);
    int64_t newest = 0, start;
    if (listing_open(&names, dir, ".", LISTING_NO_LINK) < 0)
        return false;
    for (const char *name; (name = listing_next(&names));)
        if ((start = start_of_mark(name)) > newest)
            newest = start;
    listing_close(&names);
    if (newest > n || listing_open(&names, dir, ".", LISTING_NO_LINK) < 0)
        return newest > n;
    for (const char *name; (name = listing_next(&names));)
        if ((start = start_of_mark(name)) > 0 && start < n)
            fs->unlinkat(dir, name, 0);
    return false;
}

/* F1 */
static bool mark_failure(int dir, int64_t n)
{
    char name[64];
    snprintf(name, sizeof name, MARK_PREFIX "%" PRId64, n);
    if (!notice_mark(dir, name))
        return false;
    if (!tidy_marks(dir, n))
        return true;
    fs->unlinkat(dir, name, 0);
    return false;
}

/* ---- what has failed ---- */

/* The end of start n, if it is a failure that nobody asked for. Owned; NULL: it is none. */
static json_t *failed_end(const struct proc *p, int64_t n)
{
    json_t *exits CLEANUP_JSON = proc_last_exits(p);
    json_each (exits, i, one) {
        const char *by = json_get_string(one, "by", "");
        bool is_own = strcmp(by, "stop") != 0 && strcmp(by, "signal") != 0;
        if (json_get_int(one, "run", 0) == n && is_own && json_get_int(one, "exit_code", 0) != 0)
            return json_incref(one);
    }
    return NULL;
}

static bool is_over(const struct proc *p, int64_t n)
{
    return p->view.n == n && p->view.state == PROC_FAILED && !p->view.has_holder && !p->view.next_start_ms &&
           strcmp(p->view.phase, "backoff") != 0;
}

static bool take_line(void *data, const struct log_line *line)
{
    json_array_append_new(data, log_text_json(line->text, line->len));
    return true;
}

static json_t *last_lines(const struct proc *p, int64_t n)
{
    struct tsk_error ignored; /* the end is reported all the same; `proc logs` reports the error */
    int64_t next[2];
    json_t *lines = json_array();
    struct log_query query = {.stream = LOG_BOTH,
                              .lines = TOLD_LINES,
                              .cursor = {-1, -1},
                              .since_ms = -1,
                              .until_ms = -1,
                              .run = n,
                              .max_bytes = TOLD_BYTES,
                              .strip_ansi = true};
    log_read(p, &query, take_line, lines, next, &ignored);
    return lines;
}

static json_t *event_of_failure(const struct notice *notice, const struct proc *p, const json_t *end)
{
    json_t *json = notice_json(notice);
    int64_t n = json_get_int(end, "run", 0);
    json_object_set_new(json, "process_id", json_string(p->id));
    json_object_update(json, (json_t *)end);
    if (p->view.n == n)
        json_object_set_new(json, "error", json_string(p->view.error));
    json_object_set_new(json, "restarts", json_integer((json_int_t)p->view.restarts));
    json_object_set_new(json, "lines", last_lines(p, n));
    return json;
}

void proc_failure_tell(struct tsk_workspace *ws, const char *id, int64_t n, bool is_last)
{
    struct tsk_error problem;
    struct proc_registry reg;
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    struct notice notice CLEANUP(notice_clear) = {.ws = ws};
    if (!notice_open(&notice, ws, NOTIFY_FAILURE))
        return;
    int result = proc_registry_open(&reg, ws, &problem);
    if (result == 0) {
        result = proc_load(&reg, id, &p, &problem);
        proc_registry_close(&reg);
    }
    if (result < 0 && problem.code != TSK_PROCESS_NOT_FOUND) /* one that was removed needs no notification */
        log_problem(&problem);
    json_t *end CLEANUP_JSON = result < 0 || !(is_last || is_over(&p, n)) ? NULL : failed_end(&p, n);
    if (!end || !mark_failure(p.dir, n))
        return;
    json_t *json CLEANUP_JSON = event_of_failure(&notice, &p, end);
    notice_send(&notice, json);
}
