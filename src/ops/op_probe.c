/* op_probe.c - `tasuki probe ID`: the second child of a holder (proc/probe.h). Called by a person, it tries the probes once. */
#include "base/fs.h"
#include "hold/protocol.h"
#include "ops/ops.h"
#include "ops/proc_args.h"
#include "proc/probe.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define HOLDER_NAME   "tasuki-hold"
#define RECORD_MAX_MS 10000 /* the record of the start that we belong to is there after this time */

/* B3. Whether a holder started us; from here on its death is ours. */
static bool follow_holder(struct proc_id *ret_holder)
{
    char name[32];
    pid_t parent = getppid();
    if (proc_name(parent, name, sizeof name) < 0 || strcmp(name, HOLDER_NAME) != 0)
        return false;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return proc_id_of(parent, ret_holder) == 0 && getppid() == parent;
}

/* A holder writes the record of a start before it starts the probe. */
static bool is_our_holder(const struct proc *p, const struct proc_id *holder)
{
    return p->view.state == PROC_RUNNING && p->view.holder.pid == holder->pid &&
           p->view.holder.start_ticks == holder->start_ticks;
}

/* Loads the process when its record speaks of the start that the holder has just made. 1 it does, 0 it never did. */
static int load_start(struct proc_registry *reg, const char *id, const struct proc_id *holder, struct proc *ret,
                      struct tsk_error *err)
{
    int64_t deadline_ms = clock_now().boot_ms + RECORD_MAX_MS;
    for (;;) {
        struct proc p CLEANUP(proc_clear) = {.dir = -1};
        if (proc_load(reg, id, &p, err) < 0)
            return -1;
        if (is_our_holder(&p, holder)) {
            *ret = p;
            p = (struct proc){.dir = -1};
            return 1;
        }
        int64_t left_ms = deadline_ms - clock_now().boot_ms;
        if (left_ms <= 0)
            return 0;
        if (proc_wait_change(&p, left_ms, err) < 0)
            return -1;
    }
}

/* The inherited socket, or -1 when that number is something else. */
static int notify_socket(const struct proc *p)
{
    struct proc_probe ready, health;
    struct stat st;
    proc_spec_probe(p->spec, "ready", &ready);
    proc_spec_probe(p->spec, "health", &health);
    bool is_asked = ready.kind == PROBE_NOTIFY || health.kind == PROBE_NOTIFY;
    if (!is_asked || fs->fstat(HOLD_FD_NOTIFY, &st) < 0 || !S_ISSOCK(st.st_mode))
        return -1;
    fcntl(HOLD_FD_NOTIFY, F_SETFD, FD_CLOEXEC);
    return HOLD_FD_NOTIFY;
}

/* The registry is read once: afterwards the probe lives on files alone, and has neither database nor trail open; an
 * event opens the trail for a moment. */
static int probe_beside_holder(struct op_call *call, const struct proc_id *holder, struct tsk_error *err)
{
    struct proc_registry reg;
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    if (proc_registry_open(&reg, call->ws, err) < 0)
        return -1;
    int found = load_start(&reg, json_get_string(call->args, "id", ""), holder, &p, err);
    proc_registry_close(&reg);
    db_use(DB_USE_ONCE); /* a probe lives long: no connection is kept */
    event_trail_clear(&call->ws->trail);
    if (found <= 0)
        return found;
    return probe_run(call->ws, &p, json_get_string(p.spec, "cwd", call->ws->root), notify_socket(&p), err);
}

/* A probe's command gets what the process has; by hand, the rest of the environment is the caller's. */
static void set_environment(const struct proc *p)
{
    json_each_pair (json_object_get(p->spec, "env"), name, value)
        setenv(name, json_string_value(value), 1);
    setenv(HOLD_ENV_ID, p->id, 1);
}

static int probe_by_hand(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct proc_registry reg;
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    if (proc_registry_open(&reg, call->ws, err) < 0)
        return -1;
    int result = proc_load(&reg, json_get_string(call->args, "id", ""), &p, err);
    proc_registry_close(&reg);
    db_use(DB_USE_ONCE); /* a probe lives long: no connection is kept */
    if (result < 0)
        return -1;
    if (p.view.state != PROC_RUNNING) {
        error_set(err, TSK_PROCESS_NOT_RUNNING, NULL, "id", p.id, NULL);
        return error_add_next(err, "tasuki proc start %s", p.id);
    }
    set_environment(&p);
    json_t *found = NULL;
    if (probe_once(&p, json_get_string(p.spec, "cwd", call->ws->root), &found, err) < 0)
        return -1;
    *ret = json_pack("{s:s, s:s}", "id", p.id, "phase", p.view.phase);
    json_object_update(*ret, found);
    json_decref(found);
    return 0;
}

static int run_probe(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct proc_id holder;
    if (!follow_holder(&holder))
        return probe_by_hand(call, ret, err);
    *ret = NULL;
    return probe_beside_holder(call, &holder, err);
}

const struct op op_probe = {
    NAMES("probe", NULL, "probe"),
    .summary = "Try the ready and health probes of a running process once, and say what they find.",
    .detail = "Changes nothing. (The holder of a process runs this command beside the process; it then keeps probing, "
              "and its findings are the phase that proc status shows.)",
    .examples = "tasuki probe web  # why does it not become ready?",
    .flags = OP_READ_ONLY,
    .params = PARAMS(PROC_ID_PARAM),
    .result = FIELDS({"id", "string", ""}, {"phase", "string", "as the holder's own probe has found it"},
                     {"ready", "object?", "ok detail; null: it has no such probe"},
                     {"health", "object?", "ok detail; null: it has no such probe"}),
    .errors = ERRORS(TSK_PROCESS_NOT_FOUND, TSK_PROCESS_NOT_RUNNING, TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_NOT_FOUND),
    .http.absent = "it is for the holder, and for writing probes",
    .mcp.absent = "it is for the holder, and for writing probes",
    .run = run_probe,
};
