/* questions.c - what runs ask: shown with the command that answers it, and asked on a terminal. */
#include "base/utf8.h"
#include "base/who.h"
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

#define STATUS_QUESTIONS_SHOWN 5

void cli_put_task_place(struct buf *b, const json_t *stage, const json_t *of)
{
    const char *session = json_get_string(of, "session_id", ""), *run = json_get_string(stage, "run_id", "");
    if (strncmp(session, run, strlen(run)) == 0 && session[strlen(run)] == '_')
        buf_printf(b, "%s/", session + strlen(run) + 1);
    buf_puts(b, json_get_string(of, "task", ""));
}

static const char *run_of(const json_t *open, const char *run)
{
    return json_get_string(open, "run_id", run);
}

void cli_put_asker(struct buf *b, const json_t *questions, const char *run, const json_t *asks)
{
    const char *name = json_get_string(asks, "task", "");
    json_t *stage CLEANUP_JSON = json_pack("{s:s}", "run_id", run);
    size_t same = 0;
    json_each (questions, i, open)
        same += json_text_is(open, "task", name) && strcmp(run_of(open, run), run) == 0;
    if (same > 1)
        cli_put_task_place(b, stage, asks);
    else
        buf_puts(b, name);
}

void cli_put_question(struct buf *b, const struct cli_options *options, const json_t *questions, const char *run,
                      const json_t *open)
{
    const json_t *question = json_object_get(open, "question");
    const char *flow = json_get_string(open, "flow", NULL);
    struct buf asker CLEANUP(buf_clear) = BUF_INIT;
    cli_put_asker(&asker, questions, run_of(open, run), open);
    buf_puts(b, "  ");
    cli_put(b, options, stdout, STYLE_BOLD, buf_str(&asker));
    if (flow) {
        buf_puts(b, " (");
        cli_put(b, options, stdout, STYLE_PLAIN, flow);
        buf_puts(b, ")");
    }
    buf_puts(b, ": ");
    cli_put(b, options, stdout, STYLE_PLAIN, json_get_string(question, "question", ""));
    buf_puts(b, "\n");
    json_each (json_object_get(question, "options"), k, option) {
        buf_printf(b, "    %zu. ", k + 1);
        cli_put(b, options, stdout, STYLE_PLAIN, json_is_string(option) ? json_string_value(option) : "?");
        buf_puts(b, "\n");
    }
}

void cli_add_answers(json_t *next, const json_t *questions, const char *run, const json_t *open)
{
    const char *type = json_get_string(json_object_get(open, "question"), "type", "text"), *id = run_of(open, run);
    bool is_approval = strcmp(type, "approval") == 0 && !cli_can_ask();
    const char *form = cli_can_ask()                          ? ""
                       : is_approval                          ? " --yes"
                       : strcmp(type, "text") == 0            ? " TEXT"
                       : strcmp(type, "multi_selection") == 0 ? " N,N"
                                                              : " --choose N";
    size_t of_run = 0;
    struct buf command CLEANUP(buf_clear) = BUF_INIT;
    json_each (questions, i, other)
        of_run += strcmp(run_of(other, run), id) == 0;
    buf_printf(&command, "tasuki answer %s", id);
    if (of_run > 1) {
        buf_puts(&command, " --task ");
        cli_put_asker(&command, questions, id, open);
    }
    json_array_append_new(next, json_sprintf("%s%s", buf_str(&command), form));
    if (is_approval)
        json_array_append_new(next, json_sprintf("%s --no", buf_str(&command)));
}

/* What an agent asks, and the command for the yes; the yes is a person's, so an agent does not read the command. */
static void put_confirmation(struct buf *b, const struct cli_options *options, const json_t *open)
{
    const char *token = json_get_string(open, "token", NULL);
    char *text = strdup(json_get_string(open, "question", ""));
    json_t *next CLEANUP_JSON = json_pack("[o]", json_sprintf("tasuki confirm %s", token ? token : ""));
    buf_puts(b, "  ");
    cli_put(b, options, stdout, STYLE_BOLD, json_get_string(json_object_get(open, "asked_by"), "label", "?"));
    buf_printf(b, " %s:", text_get("watch_wants_yes", options->lang));
    for (char *rest = NULL, *line = text ? strtok_r(text, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest)) {
        buf_puts(b, line == text ? " " : "    ");
        cli_put(b, options, stdout, STYLE_PLAIN, line);
        buf_puts(b, "\n");
    }
    if (token) {
        buf_printf(b, "    %s\n", text_get("confirm_then", options->lang));
        cli_put_next(b, options, stdout, next);
    }
    free(text);
}

