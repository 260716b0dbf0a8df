#include "proc/leftover.h"

#include "base/clock.h"
#include "base/fs.h"
#include "hold/protocol.h"
#include "proc/kin.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STARTS_MAX   512
#define GONE_LOOK_MS 5

/* By what the leftovers of this process are known: the locks of ended starts that are held, and, unless it runs, the mark that all
 * its starts have. */
static void add_keys(struct kin_keys *keys, size_t owner, const struct proc *p)
{
    int64_t starts[STARTS_MAX];
    bool is_running = p->view.state == PROC_RUNNING;
    bool is_first = is_running && p->view.n == 1; /* nothing was before it */
    size_t count = p->dir < 0 || is_first ? 0 : proc_starts_list(p->dir, starts, STARTS_MAX);
    for (size_t i = 0; i < count; i++) {
        char name[40];
        struct stat st;
        proc_start_name(starts[i], name);
        if (starts[i] > p->view.n || (is_running && starts[i] == p->view.n))
            continue; /* it runs, or is just being started */
        int fd CLEANUP_FD = fs->openat(p->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
        if (fd >= 0 && fs_lock_probe(fd, F_WRLCK, 0, 1, NULL) == 1 && fs->fstat(fd, &st) == 0)
            kin_key_lock(keys, owner, st.st_dev, st.st_ino);
    }
    if (p->dir >= 0 && !is_running && p->view.n > 0) {
        char mark[PROC_MARK_SIZE];
        proc_mark(p->dir, mark);
        kin_key_word(keys, owner, HOLD_ENV_MARK, mark);
    }
}

bool leftovers_hold_a_lock(const struct proc *p)
{
    struct kin_keys keys CLEANUP(kin_keys_clear) = {.count = 0};
    add_keys(&keys, 0, p);
    for (size_t i = 0; i < keys.count; i++)
        if (strncmp(keys.list[i].text, HOLD_ENV_MARK, sizeof HOLD_ENV_MARK - 1) != 0)
            return true;
    return false;
}

/* A start after the look at p has a lock of its own before anything of it lives (H1). What was found may be its: nothing is ended. */
static bool was_started_since(const struct proc *p)
{
    int64_t starts[STARTS_MAX];
    size_t count = proc_starts_list(p->dir, starts, STARTS_MAX);
    return p->view.state != PROC_RUNNING && count > 0 && starts[count - 1] > p->view.n;
}

int leftovers_find(const struct proc *p, struct leftovers *ret, struct tsk_error *err)
{
    struct kin_keys keys CLEANUP(kin_keys_clear) = {.count = 0};
    struct kin_list found CLEANUP(kin_list_clear) = {.count = 0};
    ret->count = 0;
    add_keys(&keys, 0, p);
    if (kin_scan(&keys, &found, err) < 0)
        return -1;
    for (size_t i = 0; i < found.count && ret->count < LEFTOVER_MAX && !was_started_since(p); i++)
        ret->ids[ret->count++] = found.list[i].id;
    return 0;
}

void proc_have_leftovers(const struct proc *list, size_t count, bool *ret)
{
    struct kin_keys keys CLEANUP(kin_keys_clear) = {.count = 0};
    struct kin_list found CLEANUP(kin_list_clear) = {.count = 0};
    struct tsk_error ignored;
    memset(ret, 0, count * sizeof *ret);
    for (size_t i = 0; i < count; i++)
        if (list[i].view.state != PROC_RUNNING)
            add_keys(&keys, i, &list[i]);
    if (keys.count && kin_scan(&keys, &found, &ignored) == 0)
        for (size_t i = 0; i < found.count; i++)
            ret[found.list[i].owner] = ret[found.list[i].owner] || !was_started_since(&list[found.list[i].owner]);
}

/* ---- ending them ------------------------------------------------------------------------------------------------ */

static void leftover_stays(const struct proc *p, struct tsk_error *result)
{
    error_set(result, TSK_PROCESS_STOP_FAILED, NULL, "id", p->id, "reason", "descendants are alive after SIGKILL",
              NULL);
}

/* One look; how many of them there were. */
static size_t end_pass(const struct proc *list, size_t count, int number, bool is_over, struct tsk_error *results)
{
    struct kin_keys keys CLEANUP(kin_keys_clear) = {.count = 0};
    struct kin_list found CLEANUP(kin_list_clear) = {.count = 0};
    struct tsk_error problem;
    size_t left = 0;
    for (size_t i = 0; i < count; i++)
        if (results[i].code == TSK_OK)
            add_keys(&keys, i, &list[i]);
    if (kin_scan(&keys, &found, &problem) < 0) {
        for (size_t i = 0; i < count; i++)
            if (results[i].code == TSK_OK)
                results[i] = problem;
        return 0;
    }
    for (size_t i = 0; i < found.count; i++) {
        const struct proc *p = &list[found.list[i].owner];
        if (was_started_since(p))
            continue;
        if (is_over)
            leftover_stays(p, &results[found.list[i].owner]);
        else if (number)
            proc_id_signal(&found.list[i].id, number);
        left++;
    }
    return is_over ? 0 : left;
}

void leftovers_end_many(const struct proc *list, size_t count, int64_t grace_ms, struct tsk_error *results)
{
    int64_t begin = clock_now().boot_ms;
    bool is_told = false;
    for (;;) {
        int64_t waited = clock_now().boot_ms - begin;
        int number = waited >= grace_ms ? SIGKILL : is_told ? 0 : SIGTERM;
        if (!end_pass(list, count, number, waited > grace_ms + KILL_WAIT_MS, results))
            return;
        is_told = true;
        clock_nap(GONE_LOOK_MS);
    }
}

int leftovers_end(const struct proc *p, int64_t grace_ms, struct tsk_error *err)
{
    struct tsk_error result = {.code = TSK_OK};
    leftovers_end_many(p, 1, grace_ms, &result);
    if (result.code == TSK_OK)
        return 0;
    *err = result;
    return -1;
}

int proc_leftovers(const struct proc *p, json_t **ret, struct tsk_error *err)
{
    struct leftovers *found = malloc(sizeof *found);
    BUG(!found);
    int result = leftovers_find(p, found, err);
    json_t *list = json_array();
    for (size_t i = 0; result == 0 && i < found->count; i++) {
        char name[32] = "";
        proc_name(found->ids[i].pid, name, sizeof name);
        json_array_append_new(list, json_pack("{s:i, s:s}", "pid", (int)found->ids[i].pid, "name", name));
    }
    free(found);
    if (result < 0)
        json_decref(list);
    else
        *ret = list;
    return result;
}
