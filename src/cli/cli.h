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
    int screen_columns; /* what is printed goes to memory first, for a terminal of that width; 0: to where it is printed */
    enum lang lang;
};

/* The whole program. Returns the exit code. */
int cli_main(int argc, char **argv);

/* detached.c: a runner that another tasuki has started; performs the operation of its job. */
int cli_detached(const char *root, struct cli_options *options);

/* ---- parse.c ---- */

/* Takes the global options out of argv[1…], wherever they stand before `--`. What is left is in words[0…*ret_count). */
int cli_take_globals(int argc, char **argv, struct cli_options *options, char **words, int *ret_count,
                     struct tsk_error *err);
/* The words after noun and verb, as the row's arguments. */
int cli_parse_args(const struct op *op, char **words, int count, json_t **ret, struct tsk_error *err);
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
int cli_help(const char *noun, const char *verb, struct cli_options *options, struct tsk_error *err);
void cli_man(const char *noun, FILE *out);
bool cli_noun_exists(const char *noun);
/* The row that the words after a noun name; *ret_used of them (a verb may be two words). */
const struct op *cli_find_verb(const char *noun, char **words, int count, int *ret_used);
/* The nouns, in table order; returns how many. */
size_t cli_nouns(const char **nouns, size_t max);
void cli_usage_line(const struct op *op, struct buf *b);
/* The rows of a noun (NULL: all) as JSON. Owned. */
json_t *cli_describe(const char *noun, const char *verb);
/* The script; NULL if there is none for that shell. */
const char *cli_completion(const char *shell);
/* Prints the candidates for the last of `words`, one per line. */
int cli_complete(char **words, int count);

/* ---- print.c: results and errors for people ---- */

void cli_print_result(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_event(const struct cli_options *options, const json_t *event);
void cli_print_error(const struct cli_options *options, const struct tsk_error *err);
/* The lines about a lock's holder: holder, since, alive, expires. `lock` is the JSON of report_lock. */
void cli_put_lock(struct buf *b, const struct cli_options *options, FILE *out, const json_t *lock);
/* A time span in whole seconds. */
void cli_format_span(int64_t age_ms, char text[TIME_TEXT_MAX]);
/* "  label     text\n"; `key` is the label's text key. */
void cli_put_line(struct buf *b, const struct cli_options *options, FILE *out, const char *key, const char *text);
void cli_print_locks(const struct cli_options *options, const json_t *locks);
void cli_put_next(struct buf *b, const struct cli_options *options, FILE *out, const json_t *next);

/* ---- print_request.c ---- */

void cli_print_request(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_requests(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_request_removed(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_queue_run(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_queue_next(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_queue_status(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_queue_stop(const struct op_call *call, const struct cli_options *options, const json_t *result);
/* Takes the progress bar away, before something else is printed. */
void cli_end_progress(void);

/* ---- print_proc.c ---- */

void cli_print_process(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_processes(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_removed(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_restored(const struct op_call *call, const struct cli_options *options, const json_t *result);

/* ---- print_doctor.c ---- */

void cli_print_doctor(const struct op_call *call, const struct cli_options *options, const json_t *result);

/* ---- print_status.c ---- */

void cli_print_status(const struct op_call *call, const struct cli_options *options, const json_t *result);
/* `watch`: draws the screen anew, or prints one more snapshot. false: the operation has no screen. */
bool cli_print_screen(const struct op_call *call, const struct cli_options *options, const json_t *document);

/* ---- print_exchange.c ---- */

/* The lines of an error that has found several problems in a file. */
void cli_put_problems(struct buf *b, const struct cli_options *options, const json_t *context);
void cli_print_export(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_import(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_templates(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_template_deleted(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_template(const struct op_call *call, const struct cli_options *options, const json_t *result);

/* ---- print_agent.c ---- */

void cli_print_agents(const struct op_call *call, const struct cli_options *options, const json_t *result);

/* ---- print_own.c ---- */

void cli_print_own_check(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_own_claimed(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_own_released(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_own_left(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_own_list(const struct op_call *call, const struct cli_options *options, const json_t *result);

/* ---- print_flow.c ---- */

/* The line that a problem stands in, and below it where. */
void cli_put_excerpt(struct buf *b, const struct cli_options *options, const json_t *place);
/* The problems of a flow file after the first, which is the error's own sentence. */
void cli_put_flow_problems(struct buf *b, const struct cli_options *options, const json_t *context);
void cli_print_validated(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_flows(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_graph(const struct op_call *call, const struct cli_options *options, const json_t *result);

/* ---- print_run.c ---- */

/* A fact of a run while it runs: a bar on a terminal, a line otherwise. false: it is no fact of a run. */
bool cli_print_progress(const struct op_call *call, const struct cli_options *options, const json_t *document);
void cli_print_run(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_runs(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_stage(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_logs(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_tasks(const struct op_call *call, const struct cli_options *options, const json_t *result);
void cli_print_value(const struct op_call *call, const struct cli_options *options, const json_t *result);

/* ---- style.c ---- */

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_GOOD, STYLE_BAD, STYLE_WARN };
bool cli_has_colour(const struct cli_options *options, FILE *out);
/* Appends `text`, made harmless, with a colour if `out` is a terminal that wants one. */
void cli_put(struct buf *b, const struct cli_options *options, FILE *out, enum style style, const char *text);
/* A table: rows of `columns` cells, aligned, the last column cut at the terminal's width. */
struct cli_table {
    size_t columns, count, max;
    size_t gives_way; /* a column that is cut before the last one is; 0: none */
    struct cli_cell {
        char *text;
        enum style style;
    } * cells;
};
void cli_table_add(struct cli_table *table, enum style style, const char *text);
void cli_table_print(struct cli_table *table, const struct cli_options *options, FILE *out);
int cli_terminal_width(FILE *out);

/* ---- prompt.c ---- */

/* Asks on the terminal, waits 30 s; only y or yes is a yes. */
bool cli_confirm(struct op_call *call, const char *question);
bool cli_can_ask(void);

#endif
