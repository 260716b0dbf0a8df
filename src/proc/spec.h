/* spec.h - what a process should be: the part of its record that people write.
 *
 * As JSON (create, update, import, export, templates; unknown keys are refused with the nearest known one):
 *
 *     {"command": "npm", "args": ["run", "dev"], "env": {"PORT": "3000"}, "cwd": "/abs", "auto_start_on_restore": false,
 *      "restart": "no|on-failure|always", "max_retries": null, "backoff_ms": 1000, "backoff_max_ms": 60000,
 *      "healthy_after_ms": 10000,
 *      "log": "direct|pipe|stamped|tty", "log_max": 67108864,
 *      "ready": null | PROBE, "health": null | PROBE, "depends_on": {"db": "started|ready|completed"}}
 *
 *     PROBE: {"log": REGEX} {"port": N} {"http": URL} {"command": [ARGV…]} {"notify": true}, and beside it
 *            "timeout_ms" (ready: 60000 until it must be ready; health: 5000 for one try), "interval_ms" (ready 100, health 10000),
 *            "failures" (health: 3 in a row make it unhealthy), "action": "none|restart" (health).
 *            One with a kind replaces the old probe; one without (only "timeout_ms", …) changes the one that `base` has.
 *     or as a string, as on the command line: "log:REGEX" "port:8080" "http://…" "exec:CMD ARG…" (split at blanks, no shell)
 *            "notify"; as {"probe": "port:8080", "timeout_ms": …} where the other members are needed too.
 *
 * A string that stands for a program's word is at most 128 KiB (the kernel's limit), the whole at most 1 MiB.
 *
 * Memory: a spec owns one JSON object in canonical form (all keys, defaults filled in); the accessors borrow from it. */
#ifndef PROC_SPEC_H
#define PROC_SPEC_H

#include "base/json.h"

enum proc_restart { PROC_RESTART_NO, PROC_RESTART_ON_FAILURE, PROC_RESTART_ALWAYS };
enum proc_log_mode { PROC_LOG_DIRECT, PROC_LOG_PIPE, PROC_LOG_STAMPED, PROC_LOG_TTY };
enum proc_condition { PROC_DEP_STARTED, PROC_DEP_READY, PROC_DEP_COMPLETED };
enum proc_probe_kind { PROBE_NONE, PROBE_LOG, PROBE_PORT, PROBE_HTTP, PROBE_COMMAND, PROBE_NOTIFY };

struct proc_probe {
    enum proc_probe_kind kind;
    const char *text;   /* regex or URL */
    int port;           /* PROBE_PORT, on 127.0.0.1 and ::1 */
    const json_t *argv; /* PROBE_COMMAND */
    int64_t timeout_ms, interval_ms;
    int failures;
    bool restarts; /* action: restart */
};

extern const char *const proc_restart_names[]; /* indexed by the enums, NULL at the end */
extern const char *const proc_log_names[];
extern const char *const proc_condition_names[];

/* Checks `input` and makes it canonical: *ret owned. `base` (canonical, may be NULL) supplies what `input` does not mention
 * (update, templates); a null in `input` resets a key to its default. INVALID_INPUT names the key ("ready.port"), the value
 * and what would be right. `env` replaces as a whole. A relative cwd is taken from `cwd_base` (NULL: refused). */
int proc_spec_make(const json_t *input, const json_t *base, const char *cwd_base, json_t **ret, struct tsk_error *err);
/* The same, but `take` gets every problem and not only the first; the context pair "param" of each is the path of the value
 * that is wrong ("env.PORT", "args.2", "ready.port"). -1 if there was any. */
int proc_spec_make_all(const json_t *input, const json_t *base, const char *cwd_base, json_t **ret,
                       void (*take)(void *data, const struct tsk_error *problem), void *data);
/* A copy that has only what differs from the defaults: what a person would have written. Owned. */
json_t *proc_spec_minimal(const json_t *spec);

enum proc_restart proc_spec_restart(const json_t *spec);
enum proc_log_mode proc_spec_log(const json_t *spec);
/* kind PROBE_NONE if there is none. `key` is "ready" or "health". */
void proc_spec_probe(const json_t *spec, const char *key, struct proc_probe *ret);
bool proc_condition_parse(const char *name, enum proc_condition *ret);

/* Whether a variable's name looks like a secret's (TOKEN, SECRET, PASSWORD, PASSWD, API_KEY, _KEY, CREDENTIAL, AUTH, COOKIE,
 * PRIVATE; URLs with user:password@ are judged by value). */
bool proc_env_is_secret(const char *name, const char *value);
/* A copy of env with the secret values replaced by "***". Owned. */
json_t *proc_env_masked(const json_t *env);

#endif
