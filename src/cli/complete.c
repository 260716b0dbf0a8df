/* complete.c - shell completion. The scripts only hand the words of the line to `tasuki __complete`, which
 * knows the table and the workspace; so all three shells complete the same, ids included. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

static const char *const scripts[][2] = {
    {"bash", "_tasuki() {\n"
             "    local IFS=$'\\n'\n"
             "    COMPREPLY=($(tasuki __complete \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null))\n"
             "}\n"
             "complete -o default -F _tasuki tasuki\n"},
    {"zsh", "#compdef tasuki\n"
            "_tasuki() {\n"
            "    local -a candidates\n"
            "    candidates=(\"${(@f)$(tasuki __complete \"${(@)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
            "    compadd -a candidates\n"
            "}\n"
            "if [ \"$funcstack[1]\" = \"_tasuki\" ]; then _tasuki \"$@\"; else compdef _tasuki tasuki; fi\n"},
    {"fish", "function __tasuki_complete\n"
             "    set -l words (commandline -opc) (commandline -ct)\n"
             "    tasuki __complete $words[2..-1] 2>/dev/null\n"
             "end\n"
             "complete -c tasuki -f -a '(__tasuki_complete)'\n"},
};

const char *cli_completion(const char *shell)
{
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
        if (strcmp(scripts[i][0], shell) == 0)
            return scripts[i][1];
    return NULL;
}

static void offer(const char *candidate, const char *start)
{
    if (strncmp(candidate, start, strlen(start)) == 0)
        printf("%s\n", candidate);
}

/* Ids of the locks there are; for `lock acquire KIND` only those of that kind. */
static void offer_lock_ids(char **words, int count, const char *start)
{
    struct tsk_error err = {0};
    json_t *result CLEANUP_JSON = NULL;
    json_t *args CLEANUP_JSON = json_object();
    const char *kind = count > 2 && strcmp(words[1], "run") != 0 ? words[2] : "name";
    struct op_call call = {.op = op_by_name("lock.list"), .args = args};
    if (op_run(&call, &result, &err) < 0)
        return;
    size_t i;
    json_t *lock;
    json_array_foreach (json_object_get(result, "locks"), i, lock) {
        const char *id = json_get_string(lock, "id", NULL);
        if (id && strcmp(json_get_string(lock, "kind", ""), kind) == 0)
            offer(id, start);
    }
}

static void offer_commands(const char *noun, const char *start)
{
    size_t count;
    const char *nouns[64];
    const struct op *const *rows = op_table(&count);
    for (size_t i = 0; i < count; i++) {
        bool fits = noun ? rows[i]->noun && strcmp(rows[i]->noun, noun) == 0 : !rows[i]->noun;
        if (fits)
            offer(rows[i]->verb, start);
    }
    size_t found = noun ? 0 : cli_nouns(nouns, 64);
    for (size_t i = 0; i < found; i++)
        offer(nouns[i], start);
}

static void offer_value(const struct op_param *param, char **words, int count, const char *start)
{
    for (const char *const *choice = param->choices; choice && *choice; choice++)
        offer(*choice, start);
    if (param->completes && strcmp(param->completes, "lock-id") == 0)
        offer_lock_ids(words, count, start);
    if (param->completes && strcmp(param->completes, "noun") == 0) {
        const char *nouns[64];
        size_t found = cli_nouns(nouns, 64);
        for (size_t i = 0; i < found; i++)
            offer(nouns[i], start);
    }
}

static void offer_options(const struct op *op, const char *start)
{
    static const char *const globals[] = {"--json", "--root", "--lang", "--quiet", "--verbose", "--no-color", "--help"};
    char name[64], option[80];
    for (const struct op_param *param = op->params; param->name; param++)
        if (!(param->flags & OP_POSITIONAL)) {
            cli_option_name(param->name, name);
            snprintf(option, sizeof option, "--%s", name);
            offer(option, start);
        }
    for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++)
        offer(globals[i], start);
}

/* The n-th positional parameter of a row, or NULL. */
static const struct op_param *positional(const struct op *op, int n)
{
    for (const struct op_param *param = op->params; param->name; param++)
        if ((param->flags & OP_POSITIONAL) && n-- == 0)
            return param;
    return NULL;
}

static const struct op_param *option_param(const struct op *op, const char *word)
{
    char name[64];
    for (const struct op_param *param = op->params; param->name; param++) {
        cli_option_name(param->name, name);
        if (!(param->flags & OP_POSITIONAL) && strncmp(word, "--", 2) == 0 && strcmp(word + 2, name) == 0)
            return param;
    }
    return NULL;
}

int cli_complete(char **words, int count)
{
    const char *start = count ? words[count - 1] : "";
    const char *noun = count > 1 && cli_noun_exists(words[0]) ? words[0] : NULL;
    int used = noun ? 2 : 1;
    if (count <= used) {
        offer_commands(noun, start);
        return 0;
    }
    const struct op *op = noun ? op_find(noun, words[1]) : op_find(NULL, words[0]);
    if (!op)
        return 0;
    const struct op_param *before = option_param(op, words[count - 2]);
    if (before && before->type != OP_BOOL) {
        offer_value(before, words, count, start);
        return 0;
    }
    if (start[0] == '-') {
        offer_options(op, start);
        return 0;
    }
    int given = 0;
    for (int i = used; i < count - 1; i++) {
        const struct op_param *option = option_param(op, words[i]);
        if (option && option->type != OP_BOOL)
            i++;
        else if (words[i][0] != '-')
            given++;
    }
    const struct op_param *param = positional(op, given);
    if (param)
        offer_value(param, words, count, start);
    return 0;
}
