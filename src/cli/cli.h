/* cli.h - the command-line skin: words in, words out. The only folder besides main that prints or exits. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/clock.h"
#include "ops/ops.h"

#include <stdio.h>

/* The options that stand before or after any command. */
struct cli_options {
    const char *root;
    bool json, quiet, verbose, no_color;
    bool wants_help;
    bool wants_all;     /* with wants_help: errors and global options, too; without a command: all commands */
    int screen_columns; /* what is printed goes to memory first, for a terminal of that width; 0: to where it is printed */
    enum lang lang;
    const struct op *op; /* the command, as soon as it is known */
};

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_GOOD, STYLE_BAD, STYLE_WARN };

/* The whole program. Returns the exit code. */
int cli_main(int argc, char **argv);

/* detached.c: a runner that another tasuki has started; performs the operation of its job. */
int cli_detached(const char *root, struct cli_options *options);
/* The holder's last child (hold/protocol.h): tells of the failure of that start. */
int cli_failed(const char *root, const char *id, const char *start);

/* ---- parse.c ---- */

/* Takes the global options out of argv[1…], wherever they stand before `--`. What is left is in words[0…*ret_count). */
int cli_take_globals(int argc, char **argv, struct cli_options *options, char **words, int *ret_count,
                     struct tsk_error *err);
/* The words after noun and verb, as the row's arguments. An error has the command as it was meant, or else the help, as its next step. */
int cli_parse_args(const struct op *op, char **words, int count, json_t **ret, struct tsk_error *err);
/* The command's help as the next step of an error that has none. */
void cli_propose_help(const struct op *op, struct tsk_error *err);
/* Says so, with the nearest one that exists. `op` NULL: before any command. Returns -1. */
int cli_unknown_option(const struct op *op, const char *word, struct tsk_error *err);
/* An option's name on the command line: `lock_file` is `lock-file`. */
void cli_option_name(const struct op_param *param, char name[64]);

/* ---- help.c, man.c, complete.c: made from the table ---- */

/* The options for every command, as help, manual and completion show them; ends with a NULL name. */
struct cli_global {
    const char *name, *value; /* "--root", "DIR"; value NULL: a flag */
    const char *help;
    const char *const *choices;
};
extern const struct cli_global cli_globals[];
/* The commands of every day, by purpose. */
void cli_first_screen(struct buf *b, const struct cli_options *options, size_t width);
/* Text broken into lines of `width` columns that begin in column `indent`; the first one begins where `b` stands. */
void cli_put_wrapped(struct buf *b, const char *text, size_t indent, size_t width);
/* The same for a sentence that goes to `out`, which begins in column `first`: elsewhere than on a terminal it stays one line. */
void cli_put_prose(struct buf *b, const struct cli_options *options, FILE *out, enum style style, const char *text,
                   size_t first, size_t indent);
/* Prints a text, on a terminal that is too low for it through the user's pager. */
void cli_page(const char *text);
int cli_help(const char *noun, const char *verb, struct cli_options *options, struct tsk_error *err);
void cli_man(const char *noun, FILE *out);
bool cli_noun_exists(const char *noun);
/* The row of a command of one word: `run`, or `stop` for `proc stop`; NULL: there is none. */
const struct op *cli_find_command(const char *word);
/* The words of that kind that stand for a noun and a verb, in pairs with them; ends with NULL. */
extern const struct cli_alias {
    const char *word, *op;
} cli_aliases[];
/* Says that there is no such command (no such verb of a noun), with those that may be meant. `rest` is what was written behind it,
 * then NULL; or NULL. Returns -1. */
int cli_unknown_word(const char *noun, const char *word, char **rest, struct tsk_error *err);
/* The same of a command that was to be explained (verb NULL: one word): what is proposed explains, too, and runs nothing. */
int cli_unknown_topic(const char *noun, const char *verb, struct tsk_error *err);
/* The row that the words after a noun name; *ret_used of them (a verb may be two words). */
const struct op *cli_find_verb(const char *noun, char **words, int count, int *ret_used);
/* The nouns, in table order; returns how many. */
size_t cli_nouns(const char **nouns, size_t max);
void cli_usage_line(const struct op *op, struct buf *b);
/* The rows of a noun (NULL: all) as JSON. Owned. */
json_t *cli_describe(const char *noun, const char *verb);
/* The script; NULL if there is none for that shell. */
const char *cli_completion(const char *shell);
/* Prints the candidates for the last of `words`, one per line; is_described: with a tab and a description. */
int cli_complete(char **words, int count, bool is_described);

/* ---- print.c ---- */

