#include "base/sha256.h"
#include "own/workflow.h"
#include "scene.h"

static struct tsk_error err;

/* ---- helpers ---- */

static enum liveness judge(const char *id, pid_t *ret_pid)
{
    struct now now = clock_now();
    struct instance_state state;
    instance_judge_form(id, &now, &state);
    if (ret_pid)
        *ret_pid = state.pid;
    return state.alive;
}

static enum liveness judge_row(struct tsk_workspace *ws, const char *id)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct now now = clock_now();
    struct instance_state state;
    ASSERT_OK(owners_open(&owners, ws, &err));
    ASSERT_OK(instance_judge(&owners.db, id, &now, &state, &err));
    return state.alive;
}

static int64_t started_at(pid_t pid)
{
    struct now now = clock_now();
    int64_t ms = 0;
    ASSERT_INT(proc_start_wall(pid, &now, &ms), 0);
    return ms;
}

static const char *name(const char *host, pid_t pid, int64_t ms)
{
    static char id[512];
    snprintf(id, sizeof id, "%s-%d-%lld", host, (int)pid, (long long)ms);
    return id;
}

/* The pid of a process that has ended. */
static pid_t dead_pid(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    return pid;
}

static struct instance named(struct owners *owners, const char *id)
{
    struct instance caller;
    ASSERT_OK(instance_find(&owners->db, id, false, &caller, &err));
    return caller;
}

static struct now (*real_now)(void);
static int64_t wall_off_ms, boot_off_ms;

static struct now shifted_now(void)
{
    struct now now = real_now();
    return (struct now){.wall_ms = now.wall_ms + wall_off_ms, .boot_ms = now.boot_ms + boot_off_ms};
}

static void shift_clock(int64_t boot_ms, int64_t wall_ms)
{
    static const struct clock_calls calls = {.now = shifted_now};
    real_now = clock_system_calls.now;
    clock_source = &calls;
    boot_off_ms = boot_ms;
    wall_off_ms = wall_ms;
}

/* ---- the form ---- */

TEST(an_id_of_this_process_is_alive_and_one_of_an_ended_process_is_dead)
{
    ASSERT_INT(judge(name(host_name(), getpid(), started_at(getpid())), NULL), LIVE_ALIVE);
    ASSERT_INT(judge(name(host_name(), dead_pid(), 1), NULL), LIVE_DEAD);
}

TEST(a_process_that_started_more_than_two_seconds_after_the_id_is_another_one)
{
    int64_t started = started_at(getpid());
    ASSERT_INT(judge(name(host_name(), getpid(), started - 1500), NULL), LIVE_ALIVE);
    ASSERT_INT(judge(name(host_name(), getpid(), started - 2600), NULL), LIVE_DEAD);
    /* The seed's programs make theirs some time after they started. */
    ASSERT_INT(judge(name(host_name(), getpid(), started + 3600000), NULL), LIVE_ALIVE);
}

