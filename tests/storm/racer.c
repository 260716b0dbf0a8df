/* storm-racer KIND ID ROUNDS RACERS stale|absent - many processes want one lock at the same instant.
 *
 * Each round: (stale) a process takes the lock and dies with it; the racers, workspace open, spin on a shared
 * gate, and all call tsk_lock_acquire at once; nobody lets go before all have their answer. Prints one line
 * per round: how many won, were refused, failed. Run in the workspace. */
#include "tasuki.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct race {
    atomic_int ready, gate, answered, won, refused, failed;
    char reason[256]; /* of the last failure */
};

static enum tsk_lock_kind kind;
static const char *id;

static int take(struct tsk_workspace *ws, struct tsk_lock **ret, struct tsk_error *err)
{
    struct tsk_lock_options options = {.size = sizeof options, .session_id = "race", .epic_spec = "race"};
    return tsk_lock_acquire(ws, kind, id, &options, ret, err);
}

static bool is_refusal(enum tsk_code code)
{
    return code == TSK_LOCK_HELD || code == TSK_RUN_IN_PROGRESS || code == TSK_QUEUE_IN_PROGRESS ||
           code == TSK_SPRINT_BLOCKED;
}

static void note_failure(struct race *race, const struct tsk_error *err)
{
    char text[200];
    tsk_error_message(err, "en", text, sizeof text);
    snprintf(race->reason, sizeof race->reason, "%s: %s", tsk_code_name(err->code), text);
    atomic_fetch_add(&race->failed, 1);
}

/* The child of a round; `racers` is 0 for the one that only leaves a stale lock behind. */
static void run_one(struct race *race, int racers)
{
    struct tsk_workspace *ws;
    struct tsk_lock *lock = NULL;
    struct tsk_error err;
    if (tsk_workspace_open(NULL, &ws, &err) < 0) {
        note_failure(race, &err);
        _exit(1);
    }
    atomic_fetch_add(&race->ready, 1);
    while (racers && !atomic_load(&race->gate))
        sched_yield();
    if (take(ws, &lock, &err) == 0)
        atomic_fetch_add(&race->won, 1);
    else if (is_refusal(err.code))
        atomic_fetch_add(&race->refused, 1);
    else
        note_failure(race, &err);
    atomic_fetch_add(&race->answered, 1);
    while (racers && atomic_load(&race->answered) < racers)
        sched_yield();
    if (racers && lock && tsk_lock_release(lock, &err) < 0)
        note_failure(race, &err);
    _exit(0);
}

static void start(struct race *race, int racers)
{
    pid_t pid = fork();
    if (pid == 0)
        run_one(race, racers);
    if (pid < 0) {
        perror("fork");
        exit(99);
    }
}

static void leave_stale_lock(struct race *race)
{
    start(race, 0);
    wait(NULL);
    if (race->won != 1) {
        printf("no stale lock could be made: %s\n", race->reason);
        exit(1);
    }
    memset(race, 0, sizeof *race);
}

static void run_round(struct race *race, int racers, bool is_stale)
{
    memset(race, 0, sizeof *race);
    if (is_stale)
        leave_stale_lock(race);
    for (int i = 0; i < racers; i++)
        start(race, racers);
    while (atomic_load(&race->ready) + atomic_load(&race->failed) < racers)
        sched_yield();
    atomic_store(&race->gate, 1);
    while (wait(NULL) > 0 || errno == EINTR)
        ;
    printf("won=%d refused=%d failed=%d %s\n", race->won, race->refused, race->failed, race->reason);
}

static bool set_kind(const char *name)
{
    static const char *const names[] = {
        [TSK_LOCK_REQUEST] = "request",
        [TSK_LOCK_QUEUE] = "queue",
        [TSK_LOCK_NAME] = "name",
        [TSK_LOCK_SPRINT] = "sprint",
    };
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        kind = (enum tsk_lock_kind)i;
        if (strcmp(names[i], name) == 0)
            return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    if (argc != 6 || !set_kind(argv[1])) {
        fprintf(stderr, "usage: storm-racer KIND ID ROUNDS RACERS stale|absent\n");
        return 2;
    }
    id = kind == TSK_LOCK_QUEUE || kind == TSK_LOCK_SPRINT ? NULL : argv[2];
    struct race *race = mmap(NULL, sizeof *race, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (race == MAP_FAILED)
        return 99;
    setvbuf(stdout, NULL, _IOLBF, 0); /* nothing buffered may be there when we fork */
    for (long rounds = strtol(argv[3], NULL, 10); rounds > 0; rounds--)
        run_round(race, (int)strtol(argv[4], NULL, 10), strcmp(argv[5], "stale") == 0);
    return 0;
}
