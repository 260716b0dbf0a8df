/* prompts.c - ways of working that a person can choose in the client, and completion of their arguments. */
#include "lock/kind.h"
#include "mcp/internal.h"

#include <string.h>

#define COMPLETIONS_MAX 100

struct prompt {
    const char *name, *description;
    const char *argument, *argument_help; /* at most one; NULL: none */
    bool is_required;
    const char *tool;     /* without which it leads nowhere */
    const char *resource; /* what is shown with it */
    const char *text;     /* {} is the argument */
};

static const struct prompt prompts[] = {
    {"start_work", "Begin a piece of work without disturbing others", "task", "What is to be done.", false,
     "lock_acquire", "tasuki://status",
     "You are about to work in a workspace that other agents and people share. The task: {}\n"
     "1. Read the status above: who holds which lock, what runs. 2. Take a lock (lock_acquire, kind name) for every "
     "part that "
     "you will change; if it is NOT ACQUIRED, say who has it and wait or choose another part. 3. Do not start what "
     "runs "
     "already: list_processes. Start servers and long commands with create_process and start_process. 4. When done, "
     "release "
     "your locks and say what you left running."},
    {"hand_over", "End your work so that somebody else can continue", "to", "The agent or person that continues.",
     false, "lock_release", "tasuki://status",
     "Hand your work over to: {}\n"
     "1. From the status above, list the locks that are yours and the processes that you started. 2. Stop the "
     "processes that "
     "nobody needs (stop_process); leave the others and say how to use them. 3. Release every lock that is yours "
     "(lock_release). 4. Write a short summary: what is done, what is open, what runs, where its output is."},
    {"resolve_conflict", "Find out who holds it, and what to do about it", "lock", "The lock, as kind/id or its name.",
     false, "lock_acquire", "tasuki://locks",
     "Something is held by somebody else: {}\n"
     "1. From the locks above, say who holds it, since when, and whether that process lives. 2. If the holder is dead, "
     "acquire "
     "it again: it is taken over by itself (a sprint lock needs confirm: true). 3. If the holder lives, wait with "
     "lock_acquire "
     "and wait: \"45s\", a few times; meanwhile do something that does not need it. 4. Only a person may take it away: "
     "explain "
     "what would be lost, then call lock_acquire with force: true and let the person confirm."},
    {"debug_failed_process", "Find out why a process failed", "id", "The process.", true, "get_process_output",
     "tasuki://process/{}",
     "The process {} does not do what it should.\n"
     "1. From its record above: state, exit code, restarts, its command and directory. 2. Read its output: "
     "get_process_output "
     "with stream both, and run -1 for the newest start. 3. Name the cause with the line that shows it. 4. Correct it "
     "(update_process, or the program itself), start it, and wait until it is ready or has ended: wait_for."},
};
#define PROMPT_COUNT (sizeof prompts / sizeof prompts[0])

static json_t *prompt_definition(const struct prompt *prompt)
{
    return json_pack("{s:s, s:s, s:[{s:s, s:s, s:b}]}", "name", prompt->name, "description", prompt->description,
                     "arguments", "name", prompt->argument, "description", prompt->argument_help, "required",
                     prompt->is_required);
}

json_t *mcp_prompts_list(struct mcp_request *request, struct mcp_fault *fault)
{
    json_t *list CLEANUP_JSON = json_array();
    for (size_t i = 0; i < PROMPT_COUNT; i++)
        if (mcp_tool_find(request->link->server, prompts[i].tool))
            json_array_append_new(list, prompt_definition(&prompts[i]));
    if (mcp_extra)
        mcp_extra->add_prompts(list);
    return mcp_page(request, "prompts", list, fault);
}

static const struct prompt *prompt_find(const char *name)
{
    for (size_t i = 0; i < PROMPT_COUNT; i++)
        if (strcmp(prompts[i].name, name) == 0)
            return &prompts[i];
    return NULL;
}

static void put_filled(struct buf *b, const char *text, const char *value)
{
    const char *gap = strstr(text, "{}");
    if (!gap) {
        buf_puts(b, text);
        return;
    }
    buf_put(b, text, (size_t)(gap - text));
    buf_puts(b, value);
    buf_puts(b, gap + 2);
}

/* What the prompt speaks of, as it is now; left out when it cannot be read. */
static void add_resource(struct mcp_request *request, const char *uri, json_t *messages)
{
    json_t *params CLEANUP_JSON = json_pack("{s:s}", "uri", uri);
    struct mcp_request read = {.link = request->link, .params = params, .is_modern = request->is_modern};
    struct mcp_fault fault = {0};
    json_t *result CLEANUP_JSON = mcp_resources_read(&read, &fault);
    json_decref(fault.data);
    json_t *content = json_array_get(json_object_get(result, "contents"), 0);
    if (content)
        json_array_append_new(messages, json_pack("{s:s, s:{s:s, s:O}}", "role", "user", "content", "type", "resource",
                                                  "resource", content));
}

