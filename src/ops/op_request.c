/* op_request.c - request add, list, show, edit, rm: the files in .aiflow/requests/. */
#include "base/log.h"
#include "graph/run_names.h"
#include "ops/ops.h"
#include "ops/page.h"
#include "ops/place.h"
#include "ops/request_args.h"
#include "ops/short_id.h"
#include "run/start.h"

#include <stdlib.h>
#include <string.h>

#define REQUEST_RUNS_SHOWN 10

/* ---- arguments ------------------------------------------------------------------------------------------ */

static int depends_of(const json_t *given, json_t **ret, struct tsk_error *err)
{
    json_t *list = json_is_array(given) ? json_copy((json_t *)given) : json_pack("[O]", given);
    if (json_array_size(list) == 1 && json_string_length(json_array_get(list, 0)) == 0)
        json_array_clear(list);
    json_each (list, i, id)
        if (!id_is_valid(json_string_value(id))) {
            error_set(err, TSK_INVALID_INPUT, "id_pattern", "param", "depends_on", "value", json_string_value(id),
                      NULL);
            json_decref(list);
            return -1;
        }
    *ret = list;
    return 0;
}

static void put_given(const json_t *args, const char *key, json_t *values)
{
    json_t *value = json_object_get(args, key);
    bool is_empty = json_is_string(value) ? json_string_length(value) == 0 : json_array_size(value) == 0;
    if (value)
        json_object_set_new(values, key, is_empty ? json_null() : json_incref(value));
}

/* As in the file: a list of words, or a line for a shell. */
static bool has_command(const json_t *values)
{
    const json_t *run = json_object_get(values, "run");
    return json_is_array(run) || json_is_string(run);
}

int request_values(const struct op_call *call, json_t **ret, struct tsk_error *err)
{
    static const char *const keys[] = {"title", "status", "priority", "flow", "run", "body"};
    json_t *values CLEANUP_JSON = json_object(), *depends CLEANUP_JSON = NULL;
    const json_t *given = json_object_get(call->args, "depends_on");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        put_given(call->args, keys[i], values);
    if (given && depends_of(given, &depends, err) < 0)
        return -1;
    if (given)
        json_object_set(values, "depends_on", json_array_size(depends) ? depends : json_null());
    /* One takes the other's place. */
    if (json_is_string(json_object_get(values, "flow")) && !json_object_get(values, "run"))
        json_object_set_new(values, "run", json_null());
    else if (has_command(values) && !json_object_get(values, "flow"))
        json_object_set_new(values, "flow", json_null());
    *ret = json_incref(values);
    return 0;
}

int request_show(struct op_call *call, const char *id, json_t **ret, struct tsk_error *err)
{
    struct book book CLEANUP(book_clear) = {.entries = NULL};
    struct request request CLEANUP(request_clear) = {.json = NULL};
    if (request_read(call->ws, id, call->lang, &request, err) < 0 ||
        book_open(call->ws, false, call->lang, &book, err) < 0)
        return -1;
    const struct book_entry *entry = book_find(&book, request.id);
    if (!entry)
        return error_set(err, TSK_REQUEST_NOT_FOUND, "request_unknown", "request", id, NULL);
    *ret = book_json(entry);
    return 0;
}

/* A flow may be written after its request: no reason to refuse it. */
static void warn_of_flow(struct op_call *call, const struct request *request, json_t *result)
{
    struct tsk_error problem;
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    if (request_flow_find(call->ws, request, &problem) == 0)
        return;
    text_put_error(&text, call->lang, &problem);
    json_object_set_new(result, "warning", json_string(buf_str(&text)));
}

/* Shows the request that was just written. If the other requests or runs cannot be read, the write still counts as a
 * success. */