TEST(an_id_of_another_host_or_of_another_form_is_unknown)
{
    pid_t pid;
    ASSERT_INT(judge(name("elsewhere", getpid(), 1), &pid), LIVE_UNKNOWN);
    ASSERT_INT(pid, getpid());
    static const char *const others[] = {"me", "a-b", "-1-2", "agent/7", "x-1-2-", "日本"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        ASSERT_INT(judge(others[i], NULL), LIVE_UNKNOWN);
}

TEST(a_hostname_with_dashes_is_split_from_the_right)
{
    char host[300];
    pid_t pid;
    snprintf(host, sizeof host, "%s-12", host_name());
    ASSERT_INT(judge(name(host, getpid(), 1), &pid), LIVE_UNKNOWN); /* another host, not pid 12 of this one */
    ASSERT_INT(pid, getpid());
    ASSERT_INT(judge(name("a-b--c-1-2", 4711, 1708940400000), &pid), LIVE_UNKNOWN);
    ASSERT_INT(pid, 4711);
}

/* ---- rows ---- */

TEST(a_process_keeps_its_id_when_the_clock_was_set)
{
    struct tsk_workspace *ws = scene_open();
    struct proc_id self;
    struct instance first, second;
    ASSERT_INT(proc_id_of(getpid(), &self), 0);
    ASSERT_OK(instance_register(ws, &self, &first, &err));
    shift_clock(0, -7200000);
    ASSERT_OK(instance_register(ws, &self, &second, &err));
    ASSERT_STR(second.id, first.id);
    ASSERT_INT(judge_row(ws, first.id), LIVE_ALIVE); /* by its form it would have started two hours before the id */
    shift_clock(0, +7200000);
    ASSERT_INT(judge_row(ws, first.id), LIVE_ALIVE); /* and now two hours after it */
    tsk_workspace_close(ws);
}

TEST(two_processes_never_have_the_same_id)
{
    struct tsk_workspace *ws = scene_open();
    struct proc_id self, other;
    struct instance first, second;
    ASSERT_INT(proc_id_of(getpid(), &self), 0);
    other = self;
    other.pid_ns++; /* the same pid of a container, started in the same tick */
    ASSERT_OK(instance_register(ws, &self, &first, &err));
    ASSERT_OK(instance_register(ws, &other, &second, &err));
    ASSERT(strcmp(first.id, second.id) != 0);
    ASSERT_INT(judge_row(ws, second.id), LIVE_UNKNOWN);
    tsk_workspace_close(ws);
}

TEST(an_instance_of_an_earlier_boot_is_dead)
{
    struct tsk_workspace *ws = scene_open();
    struct proc_id self;
    struct instance instance;
    ASSERT_INT(proc_id_of(getpid(), &self), 0);
    self.boot_id[0] = self.boot_id[0] == '0' ? '1' : '0';
    ASSERT_OK(instance_register(ws, &self, &instance, &err));
    ASSERT_INT(judge_row(ws, instance.id), LIVE_DEAD);
    tsk_workspace_close(ws);
}

TEST(rows_of_ended_processes_are_forgotten_unless_they_own_something)
{
    struct tsk_workspace *ws = scene_open();
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct proc_id self, gone;
    struct instance owner, other, caller;
    struct workflow wf;
    int64_t count;
    ASSERT_INT(proc_id_of(getpid(), &self), 0);
    gone = self;
    gone.start_ticks--;
    ASSERT_OK(owners_open(&owners, ws, &err));
    ASSERT_OK(instance_of_process(NULL, &gone, &owner, &err));
    ASSERT_OK(workflow_claim(&owners, "w", &owner, 0, &wf, &err));
    gone.start_ticks--;
    ASSERT_OK(instance_register(ws, &gone, &other, &err));
    ASSERT_OK(instance_register(ws, &self, &caller, &err));
    ASSERT_OK(db_int(&owners.db, &err, &count, -1, "SELECT count(*) FROM instance"));
    ASSERT_INT(count, 2);
    ASSERT_INT(judge_row(ws, owner.id), LIVE_DEAD);
    tsk_workspace_close(ws);
}

TEST(one_process_under_two_names_is_one_instance)
{
    struct tsk_workspace *ws = scene_open();
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct proc_id self;
    struct instance caller;
    struct workflow wf;
    ASSERT_OK(owners_open(&owners, ws, &err));
    struct instance its_own = named(&owners, name(host_name(), getpid(), started_at(getpid()) + 40));
    ASSERT_OK(workflow_claim(&owners, "w", &its_own, 0, &wf, &err));
    ASSERT_INT(proc_id_of(getpid(), &self), 0);
    ASSERT_OK(instance_of_process(&owners.db, &self, &caller, &err));
    ASSERT_OK(workflow_claim(&owners, "w", &caller, 0, &wf, &err));
    ASSERT(wf.is_callers && !wf.was_taken);
    tsk_workspace_close(ws);
}

/* ---- clients of the server ---- */

TEST(a_client_is_alive_by_its_lease_alone)
{
    struct tsk_workspace *ws = scene_open();
    char id[INSTANCE_HTTP_SIZE], secret[INSTANCE_SECRET_SIZE];
    ASSERT_OK(instance_register_http(ws, "test", id, secret, &err));
    ASSERT(instance_is_http(id));
    ASSERT_INT(judge_row(ws, id), LIVE_ALIVE);
    shift_clock(INSTANCE_LEASE_MS - 1000, 0);
    ASSERT_INT(judge_row(ws, id), LIVE_ALIVE);
    shift_clock(INSTANCE_LEASE_MS + 120000, 0);
    ASSERT_INT(judge_row(ws, id), LIVE_DEAD);
    shift_clock(0, 100LL * INSTANCE_LEASE_MS); /* the wall clock was set: nothing expires */
    ASSERT_INT(judge_row(ws, id), LIVE_ALIVE);
    shift_clock(INSTANCE_LEASE_MS + 120000, 0);
    ASSERT_INT(instance_renew(ws, id, &err), 1);
    ASSERT_INT(judge_row(ws, id), LIVE_ALIVE);
    ASSERT_INT(instance_renew(ws, id, &err), 0); /* a moment later: nothing is written */
    ASSERT_INT(judge_row(ws, "http-0123456789abcdef"), LIVE_DEAD);
    ASSERT_CODE(instance_renew(ws, "http-0123456789abcdef", &err), TSK_NOT_FOUND);
    tsk_workspace_close(ws);
}

TEST(after_a_reboot_a_lease_goes_by_the_wall_clock)
{
    struct tsk_workspace *ws = scene_open();
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    char id[INSTANCE_HTTP_SIZE], secret[INSTANCE_SECRET_SIZE];
    ASSERT_OK(instance_register_http(ws, NULL, id, secret, &err));
    ASSERT_OK(owners_open(&owners, ws, &err));
    ASSERT_OK(db_exec(&owners.db, &err, "UPDATE instance SET boot_id = 'another', lease_boot_ms = 0"));
    ASSERT_INT(judge_row(ws, id), LIVE_ALIVE);
    shift_clock(0, INSTANCE_LEASE_MS + 120000);
    ASSERT_INT(judge_row(ws, id), LIVE_DEAD);
    int64_t now_ms = clock_now().wall_ms;
    ASSERT_OK(instance_extend_all(ws, now_ms, &err)); /* the server was there when it ended */
    ASSERT_INT(judge_row(ws, id), LIVE_DEAD);
    ASSERT_OK(instance_extend_all(ws, now_ms - INSTANCE_LEASE_MS, &err));
    ASSERT_INT(judge_row(ws, id), LIVE_ALIVE);
    tsk_workspace_close(ws);
}

TEST(a_secret_belongs_to_one_client_and_is_not_in_the_database)
{
    struct tsk_workspace *ws = scene_open();
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct db_rows rows CLEANUP(db_rows_free);
    char a[INSTANCE_HTTP_SIZE], b[INSTANCE_HTTP_SIZE], secret_a[INSTANCE_SECRET_SIZE], secret_b[INSTANCE_SECRET_SIZE];
    ASSERT_OK(instance_register_http(ws, NULL, a, secret_a, &err));
    ASSERT_OK(instance_register_http(ws, NULL, b, secret_b, &err));
    ASSERT_OK(instance_verify_http(ws, a, secret_a, &err));
    ASSERT_OK(instance_verify_http(ws, b, secret_b, &err));
    ASSERT_CODE(instance_verify_http(ws, a, secret_b, &err), TSK_UNAUTHORIZED);
    ASSERT_CODE(instance_verify_http(ws, a, "", &err), TSK_UNAUTHORIZED);
    ASSERT_CODE(instance_verify_http(ws, "http-0123456789abcdef", secret_a, &err), TSK_UNAUTHORIZED);
    ASSERT_OK(owners_open(&owners, ws, &err));
    ASSERT_OK(db_query(&owners.db, &rows, &err, "SELECT 1 FROM instance WHERE secret_hash IN (?1, ?2)",
                       DB_TEXT(secret_a), DB_TEXT(secret_b)));
    ASSERT_INT(db_next(&rows, &err), 0);
    tsk_workspace_close(ws);
}

TEST(a_client_that_ends_owns_nothing_and_is_forgotten)
{
    struct tsk_workspace *ws = scene_open();
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    char id[INSTANCE_HTTP_SIZE], secret[INSTANCE_SECRET_SIZE];
    struct workflow wf;
    ASSERT_OK(instance_register_http(ws, NULL, id, secret, &err));
    ASSERT_OK(owners_open(&owners, ws, &err));
    struct instance client = named(&owners, id), other = named(&owners, "somebody");
    ASSERT_OK(workflow_claim(&owners, "w", &client, 0, &wf, &err));
    ASSERT_CODE(workflow_claim(&owners, "w", &other, 0, &wf, &err), TSK_WORKFLOW_OWNED_BY_OTHER);
    ASSERT_OK(workflow_release_all(&owners, id, false, NULL, &err));
    ASSERT_OK(workflow_claim(&owners, "w", &other, 0, &wf, &err));
    ASSERT_INT(wf.fence, 2);
    ASSERT_CODE(instance_verify_http(ws, id, secret, &err), TSK_UNAUTHORIZED);
    tsk_workspace_close(ws);
}

/* ---- workflows ---- */

TEST(a_yes_is_for_the_owner_that_was_shown)
{
    struct tsk_workspace *ws = scene_open();
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct workflow shown, wf;
    ASSERT_OK(owners_open(&owners, ws, &err));
    struct instance a = named(&owners, "a"), b = named(&owners, "b"), c = named(&owners, "c");
    ASSERT_OK(workflow_claim(&owners, "w", &a, 0, &wf, &err));
    ASSERT_CODE(workflow_force(&owners, "w", &b, NULL, &shown, &err), TSK_NEEDS_CONFIRMATION);
    ASSERT_OK(workflow_release(&owners, "w", &a, &wf, &err));
    ASSERT_OK(workflow_claim(&owners, "w", &c, 0, &wf, &err));
    ASSERT_CODE(workflow_force(&owners, "w", &b, &shown, &wf, &err), TSK_NEEDS_CONFIRMATION);
    ASSERT_STR(wf.owner, "c");
    ASSERT_OK(workflow_force(&owners, "w", &b, &wf, &shown, &err));
    ASSERT_STR(shown.owner, "b");
    ASSERT_INT(shown.fence, 3);
    tsk_workspace_close(ws);
}

/* ---- SHA-256 ---- */

TEST(the_hash_is_the_one_of_the_standard)
{
    char hash[SHA256_HEX_SIZE], text[200];
    sha256_hex("", 0, hash);
    ASSERT_STR(hash, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sha256_hex("abc", 3, hash);
    ASSERT_STR(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hash);
    ASSERT_STR(hash, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    memset(text, 'a', sizeof text); /* of 55, 64 and 200 bytes: one block, exactly one before the length, several */
    sha256_hex(text, 55, hash);
    ASSERT_STR(hash, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    sha256_hex(text, 64, hash);
    ASSERT_STR(hash, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}
