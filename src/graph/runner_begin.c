/* runner_begin.c - the beginning of a runner: a new run, or one that is resumed. */
#include "base/fs.h"
#include "base/log.h"
#include "graph/follow.h"
#include "graph/leftover.h"
#include "graph/reflow.h"
#include "graph/runner.h"
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

#define DESCRIPTORS_PLENTY 32 /* every limit has so many */
#define DESCRIPTORS_SPARE  24 /* for what is opened for a moment: journal, channel, trail */

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
    runner->trail = (struct buf){.max = EVENT_LINE_MAX - 1};
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

/* --start: the task, what follows it, and whatever is inside groups that follow it. */
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
    graph_follow(graph, node, runner->is_wanted);
    want_asked(runner);
    /* What follows the groups around it. */
    for (uint32_t scope = graph_node(graph, node)->scope; scope != GRAPH_ROOT;
         scope = graph_scope(graph, scope)->parent) {
        uint32_t around = graph_group(graph, graph_scope(graph, scope)->group)->node;
        for (struct successor s = graph_first(graph, around); s.node != NO_NODE; graph_next(graph, &s))
            graph_follow(graph, s.node, runner->is_wanted);
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

/* All that belongs to a run, its first record, and last its name: a run that is listed can be resumed. */
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
    json_t *records CLEANUP_JSON = NULL, *changes CLEANUP_JSON = NULL;
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
    if (reflow_finish(&runner->run, records, err) < 0)
        return -1;
    if (options->flow_text &&
        (reflow_change(runner, records, lang, &changes, err) < 0 || reflow_finish(&runner->run, records, err) < 0))
        return -1;
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
    if (result == 0 && changes)
        reflow_report(runner, changes);
    else if (result == 0)
        reflow_hint(runner, flow_text);
    return result;
}
