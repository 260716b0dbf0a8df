/* proc_args.h - parameters that several process operations share, and how their arguments become a spec. */
#ifndef OPS_PROC_ARGS_H
#define OPS_PROC_ARGS_H

#include "hold/protocol.h"
#include "ops/ops.h"
#include "proc/process.h"

#include <limits.h>

#define REGISTRY(name) struct proc_registry name CLEANUP(proc_registry_close) = {.dir = -1}

#define PROC_ID_PARAM PARAM("id", OP_ID, OP_REQUIRED | OP_POSITIONAL, "ID", "The process.", .completes = "process-id")
#define PROC_IDS_PARAM                                                                                                 \
    PARAM("id", OP_ID, OP_POSITIONAL | OP_MANY, "ID…", "One process or several.", .completes = "process-id")
#define PROC_ALL_PARAM FLAG("all", OP_OPTIONAL, "All that are registered.")
#define PROC_GRACE_PARAM                                                                                               \
    PARAM("grace_period_ms", OP_DURATION, OP_MS, "MS", "Time between SIGTERM and SIGKILL: milliseconds, or 10s.",      \
          .fallback = OP_TEXT(HOLD_GRACE_MS), .option = "grace", .agent_help = "Time between SIGTERM and SIGKILL.")
/* op_proc_logs.c: a time of `--since` and the like, in ms; *ret_ms stays where the argument is absent. */
int log_args_time(const json_t *args, const char *param, int64_t now_ms, int64_t *ret_ms, struct tsk_error *err);
#define PROC_NO_WAIT_PARAM FLAG("no_wait", OP_OPTIONAL, "Return as soon as it is executed.", .agent_help = "")
#define PROC_START_TIMEOUT_PARAM                                                                                       \
    PARAM("timeout", OP_DURATION, OP_CLI_ONLY | OP_FOREVER, "D",                                                       \
          "How long to wait until it is ready; over HTTP and MCP 45s.", .fallback = "its ready timeout")
/* What a process should be: for create, update and templates. */
#define PROC_SPEC_PARAMS                                                                                               \
    PARAM("env", OP_MAP, OP_OPTIONAL, "K=V",                                                                           \
          "An environment variable; may be repeated. Values of names that look secret are never shown.",               \
          .agent_help = "Environment variables; what looks secret is never shown."),                                   \
        PARAM("cwd", OP_PATH, OP_ANYWHERE, "D", "Its working directory.", .fallback = "the caller's"),                 \
        FLAG("auto_start_on_restore", OP_OPTIONAL, "Let `tasuki restore` start it.", .option = "auto-start",           \
             .agent_help = "Start it again after a reboot."),                                                          \
        PARAM("restart", OP_ENUM, OP_OPTIONAL, "P",                                                                    \
              "Whether to start it again when it ends by itself: no, on-failure or always.", .fallback = "no",         \
              .choices = proc_restart_names, .agent_help = "Whether it starts again by itself."),                      \
        PARAM("max_retries", OP_INT, OP_OPTIONAL, "N", "Give up after N restarts in a row; -1: never give up.",        \
              .fallback = "no limit", .min = -1, .max = 1000000, .agent_help = "Give up after N restarts in a row."),  \
        PARAM("backoff_ms", OP_DURATION, OP_MS, "D",                                                                   \
              "Delay before the second restart in a row (the first is at once); doubles.", .fallback = "1s",           \
              .option = "backoff", .agent_help = "Delay before the second restart in a row; doubles."),                \
        PARAM("backoff_max_ms", OP_DURATION, OP_MS, "D", "The longest delay.", .fallback = "60s",                      \
              .option = "backoff-max"),                                                                                \
        PARAM("healthy_after_ms", OP_DURATION, OP_MS, "D", "Running this long resets the count of restarts.",          \
              .fallback = "10s", .option = "healthy-after"),                                                           \
        PARAM("log", OP_ENUM, OP_OPTIONAL, "MODE",                                                                     \
              "How output is kept: direct (the program writes the files), pipe, stamped (time and stream on each "     \
              "line), or tty.",                                                                                        \
              .fallback = "direct", .choices = proc_log_names,                                                         \
              .agent_help = "stamped: time and stream on each line."),                                                 \
        FLAG("tty", OP_CLI_ONLY, "Give it a terminal, for `tasuki proc attach`: the same as --log tty."),              \
        PARAM("log_max", OP_INT, OP_OPTIONAL, "BYTES", "The newest bytes to keep of each stream.",                     \
              .fallback = OP_TEXT(HOLD_LOG_MAX), .min = 4096, .max = INT64_MAX / 4),                                   \
        PARAM("ready", OP_ANY, OP_OPTIONAL, "PROBE",                                                                   \
              "It is ready when: log:REGEX, port:N, http://…, exec:CMD ARG…, or notify (sd_notify)."),                 \
        PARAM("ready_timeout_ms", OP_DURATION, OP_MS, "D", "How long it may take to become ready.", .fallback = "60s", \
              .option = "ready-timeout"),                                                                              \
        PARAM("health", OP_ANY, OP_OPTIONAL, "PROBE", "The same probes, repeated once it is ready."),                  \
        PARAM("health_interval_ms", OP_DURATION, OP_MS, "D", "The time between tries.", .fallback = "10s",             \
              .option = "health-interval"),                                                                            \
        PARAM("health_failures", OP_INT, OP_OPTIONAL, "N", "This many failures in a row make it unhealthy.",           \
              .fallback = "3", .min = 1, .max = 1000),                                                                 \
        PARAM("health_action", OP_ENUM, OP_OPTIONAL, "A", "What is done with an unhealthy process: none, or restart.", \
              .fallback = "none", .choices = proc_action_names, .agent_help = "What an unhealthy one gets."),          \
        PARAM("depends_on", OP_MAP, OP_OPTIONAL, "ID=WHAT",                                                            \
              "Start it only when another process is started, ready or completed; may be repeated.",                   \
              .agent_help = "Start only when these processes (id: started, ready or completed) are.")