void request_show_written(struct op_call *call, const struct request *request, json_t **ret)
{
    struct tsk_error problem;
    place_put_aside(call);
    if (request_show(call, request->id, ret, &problem) == 0) {
        warn_of_flow(call, request, *ret);
        return;
    }
    log_problem(&problem);
    *ret = json_copy(request->json);
    json_object_set_new(*ret, "file_status", json_string(request_status_names[request->status]));
    json_object_set_new(*ret, "status", json_string(request_status_names[request->status]));
    json_object_set_new(*ret, "latest_run", json_null());
    json_object_set_new(*ret, "lock", json_null());
}

#define TITLE_TEXT    "What to do, in one line."
#define FLOW_TEXT     "The flow to run: a file below the workspace, or the name of one in .aiflow/flows/."
#define PRIORITY_TEXT "P0 is the most urgent."
#define DEPENDS_TEXT  "A request that must be done first; repeat for more."
#define BODY_TEXT     "Any further text; tasks have it in their channel as request.body."
#define RUN_TEXT      "The command to run, instead of a flow."
#define STATUS_TEXT   "ready: the queue may take it; draft: not yet; archived: not any more."

static const struct op_field request_fields[] = {
    {"id", "string", ""},
    {"title", "string?", ""},
    {"status", "string", "draft ready running blocked needs_input failed done archived broken"},
    {"file_status", "string", "what the file says: draft ready archived"},
    {"priority", "string", "P0 to P3"},
    {"depends_on", "array?", "ids"},
    {"flow", "string?", "what it runs"},
    {"run", "any", "or the command: words, or a line for a shell"},
    {"body", "string?", ""},
    {"path", "string", "its file"},
    {"updated_at", "string", "the file's time, for expected_updated_at"},
    {"latest_run", "object?", "run_id status started_at ended_at duration_ms questions"},
    {"lock", "object?", "its holder"},
    {"reason", "string?", "why the queue does not take it"},
    {"detail", "string?", "what blocks it"},
    {"problems", "array?", "line column reason: why it is broken"},
    {"warning", "string?", "after add and edit: its flow does not exist"},
    {0},
};

/* ---- add ------------------------------------------------------------------------------------------------ */

static int run_add(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    json_t *values CLEANUP_JSON = NULL;
    struct request request CLEANUP(request_clear) = {.json = NULL};
    const char *id = json_get_string(call->args, "id", NULL);
    if (request_values(call, &values, err) < 0)
        return -1;
    if (id)
        json_object_set_new(values, "id", json_string(id));
    if (!json_object_get(values, "status")) {
        bool has_work = json_is_string(json_object_get(values, "flow")) || has_command(values);
        json_object_set_new(values, "status", json_string(has_work ? "ready" : "draft"));
    }
    if (!json_object_get(values, "priority"))
        json_object_set_new(values, "priority", json_string(request_priorities[REQUEST_PRIORITY_DEFAULT]));
    if (request_add(call->ws, values, call->lang, &request, err) < 0)
        return -1;
    request_show_written(call, &request, ret);
    return 0;
}

const struct op op_request_add = {
    NAMES("request.add", "request", "add"),
    .summary = "Add a request: something to be done, written down as a file in .aiflow/requests/.",
    .detail = "The file belongs to you: edit it with any editor, keep it in git. tasuki does not write the request's "
              "progress into it.",
    .examples = "tasuki request add \"Build the docs\" -- make docs\n"
                "tasuki request add \"Release\" --flow release.yaml --priority P1 --depends RQ-20260207T223000-1a2b3",
    .params = PARAMS(
        PARAM("title", OP_STRING, OP_REQUIRED | OP_POSITIONAL, "TITLE", TITLE_TEXT),
        PARAM("flow", OP_PATH, OP_OPTIONAL, "F", FLOW_TEXT),
        PARAM("priority", OP_ENUM, OP_OPTIONAL, "P", PRIORITY_TEXT, .fallback = "P2", .choices = request_priorities),
        PARAM("depends_on", OP_STRING, OP_MANY, "RQ", DEPENDS_TEXT, .option = "depends", .completes = "request-id"),
        PARAM("status", OP_ENUM, OP_OPTIONAL, "S", STATUS_TEXT, .fallback = "ready; without a flow or command: draft",
              .choices = request_status_names),
        PARAM("body", OP_STRING, OP_OPTIONAL, "TEXT", BODY_TEXT, .max = REQUEST_BODY_MAX),
        PARAM("id", OP_ID, OP_OPTIONAL, "RQ", "RQ-… of your own.", .fallback = "RQ-<time>-<random>"),
        PARAM("run", OP_ARGV, OP_POSITIONAL | OP_SHELL, "CMD…", RUN_TEXT, .max = REQUEST_COMMAND_MAX)),
    .result = request_fields,
    .errors = ERRORS(TSK_INVALID_INPUT, TSK_CONFLICT, TSK_PAYLOAD_TOO_LARGE, TSK_STORAGE_FULL, TSK_ENVIRONMENT,
                     TSK_NOT_FOUND),
    .http = ROUTE("POST", "/api/requests"),
    .mcp = TOOL(
        "request_add", "requests", .refusal = "NOT ADDED",
        .text = "Add a request: something to be done, with a title and a flow or a command. It is a file in "
                ".aiflow/requests/ that people see and edit; adding it runs nothing. It stays until it is removed."),
    .run = run_add,
};

