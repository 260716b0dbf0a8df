/* watch_act.c - what the keys of `watch` do to the selected thing: jobs, which are operations of the table. */
#include "cli/watch.h"

#include <stdlib.h>
#include <string.h>

enum { MESSAGE_LINES = 6 };

void watch_say(struct watch *watch, enum style style, const char *text)
{
    size_t count = 0;
    struct watch_line *lines = text ? watch_lines_of(text, watch_columns(), style, &count) : NULL;
    watch_lines_free(watch->message, watch->message_count);
    watch->message = lines;
    watch->message_count = count;
    watch->is_dirty = true;
}

/* The key and what it stands for, as a text of `key`. */
static void say_about(struct watch *watch, enum style style, const char *key, const char *what)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    text_put(&b, watch->options.lang, key, "what", what, NULL);
    watch_say(watch, style, buf_str(&b));
}

/* "stop web": for messages. */
static void put_job(struct buf *b, const json_t *job)
{
    const json_t *args = json_object_get(job, "args");
    const struct op *op = op_by_name(json_get_string(job, "op", ""));
    buf_printf(b, "%s %s", op->verb, json_get_string(args, "id", json_get_string(args, "run", "")));
}

/* Takes the job. */
static void watch_begin(struct watch *watch, json_t *job)
{
    struct buf what CLEANUP(buf_clear) = BUF_INIT;
    put_job(&what, job);
    if (watch_job(watch, job))
        say_about(watch, STYLE_DIM, "watch_doing", buf_str(&what));
    else
        say_about(watch, STYLE_WARN, "watch_busy", buf_str(&what));
}

static void ask_mode(struct watch *watch, enum watch_mode mode, json_t *asked)
{
    if (watch->mode == WATCH_LIST || watch->mode == WATCH_DETAIL || watch->mode == WATCH_LOG)
        watch->below = watch->mode;
    json_decref(watch->asked);
    watch->asked = asked;
    watch->mode = mode;
    buf_reset(&watch->input);
    watch->is_dirty = true;
}

/* ---- s, x, r ---------------------------------------------------------------------------------------------- */

static const struct {
    enum watch_kind kind;
    char key;
    const char *op;
    const char *question; /* asked first; NULL: nothing */
} acts[] = {
    {ROW_PROCESS, 's', "process.start", NULL},
    {ROW_PROCESS, 'x', "process.stop", NULL},
    {ROW_PROCESS, 'r', "process.restart", NULL},
    {ROW_RUN, 's', "resume", NULL},
    {ROW_RUN, 'r', "resume", NULL},
    {ROW_RUN, 'x', "runs.cancel", "watch_ask_cancel"},
    {ROW_QUESTION, 'x', "runs.cancel", "watch_ask_cancel"},
    {ROW_REQUEST, 's', "request.run", NULL},
    {ROW_REQUEST, 'x', "runs.cancel", "watch_ask_cancel"},
};

static json_t *job_of(const struct watch_row *row, const char *op)
{
    const char *run = json_get_string(row->item, "run_id", ""), *id = json_get_string(row->item, "id", "");
    json_t *args;
    if (row->kind == ROW_PROCESS)
        args = json_pack("{s:s}", "id", id);
    else if (strcmp(op, "runs.cancel") == 0)
        args = json_pack("{s:s}", "run", run);
    else if (strcmp(op, "resume") == 0)
        args = json_pack("{s:s, s:b}", "run", run, "detach", true);
    else
        args = json_pack("{s:s, s:b}", "id", id, "detach", true);
    return json_pack("{s:s, s:o}", "op", op, "args", args);
}

static bool watch_act_on(struct watch *watch, const struct watch_row *row, int key)
{
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++) {
        if (acts[i].kind != row->kind || acts[i].key != key)
            continue;
        json_t *job = job_of(row, acts[i].op);
        if (acts[i].question) {
            say_about(watch, STYLE_WARN, acts[i].question, json_get_string(row->item, "run_id", ""));
            ask_mode(watch, WATCH_ASK, json_pack("{s:o}", "yes", job));
        } else {
            watch_begin(watch, job);
        }
        return true;
    }
    return false;
}

/* ---- a ---------------------------------------------------------------------------------------------------- */

/* The open question of a row: its own, or the first of its run. Borrowed. */
static json_t *question_of(const struct watch *watch, const struct watch_row *row)
{
    const char *run = json_get_string(row->item, "run_id", "");
    if (row->kind == ROW_QUESTION)
        return (json_t *)row->item;
    json_each (json_object_get(watch->status, "questions"), i, open)
        if (*run && json_text_is(open, "run_id", run))
            return open;
    return NULL;
}

/* `hint` NULL: none. */
static void say_question(struct watch *watch, const json_t *open, const char *hint)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    cli_put_question(&b, &watch->options, json_object_get(watch->status, "questions"), "", open);
    if (hint)
        buf_printf(&b, "%s\n", text_get(hint, watch->options.lang));
    watch_say(watch, STYLE_WARN, buf_str(&b));
}

