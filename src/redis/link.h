/* link.h - carries the attempts of one runner to Redis, and their results back. The link is a child of the runner, which sends
 * it orders over a socket (graph/remote.h has the words). The death of a link is no worse than a lost connection.
 *
 *  L1  Only the runner's journal counts. The link keeps every attempt that is out, with its specification, until the runner has
 *      the result, and sends again what Redis has lost.
 *  L2  By the server's id and the step number, the link notices that the server was replaced, emptied or restored to an older
 *      state. It then starts over: it raises the epoch, and no worker claims or renews for one lease on the link's own boot
 *      clock, so that all running attempts have ended. Results are accepted meanwhile. Then the link reports the lost attempts
 *      to the runner, which decides.
 *  L3  A lease is over when its tick has not changed for one lease on the link's boot clock since the link first saw it. The
 *      revocation names that tick, so a renewal in between keeps the lease.
 *  L4  A revoked attempt is sent again with another id, so that no message of the old one counts, and a repeated push changes
 *      nothing. */
#ifndef REDIS_LINK_H
#define REDIS_LINK_H

#include "base/json.h"
#include "base/parcel.h"
#include "redis/steps.h"

#define LINK_FD   3
#define LINK_FULL (16 << 20) /* what waits for a runner that does not read: no more is fetched for it */

enum out_state { OUT_NEW, OUT_PUSHED, OUT_CLAIMED, OUT_ENDED };

/* An attempt that is out. */
struct out {
    char id[48], fence[24], worker[160];
    char *session, *tags, *spec, *values; /* values: the session whose values it reads; "": none */
    size_t spec_len;
    enum out_state state;
    bool was_sent;  /* the server may know it: an answer can be lost */
    bool is_unsure; /* it was out when the server forgot */
    bool must_stop, is_stopping;
    int64_t pushed_ms, tick, tick_ms;
    char entry[48]; /* of its end, in the results */
    struct out *next_end;
};

/* The values of a session, which attempts that are out may read. */
struct values {
    char *session;        /* behind the text */
    int64_t version, old; /* versions up to `old` are not needed any more */
    bool is_sent;
    size_t len;
    struct values *next;
    char text[];
};

enum link_phase { LINK_BEGINS, LINK_SETTLES, LINK_OPEN };

struct link {
    struct redis_settings settings;
    struct redis_conn calls, results;
    bool is_reading; /* an answer of `results` is due */
    int fd;
    struct buf in, outgoing;
    size_t in_at;
    bool is_over, must_end;
    char root[64], owner[40];
    struct steps steps;
    int64_t epoch, lease_ms;
    bool was_interrupted, has_begun;  /* has_begun: it was open before */
    bool is_local;                    /* the runner has a worker of its own */
    char files_hash[65], *files_path; /* what travels with the run; NULL: nothing */
    bool has_files;                   /* the server has them */
    enum link_phase phase;
    bool may_be_early;
    int64_t settled_ms;
    struct out **outs;
    size_t out_count, out_room;
    json_t *index; /* id → place in outs */
    struct values *values;
    struct out *ends, **ends_last;
    json_t *acks;    /* [id, session, …] */
    json_t *forgets; /* [session, version, …] */
    char last[48];   /* entry that was read last */
    int64_t connect_ms, look_ms, wake_ms, workers_ms, live_ms, end_ms, keys_ms;
    int64_t places;
    size_t untrimmed; /* entries that were read, and may still be on the server */
    bool is_away, said_nobody, said_version, has_new;
    struct tsk_error away; /* why it is away */
};

int link_main(int fd);
/* Ends a run that has no runner: revokes the attempts that workers still have, waits for their end or for one lease,
 * and removes the run's keys. Returns -1 if the server cannot be reached or refuses the steps; the state is then
 * unknown. *ret_swept false: all attempts have ended, but the keys are still there (they expire). */
int link_end_run(const struct redis_settings *settings, const char *root, int64_t epoch, int64_t lease_ms,
                 bool *ret_swept, struct tsk_error *err);
/* link_steps.c: what is said to the server. */
void link_begin(struct link *l);
void link_settle(struct link *l);
void link_advance(struct link *l);
void link_stop(struct link *l);
void link_leases(struct link *l);
/* False: the server does not answer, or is another one now (L2); the link must begin again before it can remove what is there. */
bool link_sweep_all(struct link *l);
void link_pool(struct link *l);
void link_channel(struct link *l, struct parcel words);
void link_forget(struct link *l, struct parcel words);
void link_stale(struct link *l);
/* link_files.c: false: the server does not have the run's files yet. */
bool link_files(struct link *l);
void link_files_live(struct link *l);
/* link_results.c */
void link_results(struct link *l);
void link_lose(struct link *l, struct out *out, const char *why); /* the runner decides; out is freed */
/* link.c */
struct out *out_find(const struct link *l, const char *id);
void out_drop(struct link *l, struct out *out);
void link_ack(struct link *l, const char *id, const char *session);
void link_tell(struct link *l, const char *word, ...) __attribute__((sentinel)); /* texts */
void link_away(struct link *l, const struct tsk_error *err);
void link_here(struct link *l); /* the server answers again */

#endif
