#include "graph/runner.h"
#include "base/fs.h"
#include "base/log.h"
#include "graph/leftover.h"
#include "graph/reply.h"
#include "hold/protocol.h"
#include "proc/spawn.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#define TASK_BEAT_MS       1000
#define DESCRIPTORS_PLENTY 32 /* every limit has so many */
#define DESCRIPTORS_SPARE  24 /* for what is opened for a moment: journal, channel, trail */
#define FIRST_STAGE_MS     20 /* a run that is over sooner writes its stage once */

extern char **environ;

/* ---- setting up ----------------------------------------------------------------------------------------- */

static bool is_set_by_us(const char *pair)
{
    static const char *const names[] = {"RUN_ID",  "SESSION_ID", "TASK_ID", "ATTEMPT", "FENCE",
                                        "CHANNEL", "OUTPUT",     "ANSWER",  "ROOT",    "RUN_CHAIN"};
    if (strncmp(pair, "TASUKI_", 7) != 0)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(pair + 7, names[i], strlen(names[i])) == 0 && pair[7 + strlen(names[i])] == '=')
            return true;
    return false;
}

static void env_begin(struct runner *runner)
{
    size_t count = 0;
    while (environ[count])
        count++;
    runner->env = calloc(count + 1, sizeof *runner->env);
    BUG(!runner->env);
    for (size_t i = 0; i < count; i++)
        if (!is_set_by_us(environ[i]))
            runner->env[runner->env_base++] = environ[i];
}

/* A flow that runs itself would go on until the machine is full. TASUKI_RUN_CHAIN has the runs around, with a colon between them. */
static int refuse_depth(struct tsk_error *err)
{
    const char *chain = getenv("TASUKI_RUN_CHAIN");
    unsigned depth = chain && *chain ? 1 : 0;
    char max[16];
    for (const char *at = chain; at && (at = strchr(at, ':')); at++)
        depth++;
    if (depth < RUN_DEPTH_MAX)
        return 0;
    snprintf(max, sizeof max, "%d", RUN_DEPTH_MAX);
    error_set(err, TSK_INVALID_INPUT, "runs_too_deep", "max", max, "chain", chain, NULL);
    error_add_next(err, "tasuki runs show %.*s", (int)strcspn(chain, ":"), chain);
    return -1;
}

static void chain_make(struct runner *runner)
{
    const char *around = getenv("TASUKI_RUN_CHAIN");
    bool has_any = around && *around && strlen(around) + RUN_ID_MAX < sizeof runner->chain;
    snprintf(runner->chain, sizeof runner->chain, "%s%s%s", has_any ? around : "", has_any ? ":" : "", runner->run.id);
}

static size_t parallel_of(const struct flow *flow, const struct runner_options *options)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (options->parallel)
        return (size_t)options->parallel;
    return flow->parallel ? (size_t)flow->parallel : processors > 0 ? (size_t)processors : 1;
}