static json_t *confirm_job(const json_t *confirmation, const char *how)
{
    return json_pack("{s:s, s:{s:O, s:b}}", "op", "confirm", "args", "token", json_object_get(confirmation, "token"),
                     how, true);
}

/* The keys of a terminal at the end of a question are in the prompt. */
static void say_without_keys(struct watch *watch, const char *question)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const char *keys = strstr(question, " [y/N]");
    buf_put(&b, question, keys ? (size_t)(keys - question) : strlen(question));
    watch_say(watch, STYLE_WARN, buf_str(&b));
}

static bool answer_on(struct watch *watch, const struct watch_row *row)
{
    json_t *open = question_of(watch, row);
    if (row->kind == ROW_CONFIRM && !json_get_string(row->item, "token", NULL))
        return false; /* an agent looks */
    if (row->kind == ROW_CONFIRM) {
        say_without_keys(watch, json_get_string(row->item, "question", ""));
        ask_mode(watch, WATCH_ASK,
                 json_pack("{s:o, s:o}", "yes", confirm_job(row->item, "yes"), "no", confirm_job(row->item, "deny")));
        return true;
    }
    if (!open)
        return false;
    say_question(watch, open, NULL);
    ask_mode(watch, WATCH_ANSWER, json_deep_copy(open));
    return true;
}

void watch_act(struct watch *watch, int key)
{
    const struct watch_row *row = watch_selected(watch);
    const char name[] = {(char)key, '\0'};
    bool is_gone = watch->mode != WATCH_LIST && (!row || !watch->view_key || strcmp(row->key, watch->view_key) != 0);
    if (is_gone) /* the view shows an item that is not the selected row any more: the key does not apply to the row */
        watch_say(watch, STYLE_WARN, text_get("watch_gone", watch->options.lang));
    else if (row && !(key == 'a' ? answer_on(watch, row) : watch_act_on(watch, row, key)))
        say_about(watch, STYLE_DIM, "watch_no_action", name);
}

bool watch_wants_one_key(const struct watch *watch)
{
    return strcmp(cli_answer_prompt(json_object_get(watch->asked, "question")), "ask_approval") == 0;
}

/* What would have been an answer. */
static const char *hint_of(const struct watch *watch)
{
    static const char *const hints[][2] = {{"ask_approval", "watch_wants_yes_no"},
                                           {"ask_text", "watch_wants_text"},
                                           {"ask_several", "watch_wants_numbers"},
                                           {"ask_one", "watch_wants_number"}};
    const char *prompt = cli_answer_prompt(json_object_get(watch->asked, "question"));
    size_t i = 0;
    while (strcmp(hints[i][0], prompt) != 0)
        i++;
    return hints[i][1];
}

void watch_prompt_end(struct watch *watch)
{
    const json_t *questions = json_object_get(watch->status, "questions"), *open = watch->asked;
    json_t *args = json_pack("{s:s}", "run", json_get_string(open, "run_id", ""));
    struct buf asker CLEANUP(buf_clear) = BUF_INIT;
    char *line = strdup(buf_str(&watch->input));
    bool fits = line && cli_take_answer(json_object_get(open, "question"), line, args);
    free(line);
    if (!fits) { /* the question stays; so does what was typed */
        say_question(watch, open, hint_of(watch));
        json_decref(args);
        return;
    }
    cli_put_asker(&asker, questions, json_get_string(open, "run_id", ""), open);
    json_object_set_new(args, "task", json_string(buf_str(&asker)));
    watch->mode = watch->below;
    watch_begin(watch, json_pack("{s:s, s:o}", "op", "answer", "args", args));
}

/* ---- yes and no ------------------------------------------------------------------------------------------- */

void watch_asked(struct watch *watch, bool is_yes)
{
    json_t *job = json_object_get(watch->asked, is_yes ? "yes" : "no");
    watch->mode = watch->below;
    watch_say(watch, STYLE_PLAIN, NULL);
    if (!watch->asked)
        watch_job_answer(watch, is_yes);
    else if (job)
        watch_begin(watch, json_incref(job));
    json_decref(watch->asked);
    watch->asked = NULL;
}

void watch_take_question(struct watch *watch, const char *question)
{
    say_without_keys(watch, question);
    ask_mode(watch, WATCH_ASK, NULL);
}

/* What came out of a job: the first lines of what the command would print. */
void watch_take_done(struct watch *watch, json_t *done)
{
    const char *error = json_get_string(done, "error", NULL);
    char *text = error ? NULL : watch_printed(watch, done, watch_columns());
    size_t lines = 0;
    for (char *at = text; at && (at = strchr(at, '\n')); at++)
        if (++lines == MESSAGE_LINES)
            *at-- = '\0';
    watch_say(watch, error ? STYLE_BAD : STYLE_PLAIN, error ? error : text);
    free(text);
    json_decref(done);
}
