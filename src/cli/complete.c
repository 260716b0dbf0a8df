/* complete.c - shell completion. The scripts only hand the words of the line to `tasuki __complete`, which
 * knows the table and the workspace; so all three shells complete the same, ids included. zsh and fish show a description
 * beside each candidate (`__describe`: the same with a tab and the description). Where tasuki offers nothing (paths, and all
 * that follows `--`), the shell completes files, or what it knows about the command. */
#include "base/fs.h"
#include "base/listing.h"
#include "base/utf8.h"
#include "cli/cli.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define FLOW_FILE_MAX   (1 << 20) /* a larger file is no flow that somebody wrote */
#define FLOW_FILES_LOOK 200       /* files of a folder; a person waits */

static const char *const scripts[][2] = {
    {"bash", "_tasuki() {\n"
             "    local i\n"
             "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
             "        if [[ ${COMP_WORDS[i]} == -- ]]; then\n"
             "            if declare -F _command_offset >/dev/null; then _command_offset $((i + 1))\n"
             "            elif ((COMP_CWORD == i + 1)); then mapfile -t COMPREPLY < <(compgen -c -- \"${COMP_WORDS[i + "
             "1]}\"); fi\n"
             "            return\n"
             "        fi\n"
             "    done\n"
             "    mapfile -t COMPREPLY < <(tasuki __complete \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
             "    if [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi\n"
             "}\n"
             "complete -o default -o nosort -F _tasuki tasuki 2>/dev/null || complete -o default -F _tasuki tasuki\n"},
    {"zsh", "#compdef tasuki\n"
            "_tasuki() {\n"
            "    local -a lines candidates shown\n"
            "    local -i dashes=${words[(i)--]}\n"
            "    local line\n"
            "    if (( dashes < CURRENT )); then\n"
            "        shift $dashes words\n"
            "        (( CURRENT -= dashes ))\n"
            "        _normal\n"
            "        return\n"
            "    fi\n"
            "    lines=(${(f)\"$(tasuki __describe \"${(@)words[2,CURRENT]}\" 2>/dev/null)\"})\n"
            "    for line in $lines; do\n"
            "        candidates+=(\"${line%%$'\\t'*}\")\n"
            "        shown+=(\"${line/$'\\t'/  -- }\")\n"
            "    done\n"
            "    if [[ $candidates[1] == *= ]]; then compadd -S '' -l -V tasuki -d shown -a candidates\n"
            "    elif (( $#candidates )); then compadd -l -V tasuki -d shown -a candidates; else _files; fi\n"
            "}\n"
            "if [ \"$funcstack[1]\" = \"_tasuki\" ]; then _tasuki \"$@\"; else compdef _tasuki tasuki; fi\n"},
    {"fish", "function __tasuki_has_candidates\n"
             "    set -l words (commandline -opc) (commandline -ct)\n"
             "    set -g __tasuki_candidates (tasuki __describe $words[2..-1] 2>/dev/null)\n"
             "    test (count $__tasuki_candidates) -gt 0\n"
             "end\n"
             "function __tasuki_command\n"
             "    set -l words (commandline -opc)\n"
             "    set -e words[1..(contains -i -- -- $words)]\n"
             "    complete -C (string join -- ' ' (string escape -- $words) (commandline -ct))\n"
             "end\n"
             "complete -c tasuki -n __tasuki_has_candidates -f -k -a '$__tasuki_candidates'\n"
             "complete -c tasuki -n 'contains -- -- (commandline -opc)' -a '(__tasuki_command)'\n"},
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
    const struct op_param *pairs; /* bash makes three words of K=V: the option before, and its K */
    const char *key;
    bool is_in_pair;   /* `=` was behind that K */
    bool is_over;      /* after `--`, or a command that there is not */
    bool is_described; /* zsh, fish: a description goes with each candidate */
};