static size_t count_descriptors(void)
{
    size_t count = 0;
    int fd = fs->openat(AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (!listing && fd >= 0)
        close(fd);
    while (listing && readdir(listing))
        count++;
    if (listing)
        closedir(listing);
    return count;
}

/* A place needs a descriptor for its log, and one for its process beside other threads. More places than there are descriptors for
 * would be tasks that fail; the limit is not raised, because tasks inherit it. */
static size_t parallel_within_limit(struct runner *runner, size_t wanted)
{
    struct rlimit limit;
    struct tsk_error err;
    size_t each = __libc_single_threaded ? 1 : 2;
    if (wanted * each <= DESCRIPTORS_PLENTY || getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return wanted;
    size_t used = count_descriptors() + DESCRIPTORS_SPARE;
    size_t most = limit.rlim_cur > used ? (size_t)(limit.rlim_cur - used) / each : 0;
    most = most ? most : 1;
    if (wanted <= most)
        return wanted;
    error_set(&err, TSK_ENVIRONMENT, "parallel_lowered", NULL);
    error_add_int(&err, "wanted", (int64_t)wanted);
    error_add_int(&err, "parallel", (int64_t)most);
    error_add_int(&err, "limit", (int64_t)limit.rlim_cur);
    log_problem(&err);
    runner->parallel_wanted = wanted;
    return most;
}

static int set_up(struct runner *runner, const json_t *values, struct tsk_error *err)
{
    struct flow *flow = runner->flow;
    struct memory_limits limits = {
        .max_steps = flow->max_steps, .max_cycles = flow->max_cycles, .first_fence = runner->epoch << 32};
    struct memory_watcher watcher = runner_watcher;
    watcher.data = runner;
    runner->failures = json_array();
    runner->questions = json_object();
    runner->answers = json_object();
    runner->answer_counts = json_object();
    runner->views = (struct region)REGION_OF(struct task_view);
    runner->grace_ms = HOLD_GRACE_MS;
    runner->env_text = (struct buf){.max = 4u << 20};
    runner->late_records = (struct buf){.max = JOURNAL_LINE_MAX};
    runner->parallel = parallel_within_limit(runner, parallel_of(flow, &runner->options));
    runner->running = calloc(runner->parallel, sizeof *runner->running);
    runner->files = calloc(flow->graph.scopes.count, sizeof *runner->files);
    runner->logs = calloc(runner->parallel, sizeof *runner->logs);
    runner->polls = calloc(runner->parallel + 1, sizeof *runner->polls);
    for (size_t i = 0; runner->logs && i < runner->parallel; i++)
        runner->logs[i].fd = -1;
    for (size_t i = 0; runner->polls && i <= runner->parallel; i++)
        runner->polls[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    runner->stack = spawn_stack();
    spawn_look(&runner->changed_signals);
    runner->mark = leftover_run_mark(&runner->run);
    BUG(!runner->running || !runner->files || !runner->logs || !runner->polls || !runner->stack ||
        !region_add(&runner->views, flow->graph.nodes.count + 1));
    enum fs_class class;
    const char *name;
    runner->has_exact_stamps = fs_classify(runner->run.dir, &class, &name) == 0 && class == FS_LOCAL;
    env_begin(runner);
    chain_make(runner);
    snprintf(runner->empty_channel, sizeof runner->empty_channel, "%s/" RUNNER_EMPTY_CHANNEL, runner->ws->state_path);
    return memory_new(&flow->graph, runner->run.id, values, &limits, &watcher, &runner->memory, err);
}

/* Everything inside a group. */
static void want_inside(struct runner *runner, uint32_t group)
{
    const struct graph *graph = &runner->flow->graph;
    for (uint32_t n = 0; n < graph->nodes.count; n++)
        for (uint32_t scope = graph_node(graph, n)->scope; scope != GRAPH_ROOT;
             scope = graph_scope(graph, scope)->parent)
            if (graph_scope(graph, scope)->group == graph_node(graph, group)->detail)
                runner->is_wanted[n] = 1;
}

/* --start: the task, what follows it, and whatever is inside groups that follow it. */
static void want(struct runner *runner, uint32_t first)
{
    const struct graph *graph = &runner->flow->graph;
    struct plan_out todo = {0};
    plan_out_add(&todo, first);
    while (todo.count) {
        uint32_t node = todo.ready[--todo.count];
        if (runner->is_wanted[node])
            continue;
        runner->is_wanted[node] = 1;
        if (graph_node(graph, node)->is_group)
            want_inside(runner, node);
        for (struct successor s = graph_first(graph, node); s.node != NO_NODE; graph_next(graph, &s))
            plan_out_add(&todo, s.node);
    }
    plan_out_clear(&todo);
}

/* What only others ask for lies before nothing. */
static void want_asked(struct runner *runner)
{
    const struct graph *graph = &runner->flow->graph;
    for (uint32_t i = 0; i < runner->flow->tasks.count; i++) {
        const struct flow_task *task = flow_task(runner->flow, i);
        if (task->never_starts && !graph_node(graph, task->node)->successor && !graph_indegree(graph, task->node))
            runner->is_wanted[task->node] = 1;
    }
}

static int begin_at(struct runner *runner, struct tsk_error *err)
{
    const struct graph *graph = &runner->flow->graph;
    if (!runner->options.start)
        return 0;
    uint32_t node = graph_find(graph, runner->options.start);
    if (node == NO_NODE)
        return error_set(err, TSK_INVALID_INPUT, "start_unknown", "task", runner->options.start, NULL);
    runner->is_wanted = calloc(graph->nodes.count + 1, 1);
    BUG(!runner->is_wanted);
    want(runner, node);
    want_asked(runner);
    /* What follows the groups around it. */
    for (uint32_t scope = graph_node(graph, node)->scope; scope != GRAPH_ROOT;
         scope = graph_scope(graph, scope)->parent) {
        uint32_t around = graph_group(graph, graph_scope(graph, scope)->group)->node;
        for (struct successor s = graph_first(graph, around); s.node != NO_NODE; graph_next(graph, &s))
            want(runner, s.node);
    }
    return 0;
}

static void note_request(struct runner *runner, const char *id, const char *updated_at, const char *sha256,
                         const char *workflow)
{
    snprintf(runner->workflow, sizeof runner->workflow, "%s", workflow ? workflow : "");
    snprintf(runner->request_id, sizeof runner->request_id, "%s", id ? id : "");
    snprintf(runner->request_updated_at, sizeof runner->request_updated_at, "%s", updated_at ? updated_at : "");
    snprintf(runner->request_sha256, sizeof runner->request_sha256, "%s", sha256 ? sha256 : "");
}

static int write_flow(struct runner *runner, const char *text, size_t len, struct tsk_error *err)
{
    int fd CLEANUP_FD = fs->openat(runner->run.dir, "flow.yaml", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 || fs_write_all(fd, text, len) < 0 ? fs_error(err, "write", runner->run.dir, "flow.yaml") : 0;
}

static void journal_run(struct runner *runner, const json_t *values)
{
    char cwd[PATH_MAX];
    struct buf *record = journal_begin(&runner->journal, "run");
    buf_json_pair(record, "run", runner->run.id);
    buf_json_pair(record, "flow", runner->flow->source);
    buf_json_pair(record, "cwd", getcwd(cwd, sizeof cwd) ? cwd : "/");
    buf_json_pair(record, "start", runner->options.start);
    if (runner->request_id[0]) {
        buf_json_pair(record, "request", runner->request_id);
        buf_json_pair(record, "request_updated_at", runner->request_updated_at);
        buf_json_pair(record, "request_sha256", runner->request_sha256);
    }
    if (runner->workflow[0])
        buf_json_pair(record, "workflow", runner->workflow);
    buf_json_pair_int(record, "parallel", (int64_t)runner->parallel);
    buf_json_pair_int(record, "tasks", (int64_t)runner->flow->tasks.count);
    if (values) {
        buf_json_key(record, "set");
        json_write(record, values, false);
    }
    journal_end(&runner->journal);
}

/* All that belongs to a run, its first record, and last its name: whoever sees it can resume it. */
static int begin_files(struct runner *runner, const char *flow_text, size_t flow_len, const json_t *values,
                       struct tsk_error *err)
{
    const struct runner_options *options = &runner->options;
    if (write_flow(runner, flow_text, flow_len, err) < 0 ||
        flow_settle_agents(runner->flow, runner->ws, &runner->run, flow_text, flow_len, err) < 0 ||
        (options->prepare && options->prepare(options->prepare_data, runner->run.dir, err) < 0) ||
        journal_open(&runner->journal, runner->run.dir, runner->flow->is_journal_synced, err) < 0 ||
        set_up(runner, values, err) < 0)
        return -1;
    journal_run(runner, values);
    runner_note(runner, clock_now().wall_ms, "started", NULL, NULL);
    return journal_flush(&runner->journal, err) < 0 ? -1 : rundir_publish(runner->ws, &runner->run, err);
}

int runner_begin(struct runner *runner, struct tsk_workspace *ws, struct flow *flow, const char *flow_text,
                 size_t flow_len, const json_t *values, const struct runner_options *options, struct tsk_error *err)
{
    *runner = (struct runner){.ws = ws, .flow = flow, .options = *options, .null_fd = -1};
    runner->run = (struct rundir){.dir = -1, .life_fd = -1, .runner_fd = -1};
    runner->journal.fd = -1;
    if (refuse_depth(err) < 0 || begin_at(runner, err) < 0 || rundir_create(ws, options->id, &runner->run, err) < 0)
        return -1;
    note_request(runner, options->request_id, options->request_updated_at, options->request_sha256, options->workflow);
    runner->began_wall_ms = clock_now().wall_ms;
    if (begin_files(runner, flow_text, flow_len, values, err) == 0)
        return 0;
    rundir_drop(ws, &runner->run);
    return -1;
}

static int load_flow(struct runner *runner, struct buf *text, enum lang lang, struct tsk_error *err)
{
    char path[FS_PATH_MAX]; /* the run's copy, not what it was made from: that is where a problem is to be looked for */
    *text = (struct buf){.max = FLOW_SIZE_MAX};
    if (fs_read_file(runner->run.dir, "flow.yaml", FLOW_SIZE_MAX - 1, text) < 0)
        return fs_error(err, "read", runner->run.dir, "flow.yaml");
    fs_path(runner->run.dir, "flow.yaml", path);
    if (flow_load(runner->flow, path, buf_str(text), text->len, lang, err) < 0)
        return -1;
    if (flow_settle_agents(runner->flow, runner->ws, &runner->run, buf_str(text), text->len, err) < 0) {
        flow_clear(runner->flow);
        return -1;
    }
    runner->flow->source = runner->source;
    return 0;
}

int runner_resume(struct runner *runner, struct tsk_workspace *ws, const char *id, struct flow *flow,
                  struct buf *flow_text, enum lang lang, const struct runner_options *options, struct tsk_error *err)
{
    json_t *records CLEANUP_JSON = NULL;
    *runner = (struct runner){.ws = ws, .options = *options, .null_fd = -1};
    runner->journal.fd = -1;
    *flow = (struct flow){0};
    *flow_text = (struct buf){0};
    if (rundir_open(ws, id, &runner->run, err) < 0)
        return -1;
    if (rundir_take(&runner->run, err) < 0 || journal_read_whole(runner->run.dir, &records, err) < 0)
        return -1;
    if (options->refuses_cancelled && strcmp(rundir_end_of(records), "CANCELLED") == 0)
        return error_set(err, TSK_CONFLICT, "run_given_up", "run", runner->run.id, NULL);
    if (rundir_take_life(&runner->run, rundir_was_interrupted(records), err) < 0)
        return -1;
    const json_t *first = json_array_get(records, 0);
    if (strcmp(json_get_string(first, "e", ""), "run") != 0)
        return error_set(err, TSK_ENVIRONMENT, "journal_empty", "run", runner->run.id, NULL);
    runner->flow = flow;
    runner->source = strdup(json_get_string(first, "flow", "flow.yaml"));
    if (load_flow(runner, flow_text, lang, err) < 0) {
        runner->flow = NULL;
        return -1;
    }
    runner->epoch = 1;
    size_t i;
    json_t *record;
    json_array_foreach (records, i, record)
        runner->epoch += strcmp(json_get_string(record, "e", ""), "resume") == 0;
    runner->began_wall_ms = json_get_int(first, "t", 0);
    note_request(runner, json_get_string(first, "request", NULL), json_get_string(first, "request_updated_at", NULL),
                 json_get_string(first, "request_sha256", NULL), json_get_string(first, "workflow", NULL));
    runner->options.start = json_get_string(first, "start", NULL);
    if (!runner->options.parallel)
        runner->options.parallel = json_get_int(first, "parallel", 0);
    if (begin_at(runner, err) < 0)
        return -1;
    runner->options.start = NULL; /* it was borrowed from the record */
    if (chdir(json_get_string(first, "cwd", "/")) < 0)
        return error_errno(err, "go to", json_get_string(first, "cwd", "/"));
    if (journal_open(&runner->journal, runner->run.dir, flow->is_journal_synced, err) < 0 ||
        set_up(runner, json_object_get(first, "set"), err) < 0)
        return -1;
    runner->is_replaying = true;
    int result = runner_replay(runner, records, err);
    runner->is_replaying = false;
    return result;
}

/* ---- the loop ------------------------------------------------------------------------------------------- */

/* A task that ends without a process still takes a place for a moment. Only `never` keeps its successors from running. */
static void pass_over(struct runner *runner, const struct claim *claim, enum pass why)
{
    struct running *slot = running_take(runner, claim);
    slot->is_passed = why == PASS_START;
    slot->is_unwanted = why == PASS_WHEN;
    task_complete(runner, slot, why == PASS_NEVER ? OUTCOME_SKIPPED : OUTCOME_OK, 0, NULL, NULL);
}

static void journal_start(struct runner *runner, const struct claim *claim, size_t place)
{
    struct buf *record = journal_begin(&runner->journal, "start");
    buf_json_pair_int(record, "n", claim->node);
    buf_json_pair(record, "k", claim->task);
    buf_json_pair(record, "s", claim->session);
    buf_json_pair_int(record, "a", claim->attempt);
    buf_json_pair_int(record, "p", (int64_t)place);
    journal_end(&runner->journal);
}

/* Fills the free places. X1: the journal first, then the processes. */
static int start_ready(struct runner *runner, struct tsk_error *err)
{
    struct claim claim;
    size_t before = runner->running_count;
    while (runner->running_count < runner->parallel && !runner->cancels &&
           memory_claim(runner->memory, clock_now().boot_ms, &claim)) {
        enum pass why = task_passes(runner, &claim);
        if (why != PASS_NOT) {
            pass_over(runner, &claim, why);
            continue;
        }
        journal_start(runner, &claim, (size_t)(running_take(runner, &claim) - runner->running));
    }
    runner_write_late(runner);
    if (journal_flush(&runner->journal, err) < 0)
        return -1;
    for (size_t i = 0; runner->running_count > before && i < runner->parallel; i++)
        if (runner->running[i].is_used && runner->running[i].pid == 0)
            task_start(runner, &runner->running[i]);
    return 0;
}

static void tell_cancelling(struct runner *runner, const struct tsk_error *why)
{
    struct buf message CLEANUP(buf_clear) = BUF_INIT;
    text_put_error(&message, runner->flow->lang, why);
    runner_fact(runner, "run.cancelling", runner->run.id, NULL,
                json_pack("{s:s, s:s}", "reason_code", tsk_code_name(why->code), "reason", buf_str(&message)), true);
}

static void cancel_because(struct runner *runner, const struct tsk_error *reason)
{
    if (runner->cancels++) {
        runner->grace_ms = 0;
    } else {
        tell_cancelling(runner, reason);
        memory_stop(runner->memory, reason);
    }
    for (size_t i = 0; i < runner->parallel; i++)
        if (runner->running[i].is_used)
            task_stop(runner, &runner->running[i], STOP_RUN);
}

void runner_cancel(struct runner *runner)
{
    struct tsk_error reason;
    error_set(&reason, TSK_RUN_FAILED, "run_cancelled", NULL);
    cancel_because(runner, &reason);
}

/* X6. */
static void lose(struct runner *runner, struct tsk_error *reason)
{
    struct memory_status status;
    memory_status(runner->memory, &status);
    bool is_complete = runner->running_count == 0 && status.ready == 0 && status.state != RUN_ACTIVE;
    if (!reason->code)
        error_set(reason, TSK_LOCK_LOST, "run_lock_lost", NULL);
    if (!is_complete && !runner->cancels)
        cancel_because(runner, reason);
}

void runner_beat(struct runner *runner, bool task_ended)
{
    const struct runner_options *options = &runner->options;
    if (!options->beat || runner->is_replaying || runner->cancels)
        return;
    runner->has_progress |= task_ended;
    int64_t now = clock_now().boot_ms;
    if (now < runner->last_beat_ms + (task_ended ? TASK_BEAT_MS : options->beat_ms))
        return;
    runner->last_beat_ms = now;
    bool has_progress = runner->has_progress;
    struct tsk_error why = {.code = TSK_OK};
    runner->has_progress = false;
    if (!options->beat(options->beat_data, has_progress, &why))
        lose(runner, &why);
}

static void check_times(struct runner *runner, int64_t now)
{
    for (size_t i = 0; i < runner->parallel; i++) {
        struct running *slot = &runner->running[i];
        if (slot->is_used && slot->deadline_ms && slot->deadline_ms <= now)
            task_stop(runner, slot, STOP_TIMEOUT);
        else if (slot->is_used && slot->kill_at_ms && slot->kill_at_ms <= now)
            task_stop(runner, slot, slot->stops);
        if (slot->is_used && slot->look_at_ms && slot->look_at_ms <= now)
            task_exited(runner, slot);
        if (slot->is_used && slot->pid > 0 && !slot->is_log_named && slot->started_ms + LOG_NAME_MS <= now)
            task_name_log(runner, slot);
    }
    runner_beat(runner, false);
    if (runner->next_stage_ms <= now) {
        runner_save_stage(runner);
        if (runner->options.wants_ticks)
            runner_fact(runner, "run.progress", runner->run.id, NULL, NULL, false);
    }
}

/* Until when nothing can happen by itself. */
static int wait_time(struct runner *runner, const struct memory_status *status, int64_t now)
{
    int64_t at = runner->next_stage_ms;
    at = status->next_due_ms < at ? status->next_due_ms : at;
    if (runner->options.beat && runner->last_beat_ms + runner->options.beat_ms < at)
        at = runner->last_beat_ms + runner->options.beat_ms;
    for (size_t i = 0; i < runner->parallel; i++) {
        const struct running *slot = &runner->running[i];
        if (slot->is_used && slot->deadline_ms && slot->deadline_ms < at)
            at = slot->deadline_ms;
        if (slot->is_used && slot->kill_at_ms && slot->kill_at_ms < at)
            at = slot->kill_at_ms;
        if (slot->is_used && slot->look_at_ms && slot->look_at_ms < at)
            at = slot->look_at_ms;
        if (slot->is_used && !slot->is_log_named && slot->started_ms + LOG_NAME_MS < at)
            at = slot->started_ms + LOG_NAME_MS;
    }
    return at <= now ? 0 : at - now > 60000 ? 60000 : (int)(at - now);
}

static int loop(struct runner *runner, struct tsk_error *err)
{
    struct memory_status status;
    for (;;) {
        if (runner_take_replies(runner, err) < 0 || start_ready(runner, err) < 0)
            return -1;
        memory_status(runner->memory, &status);
        if (runner->running_count == 0 && status.ready == 0 && status.state != RUN_ACTIVE)
            return journal_flush(&runner->journal, err);
        if (runner->running_count < runner->parallel && status.ready && !runner->cancels)
            continue; /* a start that failed at once has freed a place */
        int64_t now = clock_now().boot_ms;
        runner_wait(runner, wait_time(runner, &status, now));
        check_times(runner, clock_now().boot_ms);
    }
}

/* ---- the end -------------------------------------------------------------------------------------------- */

static const char *status_word(struct runner *runner)
{
    struct memory_status status;
    memory_status(runner->memory, &status);
    if (status.state == RUN_WAITING)
        return "NEEDS_INPUT";
    if (runner->cancels)
        return "CANCELLED";
    return status.has_failed ? "FAILED" : "DONE";
}

/* Channel, output and answer files, and the output of places that nobody used. */
void runner_remove_io(struct runner *runner)
{
    static const char *const starts[] = {"channel.", "output.", "answer.", "slot."};
    int fd = fs->openat(runner->run.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (!listing && fd >= 0)
        close(fd);
    for (struct dirent *entry; listing && (entry = readdir(listing));)
        for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
            if (strncmp(entry->d_name, starts[i], strlen(starts[i])) == 0)
                fs->unlinkat(runner->run.dir, entry->d_name, 0);
    if (listing)
        closedir(listing);
}

/* The values at the end, for who reads the journal because the stage was not written any more (rundir_look). Large ones are left
 * out: they would be written twice for that rare case. */
static void put_values(struct runner *runner, struct buf *record)
{
    struct buf text CLEANUP(buf_clear) = {.max = JOURNAL_VALUES_MAX};
    json_t *values CLEANUP_JSON = memory_result(runner->memory);
    json_write(&text, values, false);
    if (text.failed)
        return;
    buf_json_key(record, "v");
    buf_put(record, text.data, text.len);
}

static int finish(struct runner *runner, json_t **ret_stage, struct tsk_error *err)
{
    struct memory_status status;
    runner->status = status_word(runner);
    memory_status(runner->memory, &status);
    struct buf *record = journal_begin(&runner->journal, "done");
    buf_json_pair(record, "status", runner->status);
    put_values(runner, record);
    journal_end(&runner->journal);
    runner_note(runner, clock_now().wall_ms, "ended", "status", runner->status);
    if (journal_flush(&runner->journal, err) < 0)
        return -1;
    runner_remove_io(runner);
    runner_save_stage(runner);
    *ret_stage = runner_stage(runner);
    runner_fact(
        runner, "run.ended", runner->run.id, NULL,
        json_pack("{s:s, s:s?}", "status", runner->status, "reason_code",
                  status.failure && strcmp(runner->status, "DONE") != 0 ? tsk_code_name(status.failure->code) : NULL),
        true);
    return 0;
}

int runner_execute(struct runner *runner, json_t **ret_stage, struct tsk_error *err)
{
    runner->null_fd = fs->openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);
    if (runner->null_fd < 0)
        return error_errno(err, "open", "/dev/null");
    if (!runner->is_waiting && runner_wait_begin(runner, err) < 0)
        return -1;
    runner->last_beat_ms = clock_now().boot_ms;
    runner->next_stage_ms = runner->last_beat_ms + FIRST_STAGE_MS;
    json_t *about = json_pack("{s:s?, s:s, s:I, s:I}", "flow", runner->flow->name, "source", runner->flow->source,
                              "tasks", (json_int_t)runner->flow->tasks.count, "parallel", (json_int_t)runner->parallel);
    if (runner->parallel_wanted)
        json_object_set_new(about, "parallel_wanted", json_integer((json_int_t)runner->parallel_wanted));
    runner_fact(runner, "run.started", runner->run.id, NULL, about, true);
    if (loop(runner, err) == 0 && finish(runner, ret_stage, err) == 0)
        return 0;
    /* The journal cannot be written: the tasks die with us, resume goes on. */
    error_add(err, "run_id", runner->run.id);
    error_add_next(err, "tasuki resume %s", runner->run.id);
    return -1;
}

void runner_close(struct runner *runner)
{
    for (size_t i = 0; runner->running && i < runner->parallel; i++)
        if (runner->running[i].is_used) {
            if (runner->running[i].pid > 0)
                task_end_processes(runner, &runner->running[i]);
            running_free(runner, &runner->running[i]);
        }
    if (runner->memory)
        memory_free(runner->memory);
    runner_wait_end(runner);
    fs_close(&runner->null_fd);
    journal_close(&runner->journal);
    rundir_clear(&runner->run);
    region_clear(&runner->views);
    json_decref(runner->failures);
    json_decref(runner->questions);
    json_decref(runner->answer_counts);
    json_decref(runner->history);
    json_decref(runner->answers);
    for (size_t i = 0; runner->logs && i < runner->parallel; i++)
        fs_close(&runner->logs[i].fd);
    free(runner->logs);
    free(runner->polls);
    spawn_stack_free(runner->stack);
    free(runner->running);
    free(runner->files);
    free(runner->is_wanted);
    free(runner->env);
    free(runner->source);
    buf_clear(&runner->env_text);
    buf_clear(&runner->late_records);
}