/* ---- list ----------------------------------------------------------------------------------------------- */

/* Whether the list is to have it. */
static bool is_wanted_request(const struct op_call *call, const struct book_entry *entry)
{
    const char *wanted = json_get_string(call->args, "status", NULL), *is = book_status(entry);
    if (wanted)
        return strcmp(wanted, is) == 0;
    return json_get_bool(call->args, "all", false) || strcmp(is, "archived") != 0;
}

/* A cursor may also be the id of a request that is there. */
static int requests_place(const struct book *book, struct page *page, struct buf *key, struct tsk_error *err)
{
    const struct book_entry *entry = page->after ? book_find(book, page->after) : NULL;
    if (!page->after || (page->after[0] <= '9' && page->after[1] == '.')) /* a place itself */
        return 0;
    if (!entry)
        return error_set(err, TSK_REQUEST_NOT_FOUND, "request_unknown", "request", page->after, NULL);
    book_put_place(entry, key);
    page->after = buf_str(key);
    return 0;
}

static int run_list(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct book book CLEANUP(book_clear) = {.entries = NULL};
    struct buf key CLEANUP(buf_clear) = BUF_INIT, after CLEANUP(buf_clear) = BUF_INIT;
    struct page page CLEANUP(page_clear) = page_begin(call, PAGE_ALL);
    if (book_open(call->ws, false, call->lang, &book, err) < 0 || requests_place(&book, &page, &after, err) < 0)
        return -1;
    for (size_t i = 0; i < book.count; i++) {
        const struct book_entry *entry = &book.entries[i];
        buf_reset(&key);
        book_put_place(entry, &key);
        if (!is_wanted_request(call, entry) || !page_takes(&page, buf_str(&key)))
            continue;
        json_t *json = book_json(entry);
        json_object_del(json, "body");
        page_put(&page, json);
    }
    *ret = page_end(&page, "requests");
    short_ids_put_named(call, *ret, NULL);
    place_put_aside(call);
    return 0;
}

static const char *const statuses[] = {"draft",  "ready", "running",  "blocked", "needs_input",
                                       "failed", "done",  "archived", "broken",  NULL};

const struct op op_request_list = {
    NAMES("request.list", "request", "list"),
    .summary = "List the requests in the order in which the queue takes them, each with its status.",
    .examples = "tasuki request list --status failed",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = PARAMS(PARAM("status", OP_ENUM, OP_OPTIONAL, "S", "Only those.", .choices = statuses),
                     FLAG("all", OP_OPTIONAL, "Archived ones, too."), PAGE_PARAMS),
    .result = FIELDS({"requests", "array", "in the queue's order; as request.show, without body"}, PAGE_FIELDS),
    .errors = ERRORS(TSK_REQUEST_NOT_FOUND, TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_NOT_FOUND),
    .http = ROUTE("GET", "/api/requests"),
    .mcp = TOOL("request_list", "requests", .is_core = true,
                .text = "List the requests in the queue's order, with their state and the reason why one is not taken. "
                        "Look here for work before you begin any. It changes nothing."),
    .run = run_list,
};

