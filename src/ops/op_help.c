/* op_help.c - the rows of help and completion. What they print is made from the table by the CLI skin
 * (src/cli), which takes them before they would run. */
#include "ops/ops.h"

static int run_in_cli(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    (void)call;
    (void)ret;
    return error_set(err, TSK_INVALID_INPUT, "only_in_cli", NULL);
}

static const char *const formats[] = {"text", "man", NULL};
static const struct op_param help_params[] = {
    {.name = "noun",
     .type = OP_STRING,
     .flags = OP_POSITIONAL,
     .value = "NOUN",
     .help = "What to explain.",
     .completes = "noun"},
    {.name = "verb", .type = OP_STRING, .flags = OP_POSITIONAL, .value = "VERB", .help = "Which of its verbs."},
    {.name = "format",
     .type = OP_ENUM,
     .value = "F",
     .help = "text, or man: the source of the manual page.",
     .choices = formats,
     .fallback = "text"},
    {0},
};
static const struct op_field no_result[] = {{0}};
static const enum tsk_code errors[] = {TSK_INVALID_INPUT, TSK_OK};

const struct op op_help = {
    .name = "help",
    .verb = "help",
    .summary = "Explain the commands.",
    .examples = "tasuki help lock  # all about locks\ntasuki help lock --format man | man -l -  # as a manual page",
    .flags = OP_READ_ONLY | OP_NO_WORKSPACE,
    .params = help_params,
    .result = no_result,
    .errors = errors,
    .http.absent = "OpenAPI says it there",
    .mcp.absent = "the tool descriptions say it there",
    .run = run_in_cli,
};

static const char *const shells[] = {"bash", "zsh", "fish", NULL};
static const struct op_param completion_params[] = {
    {.name = "shell",
     .type = OP_ENUM,
     .flags = OP_REQUIRED | OP_POSITIONAL,
     .value = "SHELL",
     .help = "bash, zsh or fish.",
     .choices = shells},
    {0},
};

const struct op op_completion = {
    .name = "completion",
    .verb = "completion",
    .summary = "Print the completion script for a shell.",
    .examples = "eval \"$(tasuki completion bash)\"  # for this shell\n"
                "tasuki completion fish > ~/.config/fish/completions/tasuki.fish  # for good",
    .flags = OP_READ_ONLY | OP_NO_WORKSPACE,
    .params = completion_params,
    .result = no_result,
    .errors = errors,
    .http.absent = "belongs to a shell",
    .mcp.absent = "belongs to a shell",
    .run = run_in_cli,
};
