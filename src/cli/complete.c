/* complete.c - shell completion. The scripts only hand the words of the line to `tasuki __complete`, which
 * knows the table and the workspace; so all three shells complete the same, ids included. Where it offers
 * nothing (paths, and all that follows `--`), the shell completes files, or what it knows about the command. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

static const char *const scripts[][2] = {
    {"bash", "_tasuki() {\n"
             "    mapfile -t COMPREPLY < <(tasuki __complete \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
             "}\n"
             "complete -o default -F _tasuki tasuki\n"},
    {"zsh", "#compdef tasuki\n"
            "_tasuki() {\n"
            "    local -a candidates\n"
            "    local -i dashes=${words[(i)--]}\n"
            "    if (( dashes < CURRENT )); then\n"
            "        shift $dashes words\n"
            "        (( CURRENT -= dashes ))\n"
            "        _normal\n"
            "        return\n"
            "    fi\n"
            "    candidates=(${(f)\"$(tasuki __complete \"${(@)words[2,CURRENT]}\" 2>/dev/null)\"})\n"
            "    if (( $#candidates )); then compadd -a candidates; else _files; fi\n"
            "}\n"
            "if [ \"$funcstack[1]\" = \"_tasuki\" ]; then _tasuki \"$@\"; else compdef _tasuki tasuki; fi\n"},
    {"fish", "function __tasuki_has_candidates\n"
             "    set -l words (commandline -opc) (commandline -ct)\n"
             "    set -g __tasuki_candidates (tasuki __complete $words[2..-1] 2>/dev/null)\n"
             "    test (count $__tasuki_candidates) -gt 0\n"
             "end\n"
             "complete -c tasuki -n __tasuki_has_candidates -f -a '$__tasuki_candidates'\n"},
};

const char *cli_completion(const char *shell)
{
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
        if (strcmp(scripts[i][0], shell) == 0)
            return scripts[i][1];
    return NULL;
}

/* A command line, read up to the word that is being completed. */
struct line {
    const char *start;  /* that word, as far as it goes */
    const char *before; /* `--lang=` of `--lang=j`: goes before each candidate */
    size_t before_len;
    const char *root, *noun;
    const char *half; /* the first word of a verb of two */
    const struct op *op;
    const char *given[8]; /* its positional words */
    int given_count;
    const struct cli_global *global; /* the option whose value comes next; or: */
    const struct op_param *option;
    bool is_over; /* after `--`, or a command that there is not */
};

static void offer(const struct line *line, const char *candidate)
{
    if (strncmp(candidate, line->start, strlen(line->start)) == 0)
        printf("%.*s%s\n", (int)line->before_len, line->before ? line->before : "", candidate);
}

/* A root that begins with ~: the shells hand it over as it was typed. */
static const char *expand_home(const char *root, char *path, size_t size)
{
    const char *home = getenv("HOME");
    if (!root || root[0] != '~' || (root[1] && root[1] != '/') || !home)
        return root;
    snprintf(path, size, "%s%s", home, root + 1);
    return path;
}

/* What a list operation names: `key` of each of its `list`, or each of them if they are texts. */
static void offer_listed(const struct line *line, const char *op, const char *list, const char *key)
{
    struct tsk_error err = {0};
    char path[4096];
    json_t *result CLEANUP_JSON = NULL, *args CLEANUP_JSON = json_object(), *one;
    struct op_call call = {.op = op_by_name(op), .args = args, .root = expand_home(line->root, path, sizeof path)};
    size_t i;
    if (op_run(&call, &result, &err) < 0)
        return;
    json_array_foreach (json_object_get(result, list), i, one)
        offer(line, json_is_string(one) ? json_string_value(one) : json_get_string(one, key, ""));
}

/* Ids of the locks there are; for `lock acquire KIND` only those of that kind. */
static void offer_lock_ids(const struct line *line)
{
    struct tsk_error err = {0};
    char path[4096];
    json_t *result CLEANUP_JSON = NULL;
    json_t *args CLEANUP_JSON = json_object();
    const char *kind = op_param_find(line->op, "kind") && line->given_count ? line->given[0] : "name";
    if (strcmp(kind, "lock") == 0) /* tasuki wait lock */
        kind = "name";
    struct op_call call = {
        .op = op_by_name("lock.list"), .args = args, .root = expand_home(line->root, path, sizeof path)};
    if (op_run(&call, &result, &err) < 0)
        return;
    size_t i;
    json_t *lock;
    json_array_foreach (json_object_get(result, "locks"), i, lock) {
        const char *id = json_get_string(lock, "id", NULL);
        if (id && strcmp(json_get_string(lock, "kind", ""), kind) == 0)
            offer(line, id);
    }
}

