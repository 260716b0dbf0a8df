/* op_workers.c - worker: executes attempts for runs of other machines. workers: the workers of a pool, and orders for them. */
#include "base/fs.h"
#include "ops/ops.h"
#include "ops/page.h"
#include "run/elsewhere.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REDIS_PARAM                                                                                                    \
    PARAM("redis", OP_STRING, OP_CLI_ONLY, "URL", "The server: redis://, rediss:// or unix://.",                       \
          .fallback = "TASUKI_REDIS, or redis: in config.yaml", .max = 1024)

/* Without a server ret->program is empty. */
static int find_server(struct op_call *call, struct elsewhere *ret, struct tsk_error *err)
{
    if (elsewhere_find(call->ws, json_get_string(call->args, "redis", NULL), NULL, ret, err) == 0)
        return 0;
    elsewhere_clear(ret);
    return -1;
}

static int need_server(struct op_call *call, struct elsewhere *ret, struct tsk_error *err)
{
    if (find_server(call, ret, err) < 0)
        return -1;
    if (ret->program[0])
        return 0;
    return error_set(err, TSK_INVALID_INPUT, call->is_cli ? "redis_not_named" : "redis_not_configured", NULL);
}

/* ---- worker --------------------------------------------------------------------------------------------- */

/* The program takes our place; the server's URL is in its environment, where other users do not see it. */
static int run_worker(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    static const char *const options[][2] = {{"name", "--name"}, {"tags", "--tags"}, {"dir", "--dir"}};
    struct elsewhere elsewhere;
    char places[24], *argv[16] = {NULL};
    size_t count = 0;
    *ret = NULL;
    if (need_server(call, &elsewhere, err) < 0)
        return -1;
    json_each (elsewhere.env, i, pair)
        putenv((char *)json_string_value(pair));
    argv[count++] = elsewhere.program;
    argv[count++] = "worker";
    for (size_t k = 0; k < sizeof options / sizeof options[0]; k++) {
        const char *value = json_get_string(call->args, options[k][0], NULL);
        if (value) {
            argv[count++] = (char *)options[k][1];
            argv[count++] = (char *)value;
        }
    }
    snprintf(places, sizeof places, "%lld", (long long)json_get_int(call->args, "places", 0));
    if (json_object_get(call->args, "places")) {
        argv[count++] = "-j";
        argv[count++] = places;
    }
    execv(elsewhere.program, argv);
    return error_errno(err, "start", elsewhere.program);
}

const struct op op_worker = {
    NAMES("worker", NULL, "worker"),
    .summary = "Execute tasks of runs that were begun with --redis, also on other machines.",
    .detail = "Tasks run in --dir, with this machine's environment. SIGTERM drains the worker: running tasks are "
              "finished, and no more are taken. A second SIGTERM ends the tasks and returns them to their runs. A task "
              "whose lease cannot be "
              "renewed is killed before the lease ends.",
    .examples = "tasuki worker --redis redis://cache.internal -j 8 --tags gpu\n"
                "TASUKI_REDIS=rediss://cache.internal tasuki worker --dir /srv/build",
    .flags = OP_WANTS_WORKSPACE | OP_DESTRUCTIVE,
    .params = PARAMS(REDIS_PARAM,
                     PARAM("places", OP_INT, OP_OPTIONAL, "N", "At most N tasks at a time.",
                           .fallback = "one per processor", .min = 1, .max = 10000, .letter = 'j'),
                     PARAM("name", OP_ID, OP_OPTIONAL, "NAME", "Its name; its tasks have it as TASUKI_WORKER.",
                           .fallback = "the host's name"),
                     PARAM("tags", OP_STRING, OP_OPTIONAL, "TAG,…",
                           "Its tags: a task with `on: [TAG]` runs only on a worker that has all of the task's tags.",
                           .max = 400),
                     PARAM("dir", OP_PATH, OP_ANYWHERE, "DIR", "The directory in which tasks run.",
                           .fallback = "the current directory", .max = 2000)),
    .result = FIELDS({"status", "string", "it does not return"}),
    .errors = ERRORS(TSK_INVALID_INPUT, TSK_REDIS_UNAVAILABLE, TSK_ENVIRONMENT),
    .http.absent = "a person decides which machine works",
    .mcp.absent = "a person decides which machine works",
    .run = run_worker,
};

/* ---- workers -------------------------------------------------------------------------------------------- */

static void worker_page_key(const json_t *worker, char text[PAGE_KEY_MAX])
{
    snprintf(text, PAGE_KEY_MAX, "%s %s", json_get_string(worker, "name", ""), json_get_string(worker, "id", ""));
}

static int run_list(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    static const char *const question[] = {"workers", NULL};
    struct elsewhere elsewhere;
    json_t *list CLEANUP_JSON = NULL;
    /* The page asks every workspace. A person who asks this one without a server reads how to name it. */
    if ((call->is_cli ? need_server : find_server)(call, &elsewhere, err) < 0)
        return -1;
    bool has_server = elsewhere.program[0];
    if (!has_server)
        list = json_array();
    int result = has_server ? elsewhere_ask(&elsewhere, question, &list, err) : 0;
    if (result == 0) {
        *ret = page_sorted(call, "workers", list, worker_page_key);
        json_object_set_new(*ret, "server", has_server ? json_string(elsewhere.shown) : json_null());
    }
    elsewhere_clear(&elsewhere);
    return result;
}

