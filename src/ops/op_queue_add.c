/* op_queue_add.c - queue add: a command for the queue, in one step; request again: once more. */
#include "base/utf8.h"
#include "base/word.h"
#include "ops/ops.h"
#include "ops/proc_args.h"
#include "ops/request_args.h"
#include "run/book.h"
#include "run/queue.h"

#include <stdlib.h>
#include <string.h>

#define JOB_TITLE_MAX 100 /* bytes of a title that is made from a command */

/* ---- queue add ------------------------------------------------------------------------------------------ */

static void put_command(struct buf *b, const json_t *words)
{
    struct buf quoted CLEANUP(buf_clear) = BUF_INIT;
    json_each (words, i, word)
        buf_printf(b, "%s%s", i ? " " : "", shell_word(&quoted, json_string_value(word)));
}

/* The command in one line, as far as it fits. */
static json_t *job_title(const json_t *words)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT, quoted CLEANUP(buf_clear) = BUF_INIT;
    char title[JOB_TITLE_MAX];
    json_each (words, i, word) {
        char *one = strdup(json_string_value(word));
        BUG(!one);
        for (char *c = one; *c; c++)
            *c = (unsigned char)*c < ' ' ? ' ' : *c;
        buf_printf(&line, "%s%s", i ? " " : "", shell_word(&quoted, one));
        free(one);
    }
    if (line.len < sizeof title)
        return json_string(buf_str(&line));
    utf8_copy(title, sizeof title, buf_str(&line));
    return json_sprintf("%s…", title);
}

/* A request runs in the workspace's root, but this command was meant for the directory of its caller. */
static json_t *job_command(const struct op_call *call, json_t *words)
{
    char here[PATH_MAX];
    const char *root = call->ws->root, *directory = proc_args_directory(call, here);
    size_t len = strlen(root);
    if (strcmp(directory, root) == 0)
        return json_incref(words);
    struct buf line CLEANUP(buf_clear) = BUF_INIT, quoted CLEANUP(buf_clear) = BUF_INIT;
    bool is_below = strncmp(directory, root, len) == 0 && directory[len] == '/';
    buf_printf(&line, "cd %s && ", shell_word(&quoted, is_below ? directory + len + 1 : directory));
    put_command(&line, words);
    return json_string(buf_str(&line));
}

static int run_add(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    json_t *values CLEANUP_JSON = NULL, *words = json_object_get(call->args, "run");
    struct request request CLEANUP(request_clear) = {.json = NULL};
    const char *program = json_string_value(json_array_get(words, 0));
    if (!program || !*program)
        return op_param_missing(call->op, "-- CMD…", err);
    if (request_values(call, &values, err) < 0)
        return -1;
    if (!json_is_string(json_object_get(values, "title")))
        json_object_set_new(values, "title", job_title(words));
    json_object_set_new(values, "run", job_command(call, words));
    json_object_set_new(values, "status", json_string(request_status_names[REQUEST_READY]));
    if (!json_object_get(values, "priority"))
        json_object_set_new(values, "priority", json_string(request_priorities[REQUEST_PRIORITY_DEFAULT]));
    if (request_add(call->ws, values, call->lang, &request, err) < 0)
        return -1;
    request_show_written(call, &request, ret);
    json_object_set_new(*ret, "queue_runs", json_boolean(queue_is_running(call->ws)));
    return 0;
}

const struct op op_queue_add = {
    NAMES("queue.add", "queue", "add"),
    .summary = "Give the queue a command: a request with the command as its title.",
    .detail = "The same as request add. The command runs in this directory when a queue takes it: queue run, or queue "
              "run --stay, which waits for more.",
    .examples = "tasuki queue add -- make docs\n"
                "tasuki queue add --title \"Nightly\" --priority P1 -- ./nightly.sh",
    .params = PARAMS(
        PARAM("title", OP_STRING, OP_OPTIONAL, "T", "What is to be done, in one line.", .fallback = "the command"),
        PARAM("priority", OP_ENUM, OP_OPTIONAL, "P", "P0 is the most urgent.", .fallback = "P2",
              .choices = request_priorities),
        PARAM("depends_on", OP_STRING, OP_MANY, "RQ", "A request that must be done before; repeat for more.",
              .option = "depends", .completes = "request-id"),
        PARAM("run", OP_ARGV, OP_REQUIRED | OP_POSITIONAL, "CMD…", "The command.", .max = REQUEST_COMMAND_MAX)),
    .result = FIELDS({"id", "string", ""}, {"title", "string", ""}, {"status", "string", "ready or blocked"},
                     {"queue_runs", "boolean", "whether a queue is running that will take it"}),
    .errors = ERRORS(TSK_INVALID_INPUT, TSK_CONFLICT, TSK_PAYLOAD_TOO_LARGE, TSK_STORAGE_FULL, TSK_ENVIRONMENT,
                     TSK_NOT_FOUND),
    .http.absent = "POST /api/requests does it",
    .mcp.absent = "request_add does it",
    .run = run_add,
};

/* ---- request again --------------------------------------------------------------------------------------- */

static int run_again(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    bool is_changed;
    if (request_named_or_only(call, false, err) < 0)
        return -1;
    const char *id = json_get_string(call->args, "request", "");
    if (book_put_back(call->ws, id, call->lang, &is_changed, err) < 0)
        return -1;
    if (request_show(call, id, ret, err) < 0)
        return -1;
    json_object_set_new(*ret, "changed", json_boolean(is_changed));
    call->says = is_changed ? "request_put_back" : "request_ready_already";
    return 0;
}

const struct op op_request_again = {
    NAMES("request.again", "request", "again"),
    .summary = "Put a request that is done or has failed back into the queue.",
    .detail = "Its file and its runs stay as they are. A request that depends on it waits until it is done again. "
              "Without RQ, the only request that is done or has failed is taken.",
    .examples = "tasuki request again RQ-20260207T223000-1a2b3",
    .flags = OP_IDEMPOTENT,
    .params = PARAMS(REQUEST_OR_NONE_PARAM),
    .result = FIELDS({"id", "string", ""}, {"status", "string", "as in request.show"},
                     {"changed", "boolean", "false: it was ready already"}),
    .errors = ERRORS(TSK_REQUEST_NOT_FOUND, TSK_RUN_IN_PROGRESS, TSK_NEEDS_INPUT, TSK_CONFLICT, TSK_INVALID_INPUT,
                     TSK_STORAGE_FULL, TSK_ENVIRONMENT, TSK_UNSUPPORTED_FS, TSK_LOCK_LOST, TSK_NOT_FOUND),
    .http = ROUTE("POST", "/api/requests/:request/again"),
    .mcp = TOOL("request_again", "requests", .refusal = "NOT PUT BACK",
                .text = "Put a request that is done or has failed back into the queue. Its runs stay. Refused while it "
                        "runs or asks."),
    .run = run_again,
};
