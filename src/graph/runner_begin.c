/* runner_begin.c - the beginning of a runner: a new run, or one that is resumed. */
#include "base/fs.h"
#include "base/listing.h"
#include "base/log.h"
#include "base/word.h"
#include "graph/follow.h"
#include "graph/reflow.h"
#include "graph/remote.h"
#include "graph/runner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#define DESCRIPTORS_PLENTY 32 /* every limit allows this many */
#define DESCRIPTORS_SPARE  24 /* for what is opened for a moment: journal, channel, trail */

/* ---- setting up ----------------------------------------------------------------------------------------- */

/* A flow that runs itself would continue until the machine is full. TASUKI_RUN_CHAIN has the runs around, with a colon between them. */
static int refuse_depth(struct tsk_error *err)
{
    const char *chain = getenv("TASUKI_RUN_CHAIN");
    unsigned depth = chain && *chain ? 1 : 0;
    for (const char *at = chain; at && (at = strchr(at, ':')); at++)
        depth++;
    if (depth < RUN_DEPTH_MAX)
        return 0;
    error_set(err, TSK_INVALID_INPUT, "runs_too_deep", "max", DIGITS(RUN_DEPTH_MAX), "chain", chain, NULL);
    return error_add_next(err, "tasuki runs show %.*s", (int)strcspn(chain, ":"), chain);
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
    if (options->remote_program && !flow->parallel)
        return REMOTE_PARALLEL;
    return flow->parallel ? (size_t)flow->parallel : processors > 0 ? (size_t)processors : 1;
}

