/* instance.h - the owner of something: an *instance*, one agent or program, and whether it is still alive.
 *
 * Three forms of ids:
 *   {hostname}-{pid}-{start in ms}   a process. Made once, when the process first claims something, and kept in the table `instance`
 *                                    with what identifies it. Other programs make such ids, too.
 *   http-<16 hex>                    a client of the server, registered with a secret; alive by its lease alone
 *   any other text                   accepted as it is; nobody knows whether it lives
 *
 * Invariants
 *  I1  A process that has a row keeps its id: it is found by (boot id, pid namespace, pid, start ticks), never by computing the
 *      wall-clock time of its start again, which differs a little after the clock was set.
 *  I2  Two ids are one instance when they are the same text or name the same living process.
 *  I3  A doubtful case is LIVE_UNKNOWN and counts as alive: another host, another pid namespace, an id of another form.
 *  I4  Of a secret only its hash is stored.
 *  I5  A lease runs on the boot clock of the boot it was written in; after a reboot its wall-clock time counts. */
#ifndef OWN_INSTANCE_H
#define OWN_INSTANCE_H

#include "base/ident.h"
#include "store/db.h"
#include "store/workspace.h"

#define INSTANCE_ID_MAX      257 /* 256 bytes */
#define INSTANCE_HTTP_PREFIX "http-"
#define INSTANCE_HTTP_SIZE   (sizeof INSTANCE_HTTP_PREFIX + 16)
#define INSTANCE_SECRET_SIZE 33
#define INSTANCE_LEASE_MS    (2 * 60 * 1000) /* a client that closes does not say so: its locks are free soon */
#define INSTANCE_SLACK_MS    2000            /* how much later than its id says a process may have started */

/* The caller of an operation. */
struct instance {
    char id[INSTANCE_ID_MAX];
    struct proc_id process; /* pid 0: none, or not known */
    bool is_new;            /* the id was made just now: instance_keep may still change it */
    bool is_above;          /* nobody named it: it is the program above a command, which other agents may share (W5) */
};

/* What is known of the instance behind an id. */
struct instance_state {
    enum liveness alive;
    pid_t pid;              /* as the id or the row says; 0: none */
    struct proc_id process; /* of a living one; pid 0: not known */
    const char *how;        /* "process exists", "lease is over"; English */
    int64_t lease_ms;       /* "lease runs": for how long yet, if nothing renews it */
};

/* ---- the caller ---- */

/* The id `given`, else the one in TASUKI_INSTANCE_ID, else the process that proc_guess_holder finds. `is_here`: the caller is an
 * ancestor of this program (a command), so that the last two mean something; otherwise `given` is needed. INVALID_INPUT:
 * "instance_needed". Writes nothing. */
int instance_find(struct db *db, const char *given, bool is_here, struct instance *ret, struct tsk_error *err);
/* The same for a process that is known. `db` NULL: without looking whether it has an id already. */
int instance_of_process(struct db *db, const struct proc_id *process, struct instance *ret, struct tsk_error *err);
/* Inside a transaction: keeps the caller's id and process, so that both stay known (I1), and forgets rows that nobody needs. */
int instance_keep(struct db *db, const struct now *now, struct instance *instance, struct tsk_error *err);
/* Inside a transaction: forgets rows that say nothing any more: of ended processes, and of clients that have not come back for a
 * day, unless they own something. An id without its row is still judged by its form. */
int instance_sweep(struct db *db, const struct now *now, struct tsk_error *err);
/* Both in a transaction of their own, for a program that serves the process: the id is the same from now on. */
int instance_register(struct tsk_workspace *ws, const struct proc_id *process, struct instance *ret,
                      struct tsk_error *err);

/* ---- judging ---- */

/* Alive, dead or unknown: by the row if there is one, by the id's form if there is none. */
int instance_judge(struct db *db, const char *id, const struct now *now, struct instance_state *ret,
                   struct tsk_error *err);
/* The same in the table of another place, if there is one below the directory `state_dir`; otherwise -1 like any other reason why
 * it cannot be read. */
int instance_judge_at(int state_dir, const char *id, const struct now *now, struct instance_state *ret,
                      struct tsk_error *err);
/* Judges an id by its form alone: another hostname is unknown; the pid does not exist: dead; its process started more than
 * INSTANCE_SLACK_MS after the id's time: dead; else alive. */
void instance_judge_form(const char *id, const struct now *now, struct instance_state *ret);
/* I2; `state` is what instance_judge said of `id`. */
bool instance_is(const struct instance *caller, const char *id, const struct instance_state *state);
/* True for the same text, or the same start of the same process: a program that computed the id again may be a little off (I1). */
bool instance_is_same_id(const char *a, const char *b);
/* Whether it has the form of a registered client's. */
bool instance_is_http(const char *id);

/* ---- clients of the server ---- */

/* Registers a new instance with a lease. `label` (may be NULL) is its name for people. The secret is returned only here. */
int instance_register_http(struct tsk_workspace *ws, const char *label, char ret_id[INSTANCE_HTTP_SIZE],
                           char ret_secret[INSTANCE_SECRET_SIZE], struct tsk_error *err);
/* Whether the secret is that instance's. UNAUTHORIZED: "instance_secret_wrong", also when there is no such instance. */
int instance_verify_http(struct tsk_workspace *ws, const char *id, const char *secret, struct tsk_error *err);
/* Keeps in mind that it takes a sprint lock there: sprint locks are where nobody looks for them. */
int instance_note_sprint(struct tsk_workspace *ws, const char *id, const char *root, const char *file,
                         struct tsk_error *err);
/* Where that was, as an owned array of [root, file]. */
int instance_list_sprints(struct tsk_workspace *ws, const char *id, json_t **ret, struct tsk_error *err);
/* From now on at least INSTANCE_LEASE_MS more; also a lease that was over, as long as the instance is registered. Cheap when it
 * was renewed a moment ago: 0 then, 1 when it was written. NOT_FOUND: "instance_gone". */
int instance_renew(struct tsk_workspace *ws, const char *id, struct tsk_error *err);
/* Leases get their whole time again, once when the server starts, because nobody could renew while it was down. Those that were
 * over when it was last there (`seen_ms`, wall clock; 0: not known) stay over. */
int instance_extend_all(struct tsk_workspace *ws, int64_t seen_ms, struct tsk_error *err);

#endif