/* A verb of two words is offered word by word; the first one once. */
static void offer_verb(const struct line *line, const char *verb, const char *previous)
{
    char first[64];
    size_t len = strcspn(verb, " ");
    if (line->half) {
        if (verb[len] && strncmp(verb, line->half, len) == 0 && !line->half[len])
            offer(line, verb + len + 1);
        return;
    }
    if (verb[len] && strncmp(previous, verb, len + 1) == 0)
        return;
    snprintf(first, sizeof first, "%.*s", (int)len, verb);
    offer(line, first);
}

static void offer_verbs(const struct line *line, const char *noun)
{
    size_t count;
    const struct op *const *rows = op_table(&count);
    for (size_t i = 0; i < count; i++) {
        bool fits = noun ? rows[i]->noun && strcmp(rows[i]->noun, noun) == 0 : !rows[i]->noun;
        if (fits)
            offer_verb(line, rows[i]->verb, i ? rows[i - 1]->verb : "");
    }
}

/* What a command line can begin with. */
static void offer_commands(const struct line *line)
{
    const char *nouns[64];
    size_t count = cli_nouns(nouns, 64);
    offer_verbs(line, NULL);
    for (size_t i = 0; i < count; i++)
        offer(line, nouns[i]);
}

/* `tasuki wait KIND ID` */
static const char *awaited(const struct line *line)
{
    const char *kind = line->given_count ? line->given[0] : "";
    return strcmp(kind, "run") == 0        ? "run-id"
           : strcmp(kind, "lock") == 0     ? "lock-id"
           : strcmp(kind, "workflow") == 0 ? "workflow-id"
                                           : "process-id";
}

static void offer_value(const struct line *line, const struct op_param *param)
{
    const char *what = param->completes ? param->completes : param->name;
    if (strcmp(what, "awaited-id") == 0)
        what = awaited(line);
    for (const char *const *choice = param->choices; choice && *choice; choice++)
        offer(line, *choice);
    if (strcmp(what, "lock-id") == 0)
        offer_lock_ids(line);
    else if (strcmp(what, "process-id") == 0)
        offer_listed(line, "process.list", "processes", "id");
    else if (strcmp(what, "template") == 0)
        offer_listed(line, "template.list", "templates", "name");
    else if (strcmp(what, "request-id") == 0)
        offer_listed(line, "request.list", "requests", "id");
    else if (strcmp(what, "run-id") == 0)
        offer_listed(line, "runs.list", "runs", "run_id");
    else if (strcmp(what, "workflow-id") == 0)
        offer_listed(line, "own.list", "workflows", "ulTaskId");
    else if (strcmp(what, "agent-id") == 0)
        offer_listed(line, "status", "agents", NULL);
    else if (strcmp(what, "team-id") == 0)
        offer_listed(line, "status", "teams", NULL);
    else if (strcmp(what, "noun") == 0)
        offer_commands(line);
    else if (strcmp(what, "verb") == 0 && line->given_count && cli_noun_exists(line->given[0]))
        offer_verbs(line, line->given[0]);
}

static void offer_options(const struct line *line)
{
    static const struct op_param none = {0};
    char name[64], option[80];
    for (const struct op_param *param = line->op ? line->op->params : &none; param->name; param++)
        if (!(param->flags & OP_NOT_AN_OPTION)) {
            cli_option_name(param, name);
            snprintf(option, sizeof option, "--%s", name);
            offer(line, option);
        }
    for (const struct cli_global *global = cli_globals; global->name; global++)
        offer(line, global->name);
}

/* The n-th positional parameter of a row, or NULL. */
static const struct op_param *positional(const struct op *op, int n)
{
    for (const struct op_param *param = op->params; param->name; param++)
        if ((param->flags & OP_POSITIONAL) && ((param->flags & OP_MANY) || n-- == 0))
            return param;
    return NULL;
}

