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

const struct op op_help = {
    NAMES("help", NULL, "help"),
    .summary = "Explain the commands.",
    .examples = "tasuki help lock  # all about locks\n"
                "tasuki help --all  # every command\n"
                "tasuki help lock --format man | man -l -  # as a manual page",
    .flags = OP_READ_ONLY | OP_NO_WORKSPACE,
    .params = PARAMS(PARAM("noun", OP_STRING, OP_POSITIONAL, "NOUN", "The command to explain.", .completes = "noun"),
                     PARAM("verb", OP_STRING, OP_POSITIONAL, "VERB", "One of its verbs."),
                     FLAG("all", OP_OPTIONAL, "All commands; for one command, also its errors and the global options."),
                     PARAM("format", OP_ENUM, OP_OPTIONAL, "F", "text, or man: the source of the manual page.",
                           .fallback = "text", .choices = formats)),
    .result = FIELDS(),
    .errors = ERRORS(TSK_INVALID_INPUT),
    .http.absent = "OpenAPI says it there",
    .mcp.absent = "the tool descriptions say it there",
    .run = run_in_cli,
};

static const char *const shells[] = {"bash", "zsh", "fish", NULL};

const struct op op_completion = {
    NAMES("completion", NULL, "completion"),
    .summary = "Print the completion script for a shell.",
    .examples = "eval \"$(tasuki completion bash)\"  # for this shell\n"
                "tasuki completion fish > ~/.config/fish/completions/tasuki.fish  # for good",
    .flags = OP_READ_ONLY | OP_NO_WORKSPACE,
    .params =
        PARAMS(PARAM("shell", OP_ENUM, OP_REQUIRED | OP_POSITIONAL, "SHELL", "bash, zsh or fish.", .choices = shells)),
    .result = FIELDS(),
    .errors = ERRORS(TSK_INVALID_INPUT),
    .http.absent = "belongs to a shell",
    .mcp.absent = "belongs to a shell",
    .run = run_in_cli,
};