/* The directory of the caller: of the command, or of an agent's `tasuki mcp`; the root for callers from elsewhere. */
const char *proc_args_directory(const struct op_call *call, char here[PATH_MAX]);

/* The spec that the arguments ask for, on top of `base` (NULL: defaults). Canonical, owned. */
int proc_args_spec(const struct op_call *call, const json_t *base, json_t **ret, struct tsk_error *err);

/* The ids that were named, or all with `--all`: array of strings, owned. Naming none is an error. */
int proc_args_ids(const struct op_call *call, struct proc_registry *reg, json_t **ret, struct tsk_error *err);
/* Borrowed C strings of such an array; free the array only. */
const char **proc_args_strings(const json_t *ids);
/* Returns an array with one result for each id, all TSK_OK. The caller frees it. */
struct tsk_error *proc_args_results(const json_t *ids);
bool proc_args_is_all(const struct op_call *call);
/* With --all nobody has named the processes: one that another command has removed meanwhile, or brought to where this one brings
 * it (`reached`: the code that says so), is no error. */
void proc_args_forgive(const struct op_call *call, struct proc_registry *reg, const char *const *ids,
                       struct tsk_error *results, size_t count, enum tsk_code reached);

/* The answer to an operation on several: one record or, for more than one id, `{"processes": […], "errors": […]}` with the
 * first error as the call's verdict. With one id, its error is the call's. */
int proc_args_answer(struct op_call *call, struct proc_registry *reg, const json_t *ids,
                     const struct tsk_error *results, bool with_leftovers, json_t **ret, struct tsk_error *err);
/* Adds {"id", "error"} to `errors`; the first one is the call's verdict. */
void proc_args_add_error(struct op_call *call, const char *id, const struct tsk_error *error, json_t *errors);
/* Waits for what was started (results[i] is TSK_OK), unless `no_wait`: one wait for all. What has failed meanwhile makes the
 * verdict ProcessStartFailed. Then proc_args_say_failure. */
void proc_args_settle(struct op_call *call, struct proc_registry *reg, const char *const *ids, size_t count,
                      const struct tsk_error *results);
/* Adds to an answer with that verdict a `message`: which process, and why. */
void proc_args_say_failure(struct op_call *call, json_t *answer);
/* How a process ended: "exit 1". `process` is its record. */
void proc_end_put(struct buf *b, enum lang lang, const json_t *process);
/* Why it does not run: "exit 1, again in 3 s: OSError: Address already in use". */
void proc_reason_put(struct buf *b, enum lang lang, const json_t *process);
/* The whole record of one: with leftovers and last exits. Owned. */
int proc_args_record(struct proc_registry *reg, const char *id, bool with_leftovers, json_t **ret,
                     struct tsk_error *err);

/* The same after a change. The change has happened: that the record cannot be read, or is gone again, does not unsay it. */
json_t *proc_args_record_or_say(struct proc_registry *reg, const char *id, bool with_leftovers);

/* proc_registry_open, with the worktree that a command line was called from. */
int proc_args_open(struct op_call *call, struct proc_registry *reg, struct tsk_error *err);
/* The answer about a process that was just registered; with `start` it is started first. One that cannot be started is removed. */
int proc_args_created(struct op_call *call, struct proc_registry *reg, const char *id, json_t **ret,
                      struct tsk_error *err);

extern const struct op_field proc_fields[];
extern const char *const proc_action_names[];

/* op_proc_exchange.c: the text of a file with processes ("-": stdin), and the directory that its relative directories begin in.
 * `command` is the one to repeat with the file that is meant, if there is one with a similar name. */
int proc_file_read(const char *path, const char *command, struct buf *text, struct tsk_error *err);
const char *proc_file_directory(const char *path, char *here, size_t size);

/* op_proc_wait.c; op_wait.c has the other kinds. */
extern const char *const wait_for_choices[];
#define WAIT_FOR_PARAM                                                                                                 \
    PARAM("for", OP_ENUM, OP_OPTIONAL, "WHAT",                                                                         \
          "A process: exit (no restart is to come), or ready (its probe has succeeded).", .fallback = "exit",          \
          .choices = wait_for_choices)
#define WAIT_TIMEOUT_PARAM                                                                                             \
    PARAM("timeout", OP_DURATION, OP_FOREVER, "D", "The longest wait; over HTTP and MCP at most 45s.",                 \
          .fallback = "forever", .agent_help = "How long, at most 45s.")
/* What the caller may wait for; < 0: for ever. */
int64_t wait_timeout(const struct op_call *call);
int wait_process(struct op_call *call, json_t **ret, struct tsk_error *err);

#endif