/* ---- show ----------------------------------------------------------------------------------------------- */

/* Its last runs, the newest first. A run that cannot be read may be another request's, and is left out: `latest_run` and
 * `problems` say so where it is this one's. */
static int runs_of(struct tsk_workspace *ws, const char *request_id, json_t **ret, struct tsk_error *err)
{
    struct run_names names CLEANUP(run_names_clear);
    json_t *runs CLEANUP_JSON = json_array();
    struct tsk_error unreadable;
    if (run_names_open(ws, RUNS_FOLDER, &names, err) < 0)
        return -1;
    for (const char *id; json_array_size(runs) < REQUEST_RUNS_SHOWN && (id = run_names_next(&names));) {
        struct rundir run;
        json_t *stage CLEANUP_JSON = NULL;
        if (rundir_open(ws, id, &run, &unreadable) < 0)
            continue;
        if (book_run_stage(&run, &stage, &unreadable) == 0 && json_text_is(stage, "request_id", request_id))
            json_array_append_new(runs, json_pack("{s:s, s:s, s:s?, s:s?}", "run_id", run.id, "status",
                                                  json_get_string(stage, "status", ""), "started_at",
                                                  json_get_string(stage, "started_at", NULL), "ended_at",
                                                  json_get_string(stage, "ended_at", NULL)));
        rundir_clear(&run);
    }
    *ret = json_incref(runs);
    return 0;
}

static int run_show(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    if (!json_get_string(call->args, "request", NULL))
        json_object_set_new(call->args, "request", json_string("@1"));
    if (request_named(call, err) < 0 || request_show(call, json_get_string(call->args, "request", ""), ret, err) < 0)
        return -1;
    json_t *runs = NULL;
    if (runs_of(call->ws, json_get_string(*ret, "id", ""), &runs, err) < 0) {
        json_free(ret);
        return -1;
    }
    json_object_set_new(*ret, "runs", runs);
    short_ids_put_named(call, *ret, NULL);
    place_put_aside(call);
    return 0;
}

const struct op op_request_show = {
    NAMES("request.show", "request", "show"),
    .summary = "Show a request: what its file says, its state and why, its last runs.",
    .examples = "tasuki request show  # the one that was added last\n"
                "tasuki request show RQ-20260207T223000-1a2b3",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = PARAMS(REQUEST_OR_NONE_PARAM),
    .result = request_fields,
    .errors = ERRORS(TSK_REQUEST_NOT_FOUND, TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_NOT_FOUND),
    .http = ROUTE("GET", "/api/requests/:request"),
    .mcp = TOOL("request_show", "requests",
                .text = "Show a request: what its file says, its state and why, its last runs. It changes nothing."),
    .run = run_show,
};

/* ---- edit ----------------------------------------------------------------------------------------------- */

static int run_edit(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    json_t *values CLEANUP_JSON = NULL;
    struct request request CLEANUP(request_clear) = {.json = NULL};
    if (request_named(call, err) < 0)
        return -1;
    const char *id = json_get_string(call->args, "request", ""),
               *expected = json_get_string(call->args, "expected_updated_at", NULL);
    if (request_values(call, &values, err) < 0)
        return -1;
    int result;
    if (json_object_size(values))
        result = request_edit(call->ws, id, values, expected, call->lang, &request, err);
    else if (call->is_cli && call->confirm)
        result = request_edit_in_editor(call, id, &request, err);
    else
        result = error_set(err, TSK_INVALID_INPUT, "request_edit_nothing", NULL);
    if (result < 0)
        return -1;
    request_show_written(call, &request, ret);
    return 0;
}