/* `description` may be NULL; its control characters would end the line. */
static void offer_word(const struct line *line, const char *candidate, const char *description)
{
    if (strncmp(candidate, line->start, strlen(line->start)) != 0)
        return;
    printf("%.*s%s", (int)line->before_len, line->before ? line->before : "", candidate);
    if (line->is_described && description && *description) {
        struct buf text CLEANUP(buf_clear) = BUF_INIT;
        utf8_put_visible(&text, description, false);
        printf("\t%s", buf_str(&text));
    }
    printf("\n");
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

/* Where the ids come from that a parameter takes: `key` of each of the operation's `list` (NULL: they are texts), with
 * the values of `fields` as description, and the age. */
static const struct source {
    const char *what, *op, *list, *key, *fields[3], *time;
} sources[] = {
    {"agent-id", "status", "agents", NULL, {NULL}, NULL},
    {"flow", "flow.list", "flows", "name", {"path"}, NULL},
    {"process-id", "process.list", "processes", "id", {"state_name", "command"}, NULL},
    {"request-id", "request.list", "requests", "id", {"status", "flow", "title"}, "updated_at"},
    {"run-id", "runs.list", "runs", "run_id", {"status", "flow", "source"}, "started_at"},
    {"flow-task", "flow.show", "tasks", NULL, {NULL}, NULL},
    {"task", "runs.tasks", "tasks", "task", {"state"}, NULL},
    {"team-id", "status", "teams", NULL, {NULL}, NULL},
    {"template", "template.list", "templates", "name", {"description"}, NULL},
    {"workflow-id", "own.list", "workflows", "ulTaskId", {"ownerInstanceId"}, NULL},
    {0},
};

static json_t *complete_ask(const struct line *line, const char *op, json_t *args)
{
    struct tsk_error err = {0};
    char path[4096];
    json_t *result = NULL;
    struct op_call call = {.op = op_by_name(op), .args = args, .root = expand_home(line->root, path, sizeof path)};
    return op_check_args(call.op, args, &err) == 0 && op_run(&call, &result, &err) == 0 ? result : NULL;
}

static void put_description(const struct source *source, const json_t *one, struct buf *text)
{
    int64_t began;
    for (size_t i = 0; i < 3 && source->fields[i]; i++) {
        const char *value = json_get_string(one, source->fields[i], NULL);
        if (value)
            buf_printf(text, "%s%s", text->len ? " · " : "", value);
    }
    if (!source->time || time_parse(json_get_string(one, source->time, ""), &began) < 0)
        return;
    buf_printf(text, " · %s", CLI_WHOLE_SPAN(lang_from_environment(), clock_now().wall_ms - began));
}

/* A run or a request by another name than its id: @1, @2, or the end of its id. */
static void offer_names(const struct line *line, size_t index, const char *id, const char *description)
{
    char name[24];
    const char *end = strrchr(id, '-');
    snprintf(name, sizeof name, "@%zu", index + 1);
    if (line->start[0] == '@')
        offer_word(line, name, description);
    else if (end && end > id + 4 && line->start[0] && strncmp(id, line->start, strlen(line->start)) != 0)
        offer_word(line, end + 1, description);
}

/* Files with flows in the folder of the word: what begins a line with `flow:` or `tasks:`. */
static void offer_flow_files(const struct line *line)
{
    const char *slash = strrchr(line->start, '/');
    char folder[PATH_MAX], path[PATH_MAX + NAME_MAX];
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash + 1 - line->start) : 0, line->start);
    struct listing names CLEANUP(listing_close);
    if (listing_open(&names, AT_FDCWD, folder[0] ? folder : ".", LISTING_SORTED) < 0)
        return;
    size_t looked = 0;
    for (const char *name; looked < FLOW_FILES_LOOK && (name = listing_next(&names));) {
        struct buf text CLEANUP(buf_clear) = BUF_INIT;
        const char *dot = strrchr(name, '.');
        if (!dot || (strcmp(dot, ".yaml") != 0 && strcmp(dot, ".yml") != 0))
            continue;
        looked++;
        snprintf(path, sizeof path, "%s%s", folder, name);
        if (fs_read_file(AT_FDCWD, path, FLOW_FILE_MAX, &text) == 0 &&
            (strncmp(buf_str(&text), "flow:", 5) == 0 || strncmp(buf_str(&text), "tasks:", 6) == 0 ||
             strstr(buf_str(&text), "\nflow:") || strstr(buf_str(&text), "\ntasks:")))
            offer_word(line, path, NULL);
    }
}

/* Whether the command can do something with a run in this state. */
static bool is_of_use(const struct op *op, const json_t *run)
{
    const char *status = json_get_string(run, "status", "");
    if (strcmp(op->name, "resume") == 0)
        return strcmp(status, "DONE") != 0 && strcmp(status, "RUNNING") != 0;
    bool is_over = strcmp(status, "DONE") == 0 || strcmp(status, "FAILED") == 0 || strcmp(status, "CANCELLED") == 0;
    return strcmp(op->name, "runs.cancel") != 0 || !is_over;
}