void cli_print_questions(const struct cli_options *options, const json_t *questions, const json_t *confirmations)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    if (json_array_size(questions) == 0 && json_array_size(confirmations) == 0)
        return;
    cli_put(&b, options, stdout, STYLE_WARN, text_get("head_questions", options->lang));
    buf_puts(&b, "\n");
    json_each (confirmations, i, open)
        put_confirmation(&b, options, open);
    json_each (questions, i, open) {
        if (i >= STATUS_QUESTIONS_SHOWN)
            break;
        json_t *next CLEANUP_JSON = json_array();
        cli_add_answers(next, questions, "", open);
        cli_put_question(&b, options, questions, "", open);
        cli_put_next(&b, options, stdout, next);
    }
    fputs(buf_str(&b), stdout);
    cli_print_more(options, (int64_t)json_array_size(questions) - STATUS_QUESTIONS_SHOWN);
    printf("\n");
}

/* ---- asking --------------------------------------------------------------------------------------------------- */

/* A line from the terminal without its end; NULL: there is none (Ctrl-D). Owned. */
static char *read_answer(const char *prompt)
{
    char *line = NULL;
    size_t size = 0;
    fprintf(stderr, "%s ", prompt);
    fflush(stderr);
    ssize_t len = getline(&line, &size, stdin);
    if (len < 0) {
        fputs("\n", stderr);
        free(line);
        return NULL;
    }
    line[strcspn(line, "\r\n")] = '\0';
    return line;
}

/* The number that a line is, from 1 to `max`; 0: it is none. */
static int64_t number_of(const char *text, size_t max)
{
    size_t len = strspn(text, "0123456789");
    int64_t number = len && len < 6 && !text[len] ? strtoll(text, NULL, 10) : 0;
    return number <= (int64_t)max ? number : 0;
}

/* The option that a word names by its number or its text, or NULL. Borrowed. */
static const char *option_of(const json_t *options, const char *word)
{
    size_t i, number = (size_t)number_of(word, json_array_size(options));
    json_t *option;
    if (number)
        return json_string_value(json_array_get(options, number - 1));
    json_array_foreach ((json_t *)options, i, option)
        if (strcmp(json_string_value(option), word) == 0)
            return json_string_value(option);
    return NULL;
}

/* The options that a line names, separated by commas or spaces, or NULL if one of them does not exist. Owned. */
static char *chosen_options(const json_t *options, char *line)
{
    struct buf text = BUF_INIT;
    for (char *word = line, *end; *word; word = end) {
        end = word + strcspn(word, ", ");
        char *next = end + strspn(end, ", ");
        *end = '\0';
        const char *option = option_of(options, word);
        if (*word && !option) {
            buf_clear(&text);
            return NULL;
        }
        if (*word)
            buf_printf(&text, "%s%s", text.len ? "," : "", option);
        end = next;
    }
    if (!text.len)
        buf_clear(&text);
    return text.len ? buf_take(&text) : NULL;
}

bool cli_take_answer(const json_t *question, char *line, json_t *args)
{
    const char *type = json_get_string(question, "type", "text");
    const json_t *options = json_object_get(question, "options");
    if (strcmp(type, "approval") == 0) {
        bool is_yes = strcasecmp(line, "y") == 0 || strcasecmp(line, "yes") == 0;
        bool is_no = strcasecmp(line, "n") == 0 || strcasecmp(line, "no") == 0;
        if (is_yes || is_no)
            json_object_set_new(args, is_yes ? "yes" : "no", json_true());
        return is_yes || is_no;
    }
    if (strcmp(type, "text") == 0) {
        if (*line)
            json_object_set_new(args, "text", json_string(line));
        return *line && utf8_is_valid(line, strlen(line));
    }
    if (strcmp(type, "multi_selection") == 0) {
        char *text = chosen_options(options, line);
        if (text)
            json_object_set_new(args, "text", json_string(text));
        free(text);
        return text;
    }
    const char *option = option_of(options, line);
    if (option)
        json_object_set_new(args, "text", json_string(option));
    return option;
}

const char *cli_answer_prompt(const json_t *question)
{
    const char *type = json_get_string(question, "type", "text");
    return strcmp(type, "approval") == 0          ? "ask_approval"
           : strcmp(type, "text") == 0            ? "ask_text"
           : strcmp(type, "multi_selection") == 0 ? "ask_several"
                                                  : "ask_one";
}

/* Prints which kind of answer the question needs. */
static void say_needed(const struct cli_options *options, const json_t *question)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, text CLEANUP(buf_clear) = BUF_INIT, all CLEANUP(buf_clear) = BUF_INIT;
    const char *type = json_get_string(question, "type", "text");
    bool is_multi = strcmp(type, "multi_selection") == 0;
    size_t i;
    json_t *option;
    json_array_foreach (json_object_get(question, "options"), i, option)
        buf_printf(&all, "%s%s", i ? ", " : "", json_string_value(option));
    if (strcmp(type, "approval") == 0 || strcmp(type, "text") == 0)
        buf_puts(&text, text_get(strcmp(type, "text") == 0 ? "answer_text" : "answer_approval", options->lang));
    else
        text_put(&text, options->lang, is_multi ? "answer_options" : "answer_option", "want", buf_str(&all), NULL);
    cli_put_prose(&b, options, stderr, STYLE_WARN, buf_str(&text), 0, 2);
    fputs(buf_str(&b), stderr);
}