json_t *mcp_prompts_get(struct mcp_request *request, struct mcp_fault *fault)
{
    const char *name = json_get_string(request->params, "name", "");
    const json_t *arguments = json_object_get(request->params, "arguments");
    if (mcp_extra && mcp_extra->has_prompt(name))
        return mcp_extra->get_prompt(request, name, fault);
    const struct prompt *prompt = prompt_find(name);
    if (!prompt || !mcp_tool_find(request->link->server, prompt->tool))
        return mcp_fault(fault, MCP_INVALID_PARAMS, "Unknown prompt: %.100s", name);
    const char *value = json_get_string(arguments, prompt->argument, NULL);
    if (!value && prompt->is_required)
        return mcp_fault(fault, MCP_INVALID_PARAMS, "The prompt %s needs the argument %s", name, prompt->argument);
    struct buf uri CLEANUP(buf_clear) = BUF_INIT, text CLEANUP(buf_clear) = BUF_INIT;
    put_filled(&uri, prompt->resource, value ? value : "");
    put_filled(&text, prompt->text, value ? value : "(not said; ask)");
    json_t *messages = json_array();
    add_resource(request, buf_str(&uri), messages);
    json_array_append_new(
        messages, json_pack("{s:s, s:{s:s, s:s}}", "role", "user", "content", "type", "text", "text", buf_str(&text)));
    return json_pack("{s:s, s:o}", "description", prompt->description, "messages", messages);
}

/* ---- completion ---- */

static void add_matching(json_t *values, const char *value, const char *prefix)
{
    if (value && strncmp(value, prefix, strlen(prefix)) == 0)
        json_array_append_new(values, json_string(value));
}

/* The ids that an operation lists. */
static void add_listed(struct mcp_server *server, const char *op, const char *list, const char *key, const char *prefix,
                       json_t *values)
{
    struct tsk_error ignored = {0};
    json_t *answer CLEANUP_JSON = mcp_run_op(server, op, json_object(), &ignored);
    json_each (json_object_get(answer, list), i, item)
        add_matching(values, json_get_string(item, key, NULL), prefix);
}

static void add_choices(const char *const *choices, const char *prefix, json_t *values)
{
    for (; *choices; choices++)
        add_matching(values, *choices, prefix);
}

/* What the ids of a template or prompt are those of. */
struct ids {
    const char *of, *argument; /* a prompt's name, or a template's beginning */
    const char *op, *list, *key;
};

static const struct ids ids[] = {
    {"tasuki://process/", "id", "process.list", "processes", "id"},
    {"debug_failed_process", "id", "process.list", "processes", "id"},
    {"tasuki://run/", "id", "runs.list", "runs", "run_id"},
    {"tasuki://lock/", "id", "lock.list", "locks", "id"},
    {"resolve_conflict", "lock", "lock.list", "locks", "id"},
};

/* Whether there is such a prompt or template. */
static bool is_known(const json_t *ref, const char *of)
{
    if (json_object_get(ref, "uri"))
        return mcp_resource_is_template(of);
    return prompt_find(of) || (mcp_extra && mcp_extra->has_prompt(of));
}

json_t *mcp_complete(struct mcp_request *request, struct mcp_fault *fault)
{
    static const char *const streams[] = {"stdout", "stderr", "both", NULL};
    const json_t *ref = json_object_get(request->params, "ref"),
                 *argument = json_object_get(request->params, "argument");
    const char *of = json_get_string(ref, "uri", json_get_string(ref, "name", NULL));
    const char *name = json_get_string(argument, "name", NULL), *prefix = json_get_string(argument, "value", NULL);
    if (!of || !name || !prefix)
        return mcp_fault(fault, MCP_INVALID_PARAMS, "completion/complete needs a ref and an argument");
    if (!is_known(ref, of))
        return mcp_fault(fault, MCP_INVALID_PARAMS, "There is no prompt or template %.100s", of);
    json_t *values = json_array();
    if (strcmp(name, "kind") == 0)
        add_choices(lock_kind_names, prefix, values);
    else if (strcmp(name, "stream") == 0)
        add_choices(streams, prefix, values);
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        if (strncmp(of, ids[i].of, strlen(ids[i].of)) == 0 && strcmp(name, ids[i].argument) == 0)
            add_listed(request->link->server, ids[i].op, ids[i].list, ids[i].key, prefix, values);
    size_t total = json_array_size(values);
    while (json_array_size(values) > COMPLETIONS_MAX)
        json_array_remove(values, json_array_size(values) - 1);
    return json_pack("{s:{s:o, s:I, s:b}}", "completion", "values", values, "total", (json_int_t)total, "hasMore",
                     total > COMPLETIONS_MAX);
}