/* An id as tables show it: short, unless --verbose asks for all of it. */
const char *cli_short_id(const struct op_call *call, const struct cli_options *options, const char *id);
/* The file of a flow as lists show it. A flow in .aiflow/flows/ is shown by the name that `tasuki run` takes. Returns a text in
 * `b`, or `source`. */
const char *cli_flow(const struct cli_options *options, const char *source, struct buf *b);
/* A file below .aiflow/ by its name from where the caller stands (ops/place.h). In `b`, or `path` itself. */
const char *cli_place(const struct op_call *call, const char *path, struct buf *b);

/* ---- print*.c: results and errors for people ---- */

/* Prints the results of some operations. PRINTER defines it and names them:
 *
 *     PRINTER(own_list, "own.list")
 *     {
 *         …  prints `result`; `call` says of which call it is
 *     }
 *
 * The table of printers is made from these lines at build time (tools/list_rows.py). */
typedef void cli_print(const struct op_call *call, const struct cli_options *options, const json_t *result);
struct cli_printer {
    cli_print *print;
    const char *ops[16]; /* then NULL */
};
#define PRINTER(name, ...)                                                                                             \
    cli_print cli_print_##name;                                                                                        \
    const struct cli_printer cli_printer_##name = {cli_print_##name, {__VA_ARGS__}};                                   \
    void cli_print_##name(const struct op_call *call UNUSED, const struct cli_options *options UNUSED,                 \
                          const json_t *result UNUSED)
#define UNUSED __attribute__((unused))
extern const struct cli_printer *const cli_printers[]; /* then NULL */

