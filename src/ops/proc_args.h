/* proc_args.h - parameters that several process operations share, and how their arguments become a spec. */
#ifndef OPS_PROC_ARGS_H
#define OPS_PROC_ARGS_H

#include "ops/ops.h"
#include "proc/process.h"

#include <limits.h>

#define REGISTRY(name) struct proc_registry name CLEANUP(proc_registry_close) = {.dir = -1}

#define PROC_ID_PARAM                                                                                                  \
    {                                                                                                                  \
        .name = "id", .type = OP_ID, .flags = OP_REQUIRED | OP_POSITIONAL, .value = "ID", .help = "The process.",      \
        .completes = "process-id"                                                                                      \
    }
#define PROC_IDS_PARAM                                                                                                 \
    {                                                                                                                  \
        .name = "id", .type = OP_ID, .flags = OP_POSITIONAL | OP_MANY, .value = "ID…",                                 \
        .help = "One process or several.", .completes = "process-id"                                                   \
    }
#define PROC_ALL_PARAM                                                                                                 \
    {                                                                                                                  \
        .name = "all", .type = OP_BOOL, .help = "All that are registered."                                             \
    }
#define PROC_GRACE_PARAM                                                                                               \
    {                                                                                                                  \
        .name = "grace_period_ms", .type = OP_DURATION, .flags = OP_MS, .value = "MS", .option = "grace",              \
        .help = "Time between SIGTERM and SIGKILL: milliseconds, or 10s.", .fallback = "3000",                         \
        .agent_help = "Time between SIGTERM and SIGKILL."                                                              \
    }
/* What a process should be: for create, update and templates. */
#define PROC_SPEC_PARAMS                                                                                               \
    {.name = "env",                                                                                                    \
     .type = OP_MAP,                                                                                                   \
     .value = "K=V",                                                                                                   \
     .help = "An environment variable; may be repeated. Values of names that look secret are never shown.",            \
     .agent_help = "Environment variables; what looks secret is never shown."},                                        \
        {.name = "cwd",                                                                                                \
         .type = OP_PATH,                                                                                              \
         .flags = OP_ANYWHERE,                                                                                         \
         .value = "D",                                                                                                 \
         .help = "Its working directory.",                                                                             \
         .fallback = "the caller's"},                                                                                  \
        {.name = "auto_start_on_restore",                                                                              \
         .type = OP_BOOL,                                                                                              \
         .option = "auto-start",                                                                                       \
         .help = "Let `tasuki restore` start it.",                                                                     \
         .agent_help = "Start it again after a reboot."},                                                              \
        {.name = "restart",                                                                                            \
         .type = OP_ENUM,                                                                                              \
         .value = "P",                                                                                                 \
         .choices = proc_restart_names,                                                                                \
         .help = "When it ends by itself: no, on-failure or always start it again.",                                   \
         .agent_help = "Whether it starts again by itself.",                                                           \
         .fallback = "no"},                                                                                            \
        {.name = "max_retries",                                                                                        \
         .type = OP_INT,                                                                                               \
         .value = "N",                                                                                                 \
         .min = -1,                                                                                                    \
         .max = 1000000,                                                                                               \
         .help = "Give up after N restarts in a row; -1: never.",                                                      \
         .agent_help = "Give up after N restarts in a row.",                                                           \
         .fallback = "no limit"},                                                                                      \
        {.name = "backoff_ms",                                                                                         \
         .type = OP_DURATION,                                                                                          \
         .flags = OP_MS,                                                                                               \
         .option = "backoff",                                                                                          \
         .value = "D",                                                                                                 \
         .help = "Delay before the second restart in a row (the first is at once); doubles.",                          \
         .agent_help = "Delay before the second restart in a row; doubles.",                                           \
         .fallback = "1s"},                                                                                            \
        {.name = "backoff_max_ms",                                                                                     \
         .type = OP_DURATION,                                                                                          \
         .flags = OP_MS,                                                                                               \
         .option = "backoff-max",                                                                                      \
         .value = "D",                                                                                                 \
         .help = "The longest delay.",                                                                                 \
         .fallback = "60s"},                                                                                           \
        {.name = "healthy_after_ms",                                                                                   \
         .type = OP_DURATION,                                                                                          \
         .flags = OP_MS,                                                                                               \
         .option = "healthy-after",                                                                                    \
         .value = "D",                                                                                                 \
         .help = "Running this long resets the count of restarts.",                                                    \
         .fallback = "10s"},                                                                                           \
        {.name = "log",                                                                                                \
         .type = OP_ENUM,                                                                                              \
         .value = "MODE",                                                                                              \
         .choices = proc_log_names,                                                                                    \
         .help = "How output is kept: direct (its files), pipe, or stamped (time and stream on each line).",           \
         .agent_help = "direct: its own files; stamped: time and stream on each line.",                                \
         .fallback = "direct"},                                                                                        \
        {.name = "log_max",                                                                                            \
         .type = OP_INT,                                                                                               \
         .value = "BYTES",                                                                                             \
         .min = 4096,                                                                                                  \
         .max = INT64_MAX / 4,                                                                                         \
         .help = "The newest bytes to keep of each stream.",                                                           \
         .fallback = "67108864"},                                                                                      \
        {.name = "ready",                                                                                              \
         .type = OP_ANY,                                                                                               \
         .value = "PROBE",                                                                                             \
         .help = "It is ready when: log:REGEX, port:N, http://…, exec:CMD ARG…, or notify (sd_notify)."},              \
        {.name = "ready_timeout_ms",                                                                                   \
         .type = OP_DURATION,                                                                                          \
         .flags = OP_MS,                                                                                               \
         .option = "ready-timeout",                                                                                    \
         .value = "D",                                                                                                 \
         .help = "How long it may take to become ready.",                                                              \
         .fallback = "60s"},                                                                                           \
        {.name = "health",                                                                                             \
         .type = OP_ANY,                                                                                               \
         .value = "PROBE",                                                                                             \
         .help = "The same, tried again and again once it is ready."},                                                 \
        {.name = "health_interval_ms",                                                                                 \
         .type = OP_DURATION,                                                                                          \
         .flags = OP_MS,                                                                                               \
         .option = "health-interval",                                                                                  \
         .value = "D",                                                                                                 \
         .help = "The time between two tries.",                                                                        \
         .fallback = "10s"},                                                                                           \
        {.name = "health_failures",                                                                                    \
         .type = OP_INT,                                                                                               \
         .min = 1,                                                                                                     \
         .max = 1000,                                                                                                  \
         .value = "N",                                                                                                 \
         .help = "So many failures in a row make it unhealthy.",                                                       \
         .fallback = "3"},                                                                                             \
        {.name = "health_action",                                                                                      \
         .type = OP_ENUM,                                                                                              \
         .value = "A",                                                                                                 \
         .choices = proc_action_names,                                                                                 \
         .help = "What an unhealthy process gets: none, or restart.",                                                  \
         .agent_help = "What an unhealthy one gets.",                                                                  \
         .fallback = "none"},                                                                                          \
    {                                                                                                                  \
        .name = "depends_on", .type = OP_MAP, .value = "ID=WHAT",                                                      \
        .help = "Start only when another process is started, ready or completed; may be repeated.",                    \
        .agent_help = "Start only when these processes (id: started, ready or completed) are."                         \
    }

