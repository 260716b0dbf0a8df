/* op_proc_attach.c - a person's terminal at the terminal of a process (src/hold/tty.c has the other end). */
#include "base/fs.h"
#include "ops/ops.h"
#include "ops/proc_args.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define KEY_PREFIX  "ctrl-"
#define KEY_DEFAULT KEY_PREFIX "]"

/* "ctrl-]" is 0x1d. */
static int leave_key(const struct op_call *call, char *ret, struct tsk_error *err)
{
    const char *text = json_get_string(call->args, "detach_key", KEY_DEFAULT), *key = text + strlen(KEY_PREFIX);
    if (strncmp(text, KEY_PREFIX, strlen(KEY_PREFIX)) == 0 && key[0] && !key[1] && strchr("]\\^_", key[0])) {
        *ret = (char)(key[0] - '@');
        return 0;
    }
    if (strncmp(text, KEY_PREFIX, strlen(KEY_PREFIX)) == 0 && key[0] >= 'a' && key[0] <= 'z' && !key[1]) {
        *ret = (char)(key[0] - 'a' + 1);
        return 0;
    }
    return error_set(err, TSK_INVALID_INPUT, "attach_key", "value", text, NULL);
}

static int refuse_attach(const struct proc *p, struct tsk_error *err)
{
    bool is_asked_for = proc_spec_log(p->spec) == PROC_LOG_TTY;
    bool is_running = p->view.state == PROC_RUNNING || *p->view.phase;
    if (is_running && strcmp(p->view.log, proc_log_names[PROC_LOG_TTY]) == 0) {
        error_set(err, TSK_CONFLICT, "attach_gone", "id", p->id, NULL);
        error_add_next(err, "tasuki proc restart %s", p->id);
    } else if (is_asked_for && is_running) {
        error_set(err, TSK_CONFLICT, "attach_not_yet", "id", p->id, NULL);
        error_add_next(err, "tasuki proc restart %s", p->id);
    } else if (is_asked_for) {
        error_set(err, TSK_PROCESS_NOT_RUNNING, NULL, "id", p->id, NULL);
        error_add_next(err, "tasuki proc start %s", p->id);
    } else {
        error_set(err, TSK_CONFLICT, "attach_no_tty", "id", p->id, NULL);
        error_add_next(err, "tasuki proc update %s --tty", p->id);
    }
    return -1;
}

/* By the descriptor of its directory: a socket's path is short, a workspace's may be long. */
static int attach_connect(const struct proc *p)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    bool has_tty = strcmp(p->view.log, proc_log_names[PROC_LOG_TTY]) == 0;
    int fd = has_tty && p->dir >= 0 ? socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) : -1;
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" HOLD_TTY_NAME, p->dir);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The connection has ended at the other end. `n` is the start that it was to. */
static int attach_ended(struct op_call *call, const char *id, int64_t n, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    struct buf reason CLEANUP(buf_clear) = BUF_INIT;
    if (proc_args_open(call, &reg, err) < 0 || proc_load(&reg, id, &p, err) < 0)
        return -1;
    if (p.view.state == PROC_RUNNING || *p.view.phase) {
        error_set(err, TSK_CONFLICT, p.view.n == n ? "attach_lost" : "attach_restarted", "id", id, NULL);
        return error_add_next(err, "tasuki proc attach %s", id);
    }
    json_t *record CLEANUP_JSON = proc_to_json(&reg, &p);
    proc_reason_put(&reason, call->lang, record);
    bool is_bad = p.view.state == PROC_FAILED && reason.len;
    call->says = is_bad ? "attach_failed" : "attach_ended";
    *ret = json_pack("{s:s, s:b, s:s}", "id", id, "ended", true, "reason", is_bad ? buf_str(&reason) : "");
    return 0;
}

static int run_attach(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    const char *id = json_get_string(call->args, "id", "");
    char leave = 0;
    if (leave_key(call, &leave, err) < 0 || proc_args_open(call, &reg, err) < 0 || proc_load(&reg, id, &p, err) < 0)
        return -1;
    int connection CLEANUP_FD = attach_connect(&p);
    if (connection < 0)
        return refuse_attach(&p, err);
    if (!call->attach) {
        error_set(err, TSK_INVALID_INPUT, "attach_no_terminal", "id", id, NULL);
        return error_add_next(err, "tasuki proc logs %s -f", id);
    }
    proc_registry_close(&reg); /* it may take hours */
    enum op_attach_end end = call->attach(call, id, connection, leave);
    if (end == OP_ATTACH_CLOSED)
        return attach_ended(call, id, p.view.n, ret, err);
    if (end == OP_ATTACH_FULL)
        return error_set(err, TSK_CONFLICT, "attach_full", "id", id, "count", OP_TEXT(HOLD_TTY_CLIENTS), NULL);
    call->says = "attach_left";
    *ret = json_pack("{s:s, s:b}", "id", id, "ended", false);
    return 0;
}

const struct op op_proc_attach = {
    NAMES("process.attach", "proc", "attach"),
    .summary = "Connect this terminal to the terminal of a process: a debugger, a prompt.",
    .detail =
        "For a process that was created with --tty. Every key goes to the process, Ctrl-C too; Ctrl-] detaches, and "
        "the process keeps running. Its output is in its log as always. Several may attach: all see the output, all "
        "may type, and the size "
        "is that of the terminal that attached or was resized last. The process survives the end of this terminal.",
    .examples = "tasuki proc create repl --tty --start -- python3\n"
                "tasuki proc attach repl  # Ctrl-] detaches\n"
                "tasuki proc attach repl --detach-key ctrl-x",
    .flags = OP_STREAMS,
    .params = PARAMS(PROC_ID_PARAM,
                     PARAM("detach_key", OP_STRING, OP_CLI_ONLY, "KEY",
                           "The key that detaches: ctrl- and a letter, or one of ] \\ ^ _.", .fallback = KEY_DEFAULT)),
    .result = FIELDS({"id", "string", "the process"}, {"ended", "boolean", "whether it has ended"},
                     {"reason", "string?", "why it failed"}),
    .errors = ERRORS(TSK_PROCESS_NOT_FOUND, TSK_PROCESS_NOT_RUNNING, TSK_CONFLICT, TSK_INVALID_INPUT, TSK_ENVIRONMENT),
    .http.absent = "it needs a terminal; GET /api/processes/:id/logs shows the output",
    .mcp.absent = "it needs a terminal; process_logs shows the output",
    .run = run_attach,
};