static void offer_listed(const struct line *line, const struct source *source)
{
    static const struct source asking = {"run-id", "status", "questions", "run_id", {"task", "flow"}, NULL};
    bool is_run = strcmp(source->what, "run-id") == 0;
    bool is_answer = is_run && strcmp(line->op->name, "answer") == 0;
    bool has_names = is_run || strcmp(source->what, "request-id") == 0;
    const char *before = "";
    json_t *args CLEANUP_JSON = json_object();
    if (strcmp(source->what, "task") == 0 && line->given_count)
        json_object_set_new(args, "run", json_string(line->given[0]));
    if (strcmp(source->what, "flow-task") == 0 && line->given_count)
        json_object_set_new(args, "flow", json_string(line->given[0]));
    if (is_answer) { /* a run that asks may be too old for the list of the newest runs; @N counts in that list */
        source = &asking;
        has_names = line->start[0] != '@';
    }
    json_t *result CLEANUP_JSON = complete_ask(line, source->op, args);
    json_each (json_object_get(result, source->list), i, one) {
        struct buf text CLEANUP(buf_clear) = BUF_INIT;
        if (is_run && !is_answer && !is_of_use(line->op, one))
            continue;
        put_description(source, one, &text);
        const char *word = json_is_string(one) ? json_string_value(one) : json_get_string(one, source->key, "");
        if (strcmp(word, before) == 0) /* a run that asks several questions */
            continue;
        before = word;
        offer_word(line, word, buf_str(&text));
        if (has_names)
            offer_names(line, i, word, buf_str(&text));
    }
    if (strcmp(source->what, "flow") == 0)
        offer_flow_files(line);
}

/* Names of the flow's parameters, or the choices of the one whose name is there already. */
static void offer_flow_params(const struct line *line)
{
    json_t *args CLEANUP_JSON = json_object();
    if (!line->given_count)
        return;
    json_object_set_new(args, "flow", json_string(line->given[0]));
    json_t *result CLEANUP_JSON = complete_ask(line, "flow.show", args);
    json_each (json_object_get(result, "params"), i, param) {
        const char *name = json_get_string(param, "name", ""), *equals = strchr(line->start, '=');
        struct buf pair CLEANUP(buf_clear) = BUF_INIT;
        buf_printf(&pair, "%s=", name);
        if (!line->is_in_pair && !equals)
            offer_word(line, buf_str(&pair), json_get_string(param, "help", NULL));
        json_each (json_object_get(param, "choices"), k, choice) {
            struct buf whole CLEANUP(buf_clear) = BUF_INIT;
            buf_printf(&whole, "%s%s", line->is_in_pair ? "" : buf_str(&pair), json_string_value(choice));
            if (line->is_in_pair ? strcmp(line->key, name) == 0 : equals != NULL)
                offer_word(line, buf_str(&whole), NULL);
        }
    }
}

/* Ids of the locks there are; for `lock acquire KIND` only those of that kind. */
static void offer_lock_ids(const struct line *line)
{
    json_t *args CLEANUP_JSON = json_object();
    const char *kind = op_param_find(line->op, "kind") && line->given_count ? line->given[0] : "name";
    if (strcmp(kind, "lock") == 0) /* tasuki wait lock */
        kind = "name";
    json_t *result CLEANUP_JSON = complete_ask(line, "lock.list", args);
    json_each (json_object_get(result, "locks"), i, lock) {
        const char *id = json_get_string(lock, "id", NULL);
        if (id && json_text_is(lock, "kind", kind))
            offer_word(line, id, json_get_string(lock, "state", NULL));
    }
}

/* A verb of two words is offered word by word; the first one once. */
static void offer_verb(const struct line *line, const struct op *op, const char *previous)
{
    const char *verb = op->verb;
    char first[64];
    size_t len = strcspn(verb, " ");
    if (line->half) {
        if (verb[len] && strncmp(verb, line->half, len) == 0 && !line->half[len])
            offer_word(line, verb + len + 1, op->summary);
        return;
    }
    if (verb[len] && strncmp(previous, verb, len + 1) == 0)
        return;
    snprintf(first, sizeof first, "%.*s", (int)len, verb);
    offer_word(line, first, verb[len] ? NULL : op->summary);
}

static void offer_verbs(const struct line *line, const char *noun)
{
    const char *previous = "";
    op_foreach (op) {
        if (op_has_noun(op, noun))
            offer_verb(line, op, previous);
        previous = op->verb;
    }
}

/* What a command line can begin with. */
static void offer_commands(const struct line *line)
{
    const char *nouns[64];
    size_t count = cli_nouns(nouns, 64);
    offer_verbs(line, NULL);
    for (size_t i = 0; i < count; i++) {
        struct buf verbs CLEANUP(buf_clear) = BUF_INIT;
        op_foreach (op)
            if (op_has_noun(op, nouns[i]))
                buf_printf(&verbs, "%s%s", verbs.len ? ", " : "", op->verb);
        offer_word(line, nouns[i], buf_str(&verbs));
    }
    for (const struct cli_alias *alias = cli_aliases; alias->word; alias++)
        offer_word(line, alias->word, op_by_name(alias->op)->summary);
}

