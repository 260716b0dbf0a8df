/* storm-claim-racer ROUNDS RACERS - many instances want a dead owner's workflow at the same instant.
 *
 * A process claims a workflow and dies with it; ROUNDS workflows are made its own. The racers, processes that were started once,
 * meet at a gate before each of them and claim it all at once. Prints one line per round: how many won, were refused, failed,
 * whether the owner in the table is the one that won, its fence, and whether the dead owner's release afterwards was refused. Run
 * in the workspace. */
#include "own/workflow.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct round {
    atomic_int arrived, answered, won, refused, failed;
    char winner[INSTANCE_ID_MAX];
};

static char dead_owner[INSTANCE_ID_MAX];
static const char *reason = "";

static void fail(const struct tsk_error *err)
{
    static char text[512];
    tsk_error_message(err, "en", text, sizeof text);
    reason = text;
    fprintf(stderr, "%s: %s\n", tsk_code_name(err->code), text);
}

static void open_all(struct tsk_workspace **ws, struct owners *owners, struct instance *caller)
{
    struct tsk_error err;
    struct proc_id self;
    if (tsk_workspace_open(NULL, ws, &err) < 0 || owners_open(owners, *ws, &err) < 0 ||
        proc_id_of(getpid(), &self) < 0 || instance_of_process(&owners->db, &self, caller, &err) < 0) {
        fail(&err);
        _exit(1);
    }
}

static void workflow_name(char id[32], int number)
{
    snprintf(id, 32, "race-%d", number);
}

/* Claims the first one and ends. */
static void be_dead_owner(void)
{
    struct tsk_workspace *ws;
    struct owners owners;
    struct instance caller;
    struct workflow wf;
    struct tsk_error err;
    open_all(&ws, &owners, &caller);
    if (workflow_claim(&owners, "race-0", &caller, 0, &wf, &err) < 0) {
        fail(&err);
        _exit(1);
    }
    _exit(0);
}

static void make_workflows(struct owners *owners, int rounds)
{
    struct tsk_error err;
    struct workflow first;
    int result = db_begin(&owners->db, &err);
    if (result == 0 && workflow_look(owners, "race-0", NULL, &first, &err) != 1)
        result = -1;
    snprintf(dead_owner, sizeof dead_owner, "%s", first.owner);
    for (int i = 1; i < rounds && result == 0; i++) {
        char id[32];
        workflow_name(id, i);
        result = db_exec(&owners->db, &err,
                         "INSERT INTO workflow (id, owner, fence, claimed_at, created_at, updated_at)"
                         " SELECT ?1, owner, fence, claimed_at, created_at, updated_at FROM workflow"
                         " WHERE id = 'race-0'",
                         DB_TEXT(id));
    }
    if (result == 0 && db_commit(&owners->db, &err) == 0)
        return;
    fail(&err);
    exit(1);
}

static void race(struct round *rounds, int count, int racers)
{
    struct tsk_workspace *ws;
    struct owners owners;
    struct instance caller;
    struct workflow wf;
    struct tsk_error err;
    open_all(&ws, &owners, &caller);
    for (int i = 0; i < count; i++) {
        char id[32];
        workflow_name(id, i);
        atomic_fetch_add(&rounds[i].arrived, 1);
        while (atomic_load(&rounds[i].arrived) < racers)
            sched_yield();
        if (workflow_claim(&owners, id, &caller, 0, &wf, &err) == 0) {
            atomic_fetch_add(&rounds[i].won, 1);
            snprintf(rounds[i].winner, sizeof rounds[i].winner, "%s", caller.id);
        } else if (err.code == TSK_WORKFLOW_OWNED_BY_OTHER) {
            atomic_fetch_add(&rounds[i].refused, 1);
        } else {
            atomic_fetch_add(&rounds[i].failed, 1);
            fail(&err);
        }
    }
    /* A winner lives until all have their answers. */
    atomic_fetch_add(&rounds[count].arrived, 1);
    while (atomic_load(&rounds[count].arrived) < racers + 1)
        usleep(1000);
    _exit(0);
}

static void report(struct owners *owners, const struct round *round, int number)
{
    struct tsk_error err;
    struct workflow wf;
    struct instance dead = {.id = ""};
    char id[32];
    workflow_name(id, number);
    snprintf(dead.id, sizeof dead.id, "%s", dead_owner);
    int found = workflow_look(owners, id, NULL, &wf, &err);
    bool is_winners = found == 1 && strcmp(wf.owner, round->winner) == 0;
    int64_t fence = wf.fence;
    bool is_refused = workflow_release(owners, id, &dead, &wf, &err) < 0 && err.code == TSK_WORKFLOW_OWNED_BY_OTHER;
    printf("won=%d refused=%d failed=%d winners=%d fence=%lld late=%d\n", round->won, round->refused, round->failed,
           is_winners, (long long)fence, is_refused);
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0, racers = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
    if (count < 1 || racers < 1)
        return 2;
    struct round *rounds =
        mmap(NULL, sizeof *rounds * (size_t)(count + 1), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    if (fork() == 0)
        be_dead_owner();
    if (wait(&status) < 0 || status != 0)
        return 1;
    struct tsk_workspace *ws;
    struct owners owners;
    struct instance self;
    open_all(&ws, &owners, &self);
    make_workflows(&owners, count);
    owners_close(&owners); /* no handle crosses a fork */
    for (int i = 0; i < racers; i++)
        if (fork() == 0)
            race(rounds, count, racers);
    while (atomic_load(&rounds[count].arrived) < racers)
        usleep(1000);
    open_all(&ws, &owners, &self);
    for (int i = 0; i < count; i++)
        report(&owners, &rounds[i], i);
    atomic_fetch_add(&rounds[count].arrived, 1);
    while (wait(NULL) > 0)
        ;
    owners_close(&owners);
    return *reason ? 1 : 0;
}