void cli_print_result(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_error(const struct cli_options *options, const struct tsk_error *err);
/* Prints a problem that is not the command's result (the taker of base/log.h). `data` is the options. */
void cli_print_problem(const struct tsk_error *problem, void *data);
/* Prints a sentence that has no placeholders. */
void cli_say(const struct cli_options *options, FILE *out, const char *key);
/* Of a list without rows: the sentence `key` says that there is nothing at all; with a filter, that nothing matches it. */
void cli_print_none(const struct op_call *call, const struct cli_options *options, const char *key);
/* Parts of other results. */
cli_print cli_print_lock_check, cli_print_own_list, cli_print_own_show, cli_print_process, cli_print_processes,
    cli_print_run, cli_print_runs, cli_print_status;
void cli_print_locks(const struct cli_options *options, const json_t *locks);
void cli_print_event(const struct cli_options *options, const json_t *event);
/* The party of an event: its actor; of a death, which nobody caused, the one that has died. *ret_key: the key of the data that says
 * it, NULL: none does. Borrowed, may be NULL. */
const json_t *cli_event_who(const json_t *event, const char **ret_key);
/* Whether people see this key of an event's data. The raw status of an exit is left out: exit_code and signal say the same. */
bool cli_event_shows(const json_t *data, const char *key);
/* A value of an event's data: a party by its label. */
void cli_put_event_value(struct buf *b, const json_t *value);
/* progress.c: a fact of a run while it runs, shown as --output says. false: it is no fact of a run. */
bool cli_print_progress(const struct op_call *call, const struct cli_options *options, const json_t *document);
/* print_lines.c: `name | text`, in a colour per process on a terminal. */
bool cli_emit_line(struct op_call *call, const struct op_line *line);
/* keys.c: single keys of the terminal instead of lines, without echo; back when `on` is false and when the program ends. */
bool cli_take_keys(struct op_call *call, bool on);
/* Takes the block of running tasks away, before something else is printed. */
void cli_end_progress(void);
/* Whether the output of the task that failed is the last that was printed. */
bool cli_progress_has_shown(const json_t *failure);
/* Whether the runs of a queue were shown as they ended. */
bool cli_progress_told_queue(void);
/* Whether facts are wanted when nothing has happened: somebody sees what tasks print. */
bool cli_wants_ticks(const struct cli_options *options, const json_t *args);
/* Begins or ends what tasks have printed; nothing without `what`. On GitHub no line in between is a command to the workflow. */
void cli_put_fence(struct buf *b, const void *what, bool is_begin);
/* Whether stdin and stdout are a terminal, and we are in front. */
bool cli_has_terminal(void);
/* From now on every key is a byte and nothing that is printed is changed. cli_take_keys(call, false) ends it. */
bool cli_take_raw(void);

/* attach.c: struct op_call's attach. */
enum op_attach_end cli_attach(struct op_call *call, const char *id, int connection, char leave);
/* `watch` where nothing can be drawn (watch.h): prints one more snapshot. false: another operation. */
bool cli_print_snapshot(const struct op_call *call, const struct cli_options *options, const json_t *document);

/* Parts of what lists show. `process`, `run`, `holder`: the JSON of the operations. */
enum style cli_process_style(const json_t *process);
bool cli_process_failed(const json_t *process); /* Failed, or about to be started again after a failure */
void cli_put_command(struct buf *b, const json_t *process);
void cli_bytes(int64_t bytes, char text[32]);
enum style cli_run_style(const char *status);
/* How many tasks are settled: they have ended well, or were skipped. */
int64_t cli_run_settled(const json_t *counts);
void cli_run_span(const struct cli_options *options, const json_t *run, char text[TIME_TEXT_MAX]);
enum style cli_request_style(const char *status);
bool cli_queue_runs(const json_t *locks);
/* The state of a lock for people: `dead` where it is `held` and its holder is not alive. */
const char *cli_lock_state(const json_t *lock, const json_t *alive);
enum style cli_lock_style(const char *state);
/* "claude-code#2: refactoring auth (pid 4711, on vm)": people first, then what identifies them. */
void cli_put_holder(struct buf *b, const struct cli_options *options, const json_t *holder);
/* The owner of a workflow: "claude-code#2: refactoring auth (vm-4711-…)", and whether it is alive, as a word. */
void cli_put_owner(struct buf *b, const json_t *workflow);
const char *cli_owner_state(const struct cli_options *options, const json_t *workflow);
/* "for name deploy of claude-code#2, since 12:45"; `waiter`: {kind id since for}. `shorts`: whole ids to short ones, or NULL. */
void cli_put_awaited(struct buf *b, const struct cli_options *options, const json_t *shorts, const json_t *waiter);

/* A word of a result for people: the text with the key <prefix><word>, in small letters with _ for other signs; the word itself
 * where there is none. */
const char *cli_word(const struct cli_options *options, const char *prefix, const char *word);
const char *cli_key(const char *prefix, const char *word); /* that key, or NULL */
/* "  label     text\n"; `key` is the label's text key. */
void cli_put_line(struct buf *b, const struct cli_options *options, FILE *out, const char *key, const char *text);
/* The same for a sentence, which is broken between words. A value, which somebody copies, is not. */
void cli_put_said(struct buf *b, const struct cli_options *options, FILE *out, const char *key, const char *text);
/* The commands that may follow, one per line. */
void cli_put_next(struct buf *b, const struct cli_options *options, FILE *out, const json_t *next);
/* Whose processes a result was about (`warning`), one line each. */
void cli_put_warnings(struct buf *b, const struct cli_options *options, const json_t *result);
/* The line about the party that started the thing, or registered it: "by  claude-code#2: refactoring auth (pid 4711)". Nothing
 * without a who. */
void cli_put_starter(struct buf *b, const struct cli_options *options, FILE *out, const json_t *thing);
/* The lines about a lock's holder: holder, since, alive, expires. `lock` is the JSON of report_lock. */
void cli_put_lock(struct buf *b, const struct cli_options *options, FILE *out, const json_t *lock);
/* The lines of an error that has found several problems in a file. */
void cli_put_problems(struct buf *b, const struct cli_options *options, const json_t *context);
/* The line that a problem is in, and below it where. */
void cli_put_excerpt(struct buf *b, const struct cli_options *options, const json_t *place);
/* The problems of a flow file after the first, which is the error's own sentence. */
void cli_put_flow_problems(struct buf *b, const struct cli_options *options, const json_t *context);

/* ---- questions.c: a question is {run_id task session_id flow? question}; those of one run have no run_id: `run` has it ---- */

/* A task, and where it has a session of its own, the branch: BRANCH/TASK. */
void cli_put_task_place(struct buf *b, const json_t *stage, const json_t *of);
/* "  ask: Deploy where?" and its options, one per line. */
void cli_put_question(struct buf *b, const struct cli_options *options, const json_t *questions, const char *run,
                      const json_t *open);
/* The task that asks, with its branch if the name alone is ambiguous among those of the run. */
void cli_put_asker(struct buf *b, const json_t *questions, const char *run, const json_t *asks);
/* Puts what was typed into the arguments of `answer`; false: it does not fit the question. Changes the line. */
bool cli_take_answer(const json_t *question, char *line, json_t *args);
/* The key of the prompt that fits. */
const char *cli_answer_prompt(const json_t *question);
/* Adds the commands that answer `open`, which is one of `questions`, in the forms that its type has; on a terminal the command asks. */
void cli_add_answers(json_t *next, const json_t *questions, const char *run, const json_t *open);
/* What agents ask, and the first of all open questions of runs, with the commands that answer them. Nothing without one. */
void cli_print_questions(const struct cli_options *options, const json_t *questions, const json_t *confirmations);
/* "… and 3 more"; nothing if there are none. */
void cli_print_more(const struct cli_options *options, int64_t number);
/* `tasuki answer` without an answer: asks on a terminal, and completes the arguments. Without a terminal it changes nothing. */
int cli_ask_answer(const struct cli_options *options, json_t *args, struct tsk_error *err);

/* ---- times.c: a time is what a record has: ISO 8601, UTC. Another text stays as it is ---- */

/* "2 h 5 min", "41 s", "120 ms", in the language; the second one has no milliseconds. */
const char *cli_span(enum lang lang, int64_t ms, char text[TIME_TEXT_MAX]);
const char *cli_whole_span(enum lang lang, int64_t ms, char text[TIME_TEXT_MAX]);
/* "12:45", of another day "02-07 12:45", of another year "2025-02-07 12:45"; with --verbose the exact local time. */
const char *cli_clock(const struct cli_options *options, const char *time, char text[TIME_TEXT_MAX]);
const char *cli_clock_seconds(const struct cli_options *options, const char *time,
                              char text[TIME_TEXT_MAX]); /* "12:45:30" */
/* "2 min ago" within an hour, else as cli_clock: for lists. */
const char *cli_when(const struct cli_options *options, const char *time, char text[TIME_TEXT_MAX]);
/* The same as expressions. Each text lasts as long as the block in which the macro stands. */
#define CLI_SPAN(lang, ms)               cli_span((lang), (ms), (char[TIME_TEXT_MAX]){0})
#define CLI_WHOLE_SPAN(lang, ms)         cli_whole_span((lang), (ms), (char[TIME_TEXT_MAX]){0})
#define CLI_CLOCK(options, time)         cli_clock((options), (time), (char[TIME_TEXT_MAX]){0})
#define CLI_CLOCK_SECONDS(options, time) cli_clock_seconds((options), (time), (char[TIME_TEXT_MAX]){0})
#define CLI_WHEN(options, time)          cli_when((options), (time), (char[TIME_TEXT_MAX]){0})
/* "12:45 (2 h 5 min ago)": for the details of one thing. `age_ms` below 0: by the clock. */
void cli_since(const struct cli_options *options, const char *time, int64_t age_ms, struct buf *b);
/* The line "  started   12:45 (2 h 5 min ago)" on stdout; nothing without a time. */
void cli_put_time(struct buf *b, const struct cli_options *options, const char *key, const char *time);

/* ---- style.c ---- */

/* Whether TERM is dumb or not set: such a terminal gets no colours, and nothing is redrawn in place. */
bool cli_is_plain_terminal(void);
bool cli_has_colour(const struct cli_options *options, FILE *out);
/* Appends `text`, made harmless, with a colour if `out` is a terminal that wants one. */
void cli_put(struct buf *b, const struct cli_options *options, FILE *out, enum style style, const char *text);
#define TABLE_DROPS_MAX 6
/* A table: rows of `columns` cells, aligned, the last column cut at the terminal's width. */
struct cli_table {
    size_t columns, count, max;
    size_t gives_way; /* a column that is cut before the last one is; 0: none */
    bool keeps_last;  /* so is the first one: it has names, and the last one is short */
    unsigned char
        drops[TABLE_DROPS_MAX]; /* columns that are left out where the line is too long, in that order; then 0 */
    struct cli_cell {
        char *text;
        enum style style;
        bool spans; /* its text has the rest of the line; the cells behind it are empty */
    } * cells;
};
void cli_table_add(struct cli_table *table, enum style style, const char *text);
/* Adds the first row, the headings: one key of a text for each column. */
void cli_table_add_heads(struct cli_table *table, const struct cli_options *options, const char *const *keys);
/* The party that started something: its label, and where there is room its note. */
void cli_table_add_by(struct cli_table *table, const struct cli_options *options, const json_t *who);
void cli_table_add_commit(struct cli_table *table, const json_t *json); /* its `commit`, short */
/* A cell that has the rest of its row. */
void cli_table_add_rest(struct cli_table *table, enum style style, const char *text);
void cli_table_print(struct cli_table *table, const struct cli_options *options, FILE *out);
int cli_terminal_width(FILE *out);

/* Cuts to `width` columns with an ellipsis. Takes the text, returns what replaces it. */
char *cli_cut(char *text, size_t width);

/* ---- waits.c ---- */

/* Shows on stderr for whom the command waits; kind NULL: it does not wait any more. */
void cli_waits(struct op_call *call, const char *kind, const char *id, int64_t since_ms);

/* ---- prompt.c ---- */

/* Asks on the terminal, waits 30 s; only y or yes is a yes. */
bool cli_confirm(struct op_call *call, const char *question);
bool cli_can_ask(void);

#endif