const struct op op_request_edit = {
    NAMES("request.edit", "request", "edit"),
    .summary = "Change the given keys in a request's file, and nothing else; without options, open it in your editor.",
    .detail = "Comments and the order of the keys stay. A value of several lines is replaced as a whole. Without "
              "options the file is opened in $VISUAL or $EDITOR, and accepted only when it is valid.",
    .examples = "tasuki request edit RQ-20260207T223000-1a2b3 --priority P0\n"
                "tasuki request edit RQ-20260207T223000-1a2b3 --depends ''  # depends on nothing any more",
    .flags = OP_KEEPS_REST | OP_IDEMPOTENT,
    .params = PARAMS(REQUEST_ID_PARAM, PARAM("title", OP_STRING, OP_OPTIONAL, "TITLE", TITLE_TEXT),
                     PARAM("flow", OP_PATH, OP_OPTIONAL, "F", FLOW_TEXT),
                     PARAM("priority", OP_ENUM, OP_OPTIONAL, "P", PRIORITY_TEXT, .choices = request_priorities),
                     PARAM("depends_on", OP_STRING, OP_MANY, "RQ", DEPENDS_TEXT " '' for none.", .option = "depends",
                           .completes = "request-id"),
                     PARAM("status", OP_ENUM, OP_OPTIONAL, "S", STATUS_TEXT, .choices = request_status_names),
                     PARAM("body", OP_STRING, OP_OPTIONAL, "TEXT", BODY_TEXT, .max = REQUEST_BODY_MAX),
                     PARAM("expected_updated_at", OP_STRING, OP_OPTIONAL, "T",
                           "Refuse (CONFLICT) if the file was changed after this time."),
                     PARAM("run", OP_ARGV, OP_POSITIONAL | OP_SHELL, "CMD…", RUN_TEXT, .max = REQUEST_COMMAND_MAX)),
    .result = request_fields,
    .errors = ERRORS(TSK_REQUEST_NOT_FOUND, TSK_INVALID_INPUT, TSK_CONFLICT, TSK_STORAGE_FULL, TSK_ENVIRONMENT,
                     TSK_NOT_FOUND),
    .http = ROUTE("PUT", "/api/requests/:request"),
    .mcp.absent = "agents edit the file, which is theirs as well",
    .run = run_edit,
};

/* ---- rm ------------------------------------------------------------------------------------------------- */

static int run_remove(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    char kept[PATH_MAX];
    json_t *shown CLEANUP_JSON = NULL;
    if (request_named(call, err) < 0 || request_show(call, json_get_string(call->args, "request", ""), &shown, err) < 0)
        return -1;
    const char *id = json_get_string(shown, "id", "");
    if (json_text_is(shown, "status", "running")) {
        const char *run = json_get_string(json_object_get(shown, "latest_run"), "run_id", "");
        error_set(err, TSK_RUN_IN_PROGRESS, NULL, "request_id", id, "run_id", run, NULL);
        error_add_next(err, "tasuki runs show %s", run);
        return error_add_next(err, "tasuki wait run %s", run);
    }
    if (request_remove(call->ws, id, kept, err) < 0)
        return -1;
    call->says = "request_removed";
    *ret = json_pack("{s:s, s:b, s:o}", "id", id, "removed", true, "kept", json_sprintf(".aiflow/%s", kept));
    return 0;
}

const struct op op_request_rm = {
    NAMES("request.rm", "request", "rm"),
    .summary = "Remove a request; its file is kept in .aiflow/removed/, its runs stay.",
    .examples = "tasuki request rm RQ-20260207T223000-1a2b3",
    .flags = OP_DESTRUCTIVE,
    .params = PARAMS(REQUEST_ID_PARAM),
    .result = FIELDS({"id", "string", ""}, {"removed", "boolean", ""}, {"kept", "string", "where the file is now"}),
    .errors = ERRORS(TSK_REQUEST_NOT_FOUND, TSK_RUN_IN_PROGRESS, TSK_INVALID_INPUT, TSK_CONFLICT, TSK_ENVIRONMENT,
                     TSK_NOT_FOUND),
    .http = ROUTE("DELETE", "/api/requests/:request"),
    .mcp.absent = "an agent that is done with a request archives it, or removes the file",
    .run = run_remove,
};