const struct op op_workers_list = {
    NAMES("workers.list", "workers", "list"),
    .summary = "List the workers: host, tags, places, tasks, version.",
    .examples = "tasuki workers list",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_WANTS_WORKSPACE,
    .params = PARAMS(REDIS_PARAM, PAGE_PARAMS),
    .result = FIELDS({"workers", "array", "id name host tags places tasks state version run commit key seen_ms"},
                     PAGE_FIELDS, {"server", "string?", "without user and password; null: none is configured"}),
    .errors = ERRORS(TSK_INVALID_INPUT, TSK_REDIS_UNAVAILABLE, TSK_ENVIRONMENT),
    .http = ROUTE("GET", "/api/workers"),
    .mcp =
        TOOL("worker_list", "workers",
             .text = "List the workers that execute tasks of runs on other machines: places, tasks, last sign of life. "
                     "An empty list with server null: no Redis is configured here."),
    .run = run_list,
};

/* The one worker with that id, or with that name. */
static int find_worker(const json_t *list, const char *wanted, const char **ret, struct tsk_error *err)
{
    size_t count = 0;
    json_each (list, i, worker) {
        const char *id = json_get_string(worker, "id", "");
        if (strcmp(id, wanted) != 0 && !json_text_is(worker, "name", wanted))
            continue;
        *ret = id;
        count++;
    }
    if (count == 1)
        return 0;
    error_set(err, count ? TSK_CONFLICT : TSK_NOT_FOUND, count ? "worker_many" : "worker_none", "name", wanted, NULL);
    return error_add_next(err, "tasuki workers list");
}

static int order_worker(struct op_call *call, const char *order, json_t **ret, struct tsk_error *err)
{
    static const char *const question[] = {"workers", NULL};
    struct elsewhere elsewhere;
    json_t *list CLEANUP_JSON = NULL, *answer CLEANUP_JSON = NULL;
    const char *id = NULL;
    if (need_server(call, &elsewhere, err) < 0)
        return -1;
    int result = elsewhere_ask(&elsewhere, question, &list, err);
    if (result == 0)
        result = find_worker(list, json_get_string(call->args, "worker", ""), &id, err);
    const char *const words[] = {order, id, NULL};
    if (result == 0)
        result = elsewhere_ask(&elsewhere, words, &answer, err);
    if (result == 0)
        *ret = json_pack("{s:s, s:s}", "worker", id, "order", order);
    elsewhere_clear(&elsewhere);
    return result;
}

static int run_drain(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    return order_worker(call, "drain", ret, err);
}

static int run_stop(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    return order_worker(call, "end", ret, err);
}

#define WORKER_PARAM                                                                                                   \
    PARAM("worker", OP_STRING, OP_REQUIRED | OP_POSITIONAL, "WORKER", "Its name, or its id.", .max = 200)
#define WORKER_RESULT FIELDS({"worker", "string", "its id"}, {"order", "string", "drain or end"})

const struct op op_workers_drain = {
    NAMES("workers.drain", "workers", "drain"),
    .summary = "Let a worker finish its tasks, take no more, and end.",
    .examples = "tasuki workers drain host-b",
    .flags = OP_IDEMPOTENT | OP_WANTS_WORKSPACE | OP_DESTRUCTIVE,
    .params = PARAMS(WORKER_PARAM, REDIS_PARAM),
    .result = WORKER_RESULT,
    .errors = ERRORS(TSK_NOT_FOUND, TSK_CONFLICT, TSK_INVALID_INPUT, TSK_REDIS_UNAVAILABLE, TSK_ENVIRONMENT),
    .http = ROUTE("POST", "/api/workers/:worker/drain"),
    .mcp =
        TOOL("worker_drain", "workers", .refusal = "NOT DRAINED",
             .text = "Let a worker end its tasks, take no more, and leave. No task is lost or repeated. Its program is "
                     "started again on its machine, not from here."),
    .run = run_drain,
};

const struct op op_workers_stop = {
    NAMES("workers.stop", "workers", "stop"),
    .summary = "End the tasks of a worker, return them to their runs, and end the worker.",
    .examples = "tasuki workers stop host-b",
    .flags = OP_IDEMPOTENT | OP_WANTS_WORKSPACE | OP_DESTRUCTIVE,
    .params = PARAMS(WORKER_PARAM, REDIS_PARAM),
    .result = WORKER_RESULT,
    .errors = ERRORS(TSK_NOT_FOUND, TSK_CONFLICT, TSK_INVALID_INPUT, TSK_REDIS_UNAVAILABLE, TSK_ENVIRONMENT),
    .http = ROUTE("POST", "/api/workers/:worker/stop"),
    .mcp = TOOL("worker_stop", "workers", .refusal = "NOT STOPPED",
                .text =
                    "End the tasks of a worker and let it leave; prefer worker_drain. Its tasks go back to their runs, "
                    "and other workers begin them anew."),
    .run = run_stop,
};
