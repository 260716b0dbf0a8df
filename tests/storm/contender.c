/* storm-contender DIR KIND ID ROLE SEED - takes and releases one lock through libtasuki until it is killed.
 *
 * Each turn draws its time to live, its patience and its work from SEED; what it believed is in DIR/log. Run
 * in the workspace. A refusal is not worth a line; an error that is none is. */
#include "tasuki.h"
#include "witness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct contender {
    struct tsk_workspace *ws;
    enum tsk_lock_kind kind;
    const char *id;
    struct witness witness;
    uint64_t random;
};

static unsigned draw(struct contender *self, unsigned below)
{
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return (unsigned)(self->random >> 33) % below;
}

static void nap_us(unsigned us)
{
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L};
    nanosleep(&t, NULL);
}

static bool is_refusal(enum tsk_code code)
{
    return code == TSK_LOCK_HELD || code == TSK_RUN_IN_PROGRESS || code == TSK_QUEUE_IN_PROGRESS ||
           code == TSK_SPRINT_BLOCKED || code == TSK_ZOMBIE_DETECTED;
}

static void log_error(struct contender *self, const char *call, const struct tsk_error *err)
{
    char text[256];
    tsk_error_message(err, "en", text, sizeof text);
    for (char *at = text; *at; at++)
        if (*at == '\n')
            *at = ' ';
    witness_log(&self->witness, "error", "call=%s code=%s text=%s", call, tsk_code_name(err->code), text);
}

/* The result of a call on a lock that is held: "ok", "lost" or "error". */
static const char *outcome(struct contender *self, const char *call, int rc, const struct tsk_error *err)
{
    if (rc == 0)
        return "ok";
    if (err->code == TSK_LOCK_LOST)
        return "lost";
    log_error(self, call, err);
    return "error";
}

static void work(struct contender *self, struct tsk_lock *lock)
{
    struct tsk_error err;
    witness_log(&self->witness, "hold", "fence=%llu", (unsigned long long)tsk_lock_fence(lock));
    pid_t other = witness_enter(&self->witness);
    nap_us(draw(self, 4) ? draw(self, 2000) : draw(self, 30000));
    if (draw(self, 4) == 0)
        outcome(self, "renew", tsk_lock_renew(lock, &err), &err);
    const char *verified = outcome(self, "verify", tsk_lock_verify(lock, &err), &err);
    if (!other)
        witness_leave(&self->witness);
    const char *released = outcome(self, "release", tsk_lock_release(lock, &err), &err);
    /* Lost is lost: a lock that verify missed and release did not would be a finding of its own. */
    if (strcmp(verified, "lost") == 0 && strcmp(released, "lost") != 0)
        witness_log(&self->witness, "error", "call=release code=- text=verify said lost, release %s", released);
    witness_log(&self->witness, "end", "status=%s", released);
}

static void turn(struct contender *self)
{
    static const int64_t patience_ms[] = {0, 0, 20, 500, 5000};
    struct tsk_lock_options options = {.size = sizeof options};
    options.ttl_ms = 100 + draw(self, 900);
    options.wait_ms = patience_ms[draw(self, sizeof patience_ms / sizeof *patience_ms)];
    options.session_id = self->witness.role;
    options.epic_spec = "storm";
    struct tsk_lock *lock;
    struct tsk_error err;
    witness_log(&self->witness, "want", "wait=%lld", (long long)options.wait_ms);
    if (tsk_lock_acquire(self->ws, self->kind, self->id, &options, &lock, &err) == 0)
        work(self, lock);
    else if (!is_refusal(err.code))
        log_error(self, "acquire", &err);
    nap_us(1000 + draw(self, 8000));
}

static int kind_from(const char *name, enum tsk_lock_kind *ret)
{
    static const char *const names[] = {
        [TSK_LOCK_REQUEST] = "request",
        [TSK_LOCK_QUEUE] = "queue",
        [TSK_LOCK_NAME] = "name",
        [TSK_LOCK_SPRINT] = "sprint",
    };
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0) {
            *ret = (enum tsk_lock_kind)i;
            return 0;
        }
    }
    return -1;
}

int main(int argc, char **argv)
{
    struct contender self = {0};
    if (argc != 6 || kind_from(argv[2], &self.kind) < 0) {
        fprintf(stderr, "usage: storm-contender DIR KIND ID ROLE SEED\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    self.id = self.kind == TSK_LOCK_QUEUE || self.kind == TSK_LOCK_SPRINT ? NULL : argv[3];
    self.random = strtoull(argv[5], NULL, 10) * 2654435761u + 88172645463325252u;
    witness_open(&self.witness, argv[1], argv[2], argv[4]);
    struct tsk_error err;
    if (tsk_workspace_open(NULL, &self.ws, &err) < 0) {
        log_error(&self, "open", &err);
        return 1;
    }
    for (;;)
        turn(&self);
}