/* Repeats the question until the answer fits it. false: the person gave none. */
static bool ask_until_fits(const struct cli_options *options, const json_t *question, json_t *args)
{
    char *line;
    const char *prompt = text_get(cli_answer_prompt(question), options->lang);
    while ((line = read_answer(prompt))) {
        bool fits = cli_take_answer(question, line, args);
        free(line);
        if (fits)
            return true;
        say_needed(options, question);
    }
    return false;
}

/* The open questions: of the run that is named, else of all. Each with its run_id; owned. */
static int open_questions(const struct cli_options *options, const json_t *args, json_t **ret, struct tsk_error *err)
{
    const char *run = json_get_string(args, "run", NULL);
    json_t *result CLEANUP_JSON = NULL, *given CLEANUP_JSON = json_object();
    struct op_call call = {.op = op_by_name(run ? "runs.show" : "status"),
                           .args = given,
                           .root = options->root,
                           .lang = options->lang,
                           .is_cli = true};
    if (run)
        json_object_set_new(given, "run", json_string(run));
    if (op_check_args(call.op, given, err) < 0 || op_run(&call, &result, err) < 0)
        return -1;
    json_decref(call.aside);
    json_t *list = json_object_get(result, "questions");
    json_each (list, i, open)
        if (run)
            json_object_set_new(open, "run_id", json_string(json_get_string(result, "run_id", run)));
    *ret = list ? json_incref(list) : json_array();
    return 0;
}

/* Leaves only those of the task that is named. */
static void keep_task(json_t *questions, const char *task)
{
    for (size_t i = json_array_size(questions); task && i-- > 0;) {
        json_t *open = json_array_get(questions, i);
        struct buf asker CLEANUP(buf_clear) = BUF_INIT;
        cli_put_asker(&asker, questions, run_of(open, ""), open);
        if (strcmp(buf_str(&asker), task) != 0 && !json_text_is(open, "task", task))
            json_array_remove(questions, i);
    }
}

/* Which of several, by number; borrowed, NULL: the person chose none. */
static json_t *choose_question(const struct cli_options *options, const json_t *questions)
{
    size_t count = json_array_size(questions);
    char *line;
    int64_t number = 0;
    json_each (questions, i, open) {
        struct buf asker CLEANUP(buf_clear) = BUF_INIT, shown CLEANUP(buf_clear) = BUF_INIT;
        cli_put_asker(&asker, questions, run_of(open, ""), open);
        buf_printf(&asker, " (%s): %s", run_of(open, ""),
                   json_get_string(json_object_get(open, "question"), "question", ""));
        utf8_put_visible(&shown, buf_str(&asker), false);
        fprintf(stderr, "%zu. %s\n", i + 1, buf_str(&shown));
    }
    while (!number && (line = read_answer(text_get("ask_which", options->lang)))) {
        number = number_of(line, count);
        free(line);
    }
    return number ? json_array_get(questions, (size_t)number - 1) : NULL;
}

static bool has_answer(const json_t *args)
{
    return json_object_get(args, "text") || json_object_get(args, "yes") || json_object_get(args, "no") ||
           json_object_get(args, "choose");
}

/* Asks one question; false: the person gave no answer. */
static bool ask_open(const struct cli_options *options, const json_t *questions, const json_t *open, json_t *args)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, place CLEANUP(buf_clear) = BUF_INIT;
    cli_put_question(&b, options, questions, "", open);
    fputs(buf_str(&b), stderr);
    cli_put_asker(&place, questions, run_of(open, ""), open);
    json_object_set(args, "run", json_object_get(open, "run_id"));
    if (json_array_size(questions) > 1)
        json_object_set_new(args, "task", json_string(buf_str(&place)));
    return ask_until_fits(options, json_object_get(open, "question"), args);
}

int cli_ask_answer(const struct cli_options *options, json_t *args, struct tsk_error *err)
{
    json_t *questions CLEANUP_JSON = NULL;
    json_t *given CLEANUP_JSON = json_incref(json_object_get(args, "run")); /* asking puts another one into args */
    const char *run = json_string_value(given);
    if (options->json || !cli_can_ask() || has_answer(args))
        return 0;
    if (run && strlen(run) < 4 && run[0] != '@')
        return 0; /* too short for a run: it is the answer */
    if (open_questions(options, args, &questions, err) < 0)
        return run && err->code == TSK_RUN_NOT_FOUND ? 0 : -1; /* the operation knows what the word means */
    keep_task(questions, json_get_string(args, "task", NULL));
    size_t count = json_array_size(questions);
    if (count == 0 && run)
        return 0; /* the operation says why */
    if (count == 0) {
        error_set(err, TSK_NOT_FOUND, "no_open_questions", NULL);
        return error_add_next(err, "tasuki status");
    }
    json_t *open = count == 1 ? json_array_get(questions, 0) : choose_question(options, questions);
    if (open && ask_open(options, questions, open, args))
        return 0;
    error_set(err, TSK_NEEDS_INPUT, "answer_not_given", NULL);
    return error_add_next(err, "tasuki answer%s%s", run ? " " : "", run ? run : "");
}