static size_t count_descriptors(void)
{
    size_t count = 0;
    struct listing descriptors CLEANUP(listing_close);
    listing_open(&descriptors, AT_FDCWD, "/proc/self/fd", 0);
    while (listing_next(&descriptors))
        count++;
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
    error_add_next(&err, "ulimit -n %zu", wanted * each + used);
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
    runner->has_parallel_option = runner->options.parallel > 0;
    runner->failures = json_array();
    runner->questions = json_object();
    runner->answers = json_object();
    runner->answer_counts = json_object();
    runner->views = (struct region)REGION_OF(struct task_view);
    runner->trail = (struct buf){.max = EVENT_LINE_MAX - 1};
    runner->late_records = (struct buf){.max = JOURNAL_LINE_MAX};
    runner->parallel = parallel_within_limit(runner, parallel_of(flow, &runner->options));
    runner->running = calloc(runner->parallel, sizeof *runner->running);
    runner->files = calloc(flow->graph.scopes.count, sizeof *runner->files);
    runner->logs = calloc(runner->parallel, sizeof *runner->logs);
    runner->polls = calloc(runner->parallel + 2, sizeof *runner->polls);
    for (size_t i = 0; runner->logs && i < runner->parallel; i++)
        runner->logs[i].fd = -1;
    for (size_t i = 0; runner->polls && i <= runner->parallel + 1; i++)
        runner->polls[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    executor_init(&runner->executor, &runner->run);
    json_each (runner->params, i, pair)
        executor_add_env(&runner->executor, json_string_value(pair));
    runner->executor.lock_fd = runner->options.lock_fd;
    BUG(!runner->running || !runner->files || !runner->logs || !runner->polls ||
        !region_add(&runner->views, flow->graph.nodes.count + 1));
    enum fs_class class;
    const char *name;
    runner->has_exact_stamps = fs_classify(runner->run.dir, &class, &name) == 0 && class == FS_LOCAL;
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

static int find_node(const struct graph *graph, const char *name, uint32_t *ret, struct tsk_error *err)
{
    *ret = graph_find(graph, name);
    return *ret == NO_NODE ? error_set(err, TSK_INVALID_INPUT, "start_unknown", "task", name, NULL) : 0;
}

/* Tasks that were named: they, and what they need. */
static int want_only(struct runner *runner, struct tsk_error *err)
{
    size_t count = json_array_size(runner->options.only);
    uint32_t *nodes = calloc(count, sizeof *nodes);
    int result = 0;
    BUG(!nodes);
    json_each (runner->options.only, i, name)
        if (result == 0)
            result = find_node(&runner->flow->graph, json_string_value(name), &nodes[i], err);
    if (result == 0)
        graph_need(&runner->flow->graph, nodes, count, runner->is_wanted);
    free(nodes);
    return result;
}

/* Which tasks are to run, if not all. */
static int choose_tasks(struct runner *runner, struct tsk_error *err)
{
    uint32_t node = NO_NODE;
    const struct runner_options *options = &runner->options;
    bool has_only = json_array_size(options->only) > 0;
    if (!options->start && !has_only)
        return 0;
    if (options->start && has_only)
        return error_set(err, TSK_INVALID_INPUT, "start_and_tasks", NULL);
    if (options->start && find_node(&runner->flow->graph, options->start, &node, err) < 0)
        return -1;
    runner->is_wanted = memory_zeroed(runner->flow->graph.nodes.count + 1, 1);
    if (options->start)
        graph_follow_out(&runner->flow->graph, node, runner->is_wanted);
    else if (want_only(runner, err) < 0)
        return -1;
    want_asked(runner);
    return 0;
}

/* What the run is for, and which lock it needs. */
static void note_purpose(struct runner *runner, const char *workflow, const char *exclusive)
{
    snprintf(runner->workflow, sizeof runner->workflow, "%s", workflow ? workflow : "");
    snprintf(runner->exclusive, sizeof runner->exclusive, "%s", exclusive ? exclusive : "");
}

static void note_request(struct runner *runner, const char *id, const char *updated_at, const char *sha256)
{
    snprintf(runner->request_id, sizeof runner->request_id, "%s", id ? id : "");
    snprintf(runner->request_updated_at, sizeof runner->request_updated_at, "%s", updated_at ? updated_at : "");
    snprintf(runner->request_sha256, sizeof runner->request_sha256, "%s", sha256 ? sha256 : "");
}

/* How long nobody executed it: after each end, before each `resume`, and until now. A clock that was set back makes no pause. */
static int64_t paused_before(const json_t *records)
{
    int64_t paused_ms = 0, now_ms = clock_now().wall_ms, last_ms = now_ms;
    const char *last = "";
    json_each (records, i, record) {
        const char *event = json_get_string(record, "e", "");
        int64_t time_ms = json_get_int(record, "t", last_ms);
        bool is_pause = strcmp(event, "resume") == 0 || strcmp(event, "flow") == 0 || strcmp(last, "done") == 0;
        if (is_pause && time_ms > last_ms)
            paused_ms += time_ms - last_ms;
        last_ms = time_ms;
        last = event;
    }
    return paused_ms + (now_ms > last_ms ? now_ms - last_ms : 0);
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
    if (json_array_size(runner->options.only)) {
        buf_json_key(record, "only");
        json_write(record, runner->options.only, false);
    }
    if (runner->request_id[0]) {
        buf_json_pair(record, "request", runner->request_id);
        buf_json_pair(record, "request_updated_at", runner->request_updated_at);
        buf_json_pair(record, "request_sha256", runner->request_sha256);
    }
    if (runner->workflow[0])
        buf_json_pair(record, "workflow", runner->workflow);
    if (runner->exclusive[0])
        buf_json_pair(record, "exclusive", runner->exclusive);
    if (json_array_size(runner->params)) {
        buf_json_key(record, "params");
        json_write(record, runner->params, false);
    }
    if (runner->options.remote_shown)
        buf_json_pair(record, "redis", runner->options.remote_shown);
    if (runner->options.is_local)
        buf_json_pair_int(record, "local", 1);
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
        remote_files_keep(runner, err) < 0 ||
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
    *runner = (struct runner){.ws = ws, .flow = flow, .options = *options, .executor.null_fd = -1};
    runner->run = (struct rundir){.dir = -1, .life_fd = -1, .runner_fd = -1};
    runner->journal.fd = -1;
    if (refuse_depth(err) < 0 || choose_tasks(runner, err) < 0 || rundir_create(ws, options->id, &runner->run, err) < 0)
        return -1;
    note_request(runner, options->request_id, options->request_updated_at, options->request_sha256);
    note_purpose(runner, options->workflow, options->exclusive);
    runner->params = json_incref((json_t *)options->params);
    runner->began_wall_ms = clock_now().wall_ms;
    if (begin_files(runner, flow_text, flow_len, values, err) == 0)
        return 0;
    rundir_drop(ws, &runner->run);
    return -1;
}

static int runner_load_flow(struct runner *runner, struct buf *text, enum lang lang, struct tsk_error *err)
{
    char path[FS_PATH_MAX]; /* the run's copy, not what it was made from: that is where a problem is to be looked for */
    *text = (struct buf){.max = FLOW_SIZE_MAX};
    if (fs_read_file(runner->run.dir, "flow.yaml", FLOW_SIZE_MAX - 1, text) < 0)
        return rundir_flow_error(&runner->run, "read", err);
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
    *runner = (struct runner){.ws = ws, .options = *options, .executor.null_fd = -1};
    runner->journal.fd = -1;
    *flow = (struct flow){0};
    *flow_text = (struct buf){0};
    if (rundir_open(ws, id, &runner->run, err) < 0)
        return -1;
    if (rundir_take(&runner->run, err) < 0 || journal_read_whole(runner->run.dir, &records, err) < 0)
        return -1;
    if (options->refuses_cancelled && strcmp(rundir_end_of(records), "CANCELLED") == 0)
        return error_set(err, TSK_CONFLICT, "run_given_up", "run", runner->run.id, NULL);
    runner->was_interrupted = rundir_was_interrupted(records);
    if (rundir_take_life(&runner->run, runner->was_interrupted, err) < 0)
        return -1;
    const json_t *first = json_array_get(records, 0);
    if (!json_text_is(first, "e", "run"))
        return error_set(err, TSK_ENVIRONMENT, "journal_empty", "run", runner->run.id, NULL);
    const char *elsewhere = json_get_string(first, "redis", NULL);
    runner->options.is_local = json_get_int(first, "local", 0) != 0;
    if (elsewhere && options->find_remote &&
        options->find_remote(options->find_remote_data, elsewhere, &runner->options, err) < 0)
        return -1;
    if (reflow_finish(&runner->run, records, err) < 0)
        return -1;
    if (options->flow_text &&
        (reflow_change(runner, records, lang, &changes, err) < 0 || reflow_finish(&runner->run, records, err) < 0))
        return -1;
    runner->flow = flow;
    runner->source = strdup(json_get_string(first, "flow", "flow.yaml"));
    if (runner_load_flow(runner, flow_text, lang, err) < 0) {
        runner->flow = NULL;
        return -1;
    }
    runner->epoch = 1;
    json_each (records, i, record)
        runner->epoch += json_text_is(record, "e", "resume");
    runner->began_wall_ms = json_get_int(first, "t", 0);
    runner->paused_ms = paused_before(records);
    note_request(runner, json_get_string(first, "request", NULL), json_get_string(first, "request_updated_at", NULL),
                 json_get_string(first, "request_sha256", NULL));
    note_purpose(runner, json_get_string(first, "workflow", NULL), json_get_string(first, "exclusive", NULL));
    runner->params = json_incref(json_object_get(first, "params"));
    runner->options.start = json_get_string(first, "start", NULL);
    runner->options.only = json_object_get(first, "only");
    if (!runner->options.parallel)
        runner->options.parallel = json_get_int(first, "parallel", 0);
    if (choose_tasks(runner, err) < 0)
        return -1;
    runner->options.start = NULL; /* they were borrowed from the record */
    runner->options.only = NULL;
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