/* The directory of the caller: of the command, or of an agent's `tasuki mcp`; the root for callers from elsewhere. */
const char *proc_args_directory(const struct op_call *call, char here[PATH_MAX]);

/* The spec that the arguments ask for, on top of `base` (NULL: defaults). Canonical, owned. */
int proc_args_spec(const struct op_call *call, const json_t *base, json_t **ret, struct tsk_error *err);

/* The ids that were named, or all with `--all`: array of strings, owned. Naming none is an error. */
int proc_args_ids(const struct op_call *call, struct proc_registry *reg, json_t **ret, struct tsk_error *err);
/* Borrowed C strings of such an array; free the array only. */
const char **proc_args_strings(const json_t *ids);

/* The answer to an operation on several: one record or, for more than one id, `{"processes": […], "errors": […]}` with the
 * first error as the call's verdict. With one id, its error is the call's. */
int proc_args_answer(struct op_call *call, struct proc_registry *reg, const json_t *ids,
                     const struct tsk_error *results, bool with_leftovers, json_t **ret, struct tsk_error *err);
/* Adds {"id", "error"} to `errors`; the first one is the call's verdict. */
void proc_args_add_error(struct op_call *call, const char *id, const struct tsk_error *error, json_t *errors);
/* The whole record of one: with leftovers and last exits. Owned. */
int proc_args_record(struct proc_registry *reg, const char *id, bool with_leftovers, json_t **ret,
                     struct tsk_error *err);

/* The same after a change. The change has happened: that the record cannot be read, or is gone again, does not unsay it. */
int proc_args_record_or_say(struct proc_registry *reg, const char *id, bool with_leftovers, json_t **ret);

/* proc_registry_open, with the worktree that a command line was called from. */
int proc_args_open(const struct op_call *call, struct proc_registry *reg, struct tsk_error *err);
/* The start of a process that was just registered. One that cannot be started is removed again. */
int proc_args_start_created(struct proc_registry *reg, const char *id, struct tsk_error *err);

extern const struct op_field proc_fields[];
extern const char *const proc_action_names[];

/* op_proc_wait.c; op_wait.c has the other kinds. */
extern const char *const wait_for_choices[];
#define WAIT_FOR_PARAM                                                                                                 \
    {                                                                                                                  \
        .name = "for", .type = OP_ENUM, .value = "WHAT",                                                               \
        .help = "A process: exit (no restart is to come), or ready (its probe has succeeded).",                        \
        .choices = wait_for_choices, .fallback = "exit"                                                                \
    }
#define WAIT_TIMEOUT_PARAM                                                                                             \
    {                                                                                                                  \
        .name = "timeout", .type = OP_DURATION, .flags = OP_FOREVER, .value = "D",                                     \
        .help = "How long at most; over HTTP and MCP never longer than 45s.", .fallback = "forever",                   \
        .agent_help = "How long, at most 45s."                                                                         \
    }
/* What the caller may wait for; < 0: for ever. */
int64_t wait_timeout(const struct op_call *call);
int wait_process(struct op_call *call, json_t **ret, struct tsk_error *err);

#endif