/* Whether `word` is the option `--name` or `--name=…`. *ret_value: what follows the =, or NULL. */
static bool is_option(const char *word, const char *name, const char **ret_value)
{
    size_t len = strlen(name);
    if (strncmp(word, "--", 2) != 0 || strncmp(word + 2, name, len) != 0)
        return false;
    *ret_value = word[2 + len] == '=' ? word + 3 + len : NULL;
    return word[2 + len] == '\0' || word[2 + len] == '=';
}

static const struct cli_global *global_of(const char *word, const char **ret_value)
{
    for (const struct cli_global *global = cli_globals; global->name; global++)
        if (is_option(word, global->name + 2, ret_value))
            return global;
    return NULL;
}

static const struct op_param *option_of(const struct op *op, const char *word, const char **ret_value)
{
    char name[64];
    for (const struct op_param *param = op->params; param->name; param++) {
        cli_option_name(param, name);
        if (param->flags & OP_NOT_AN_OPTION)
            continue;
        *ret_value = NULL;
        if (is_option(word, name, ret_value) ||
            (param->letter && word[0] == '-' && word[1] == param->letter && !word[2]))
            return param;
    }
    return NULL;
}

static void read_value(struct line *line, const char *value)
{
    if (strcmp(value, "=") == 0) /* bash makes three words of --root=x */
        return;
    if (line->global && strcmp(line->global->name, "--root") == 0)
        line->root = value;
    line->global = NULL;
    line->option = NULL;
}

/* A word that is no option: noun, verb, or one of the command's own. */
static void read_plain(struct line *line, const char *word)
{
    if (line->op) {
        if (line->given_count < (int)(sizeof line->given / sizeof line->given[0]))
            line->given[line->given_count++] = word;
    } else if (!line->noun && cli_noun_exists(word)) {
        line->noun = word;
    } else {
        char *words[] = {(char *)(line->half ? line->half : word), (char *)(line->half ? word : "")};
        int used = 1;
        line->op = line->noun ? cli_find_verb(line->noun, words, 2, &used) : op_find(NULL, word);
        line->is_over = !line->op && (!line->noun || used == 1 || line->half);
        line->half = line->op ? NULL : word;
    }
}

static void read_word(struct line *line, const char *word)
{
    const char *value = NULL;
    if (line->global || line->option) {
        read_value(line, word);
    } else if (strcmp(word, "--") == 0) {
        line->is_over = true;
    } else if ((line->global = global_of(word, &value))) {
        if (!line->global->value)
            line->global = NULL;
    } else if (line->op && (line->option = option_of(line->op, word, &value))) {
        if (line->option->type == OP_BOOL)
            line->option = NULL;
    } else if (word[0] != '-' || !word[1]) {
        read_plain(line, word);
    }
    if (value && (line->global || line->option))
        read_value(line, value);
}

/* The last word: `--lang=j` asks for a value, and so does bash's `--lang`, `=`. */
static void read_last(struct line *line, const char *word)
{
    const char *value = NULL;
    line->start = word;
    if (line->global || line->option) {
        if (strcmp(word, "=") == 0)
            line->start = "";
        return;
    }
    line->global = global_of(word, &value);
    if (!line->global && line->op)
        line->option = option_of(line->op, word, &value);
    if (!value) {
        line->global = NULL;
        line->option = NULL;
        return;
    }
    line->before = word;
    line->before_len = (size_t)(value - word);
    line->start = value;
}

int cli_complete(char **words, int count)
{
    struct line line = {0};
    for (int i = 0; i < count - 1 && !line.is_over; i++)
        read_word(&line, words[i]);
    if (line.is_over)
        return 0;
    read_last(&line, count ? words[count - 1] : "");
    const struct op_param *param = line.op ? positional(line.op, line.given_count) : NULL;
    if (line.global)
        for (const char *const *choice = line.global->choices; choice && *choice; choice++)
            offer(&line, *choice);
    else if (line.option)
        offer_value(&line, line.option);
    else if (line.start[0] == '-')
        offer_options(&line);
    else if (param)
        offer_value(&line, param);
    else if (!line.op && line.noun)
        offer_verbs(&line, line.noun);
    else if (!line.op)
        offer_commands(&line);
    return 0;
}