/* `tasuki wait KIND ID` */
static const char *awaited_value(const struct line *line)
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
        what = awaited_value(line);
    for (const char *const *choice = param->choices; choice && *choice; choice++)
        offer_word(line, *choice, NULL);
    for (const struct source *source = sources; source->what; source++)
        if (strcmp(what, source->what) == 0)
            offer_listed(line, source);
    if (strcmp(what, "lock-id") == 0)
        offer_lock_ids(line);
    else if (strcmp(what, "flow-param") == 0)
        offer_flow_params(line);
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
            offer_word(line, option, param->help);
        }
    for (const struct cli_global *global = cli_globals; global->name; global++)
        offer_word(line, global->name, global->help);
}

/* The n-th positional parameter of a row, or NULL. */
static const struct op_param *positional_param(const struct op *op, int n)
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

static const struct cli_global *complete_global_of(const char *word, const char **ret_value)
{
    for (const struct cli_global *global = cli_globals; global->name; global++)
        if (is_option(word, global->name + 2, ret_value))
            return global;
    return NULL;
}

static const struct op_param *line_option(const struct op *op, const char *word, const char **ret_value)
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

static void complete_read_value(struct line *line, const char *value)
{
    if (strcmp(value, "=") == 0) /* bash makes three words of --root=x */
        return;
    if (line->global && strcmp(line->global->name, "--root") == 0)
        line->root = value;
    line->pairs = line->option && line->option->type == OP_MAP ? line->option : NULL;
    line->key = value;
    line->is_in_pair = false;
    line->global = NULL;
    line->option = NULL;
}

/* bash: `=` behind K of an option that takes K=V. */
static bool read_equals(struct line *line, const char *word)
{
    line->is_in_pair = line->pairs && strcmp(word, "=") == 0;
    line->option = line->is_in_pair ? line->pairs : line->option;
    line->pairs = NULL;
    return line->is_in_pair;
}

/* A word that is no option: noun, verb, or one of the command's own. */
static void complete_read_plain(struct line *line, const char *word)
{
    if (line->op) {
        if (line->given_count < (int)(sizeof line->given / sizeof line->given[0]))
            line->given[line->given_count++] = word;
    } else if (!line->noun && cli_noun_exists(word)) {
        line->noun = word;
    } else {
        char *words[] = {(char *)(line->half ? line->half : word), (char *)(line->half ? word : "")};
        int used = 1;
        line->op = line->noun ? cli_find_verb(line->noun, words, 2, &used) : cli_find_command(word);
        line->is_over = !line->op && (!line->noun || used == 1 || line->half);
        line->half = line->op ? NULL : word;
    }
}

static void complete_read_word(struct line *line, const char *word)
{
    const char *value = NULL;
    if (line->global || line->option) {
        complete_read_value(line, word);
    } else if (read_equals(line, word)) {
        return;
    } else if (strcmp(word, "--") == 0) {
        line->is_over = true;
    } else if ((line->global = complete_global_of(word, &value))) {
        if (!line->global->value)
            line->global = NULL;
    } else if (line->op && (line->option = line_option(line->op, word, &value))) {
        if (line->option->type == OP_BOOL)
            line->option = NULL;
    } else if (word[0] != '-' || !word[1]) {
        complete_read_plain(line, word);
    }
    if (value && (line->global || line->option))
        complete_read_value(line, value);
}

/* The last word: `--lang=j` asks for a value, and so does bash's `--lang`, `=`. */
static void complete_read_last(struct line *line, const char *word)
{
    const char *value = NULL;
    line->start = word;
    if (line->global || line->option || read_equals(line, word)) {
        if (strcmp(word, "=") == 0)
            line->start = "";
        return;
    }
    line->global = complete_global_of(word, &value);
    if (!line->global && line->op)
        line->option = line_option(line->op, word, &value);
    if (!value) {
        line->global = NULL;
        line->option = NULL;
        return;
    }
    line->before = word;
    line->before_len = (size_t)(value - word);
    line->start = value;
}

int cli_complete(char **words, int count, bool is_described)
{
    struct line line = {.is_described = is_described};
    for (int i = 0; i < count - 1 && !line.is_over; i++)
        complete_read_word(&line, words[i]);
    if (line.is_over)
        return 0;
    complete_read_last(&line, count ? words[count - 1] : "");
    const struct op_param *param = line.op ? positional_param(line.op, line.given_count) : NULL;
    if (line.global)
        for (const char *const *choice = line.global->choices; choice && *choice; choice++)
            offer_word(&line, *choice, NULL);
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
