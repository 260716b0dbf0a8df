/* watch.h - the inside of `tasuki watch` on a terminal that can draw: a list of everything, live, with keys.
 *
 *  S1  One thread draws and reads keys. It waits only for keys and `wake_fd`, and opens no file of the workspace. So a key is
 *      answered at once, whatever the other threads wait for.
 *  S2  All other work is an operation of the table, in one of three threads: the feed (`watch`), the view (the selected thing
 *      and its log), and the job (the operation of a key, one at a time). They share struct watch_shared, under its mutex; a
 *      thread that changes it writes to wake_fd.
 *  S3  A document belongs to one thread, and is passed to another only as a whole.
 *  S4  All text on the screen goes through watch_put, which makes control characters harmless. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include "cli/cli.h"

#include <pthread.h>

enum watch_section {
    SECTION_NEEDS, /* failed and asking */
    SECTION_PROCESSES,
    SECTION_RUNS,
    SECTION_LOCKS,
    SECTION_WORKFLOWS,
    SECTION_WAITING,
    SECTION_QUEUE,
    SECTION_EVENTS,
    SECTION_COUNT
};

struct watch_row {
    enum watch_kind {
        ROW_HEAD,
        ROW_CONFIRM,
        ROW_QUESTION,
        ROW_PROCESS,
        ROW_RUN,
        ROW_LOCK,
        ROW_WORKFLOW,
        ROW_WAITER,
        ROW_REQUEST,
        ROW_EVENT
    } kind;
    enum watch_section section;
    enum style style;          /* of the state */
    char *key;                 /* the same thing has the same key in the next document */
    char *name, *state, *text; /* owned */
    const json_t *item;        /* of the documents that the rows were made from */
};

struct watch_rows {
    struct watch_row *list;
    size_t count, room;
    size_t failed, asking, running;
};

struct watch_line {
    char *text; /* owned */
    enum style style;
};

/* S2 */
struct watch_shared {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a wish or an answer */
    int wake_fd;
    json_t *status, *events; /* from the feed; NULL: nothing new */
    bool has_failed, rings;  /* the feed has ended with `err`; the bell is due */
    struct tsk_error err;
    json_t *wish;   /* what the view shows: {number, op, args, log?, log_args?}; NULL: nothing */
    json_t *view;   /* {number, call, result, aside, log} as far as they are there; NULL: nothing new */
    bool is_busy;   /* there is a job */
    json_t *done;   /* the job's {op, args, result, aside} or {op, args, error}; NULL: none, or none yet */
    char *question; /* what the job asks; NULL: nothing */
    int answer;     /* -1: none yet, 0: no, 1: yes */
    char *problem;  /* what a thread would have printed to stderr */
};

enum watch_mode { WATCH_LIST, WATCH_DETAIL, WATCH_LOG, WATCH_HELP, WATCH_FILTER, WATCH_ANSWER, WATCH_ASK };

struct watch {
    const char *root;
    struct cli_options options; /* of the screen: nothing coloured by itself */
    struct watch_shared shared;
    enum watch_mode mode, below; /* `below`: what is drawn under a prompt, and where Esc leads */
    json_t *status, *events;
    struct watch_rows rows;
    char *key;      /* of the selected row; NULL: none yet */
    char *view_key; /* of the thing in WATCH_DETAIL and WATCH_LOG */
    char *view_name;
    size_t selected, top;
    struct buf filter, input;   /* what is typed in WATCH_FILTER and WATCH_ANSWER */
    struct watch_line *message; /* below the list, until the next key */
    size_t message_count;
    json_t *asked;  /* WATCH_ANSWER: the open question; WATCH_ASK: {yes?, no?}, jobs; NULL: the job's own question */
    json_t *viewed; /* the last of shared.view */
    int64_t wish_number;
    struct watch_line *facts, *log;
    size_t fact_count, log_count, back; /* lines that the view is scrolled up by */
    bool has_colour, is_over, is_dirty;
    bool has_trouble; /* the message says why the picture is old */
};

/* ---- watch_feed.c: the threads ---- */

/* Starts the feed and the view; -1: the system refuses a thread. */
int watch_threads_start(struct watch *watch, struct tsk_error *err);
/* Shows another thing, or (NULL) none. Takes `wish`. */
void watch_wish(struct watch *watch, json_t *wish);
/* Performs {op, args}; false: another one is under way. Takes it. */
bool watch_job(struct watch *watch, json_t *job);
/* The answer to the job's question. */
void watch_job_answer(struct watch *watch, bool is_yes);

/* ---- watch_rows.c ---- */

/* The rows of the documents that contain `filter` ("": all of them). */
void watch_rows_make(struct watch_rows *rows, const struct cli_options *options, const json_t *status,
                     const json_t *events, const char *filter);
void watch_rows_clear(struct watch_rows *rows);
const char *watch_section_name(enum watch_section section, enum lang lang);

/* ---- watch_view.c: one thing, and its log ---- */

/* What the view thread has to fetch for a row; NULL: nothing can be said about it. Owned. */
json_t *watch_wish_of(const struct watch_row *row, bool only_log);
/* Takes what the view thread has brought. */
void watch_view_take(struct watch *watch, json_t *view);
void watch_view_clear(struct watch *watch);
/* The lines of a text, wrapped; owned, with their number. */
struct watch_line *watch_lines_of(const char *text, size_t width, enum style style, size_t *ret_count);
void watch_lines_free(struct watch_line *lines, size_t count);
/* What cli_print_result shows. Owned. */
char *watch_printed(struct watch *watch, const json_t *done, size_t width);

/* ---- watch_act.c: what keys do ---- */

/* A message below the list; NULL: none. */
void watch_say(struct watch *watch, enum style style, const char *text);
void watch_act(struct watch *watch, int key);        /* s x r a */
void watch_prompt_end(struct watch *watch);          /* Enter in WATCH_ANSWER */
bool watch_wants_one_key(const struct watch *watch); /* WATCH_ANSWER: yes or no, without Enter */
void watch_asked(struct watch *watch, bool is_yes);  /* the key in WATCH_ASK */
void watch_take_done(struct watch *watch, json_t *done);
void watch_take_question(struct watch *watch, const char *question); /* of the job */

/* ---- watch_draw.c ---- */

void watch_draw(struct watch *watch);
size_t watch_columns(void); /* of the terminal */
size_t watch_list_height(const struct watch *watch);
const struct watch_row *watch_selected(const struct watch *watch);
/* Finds the selected row again after a change; `step` continues from there. */
void watch_select(struct watch *watch, long step);

/* ---- watch.c ---- */

/* Whether the terminal can draw, and a person can type. */
bool cli_can_watch(const struct cli_options *options);
int cli_watch(const struct cli_options *options, struct tsk_error *err);

#endif
