#include "ops/overview.h"
#include "base/fs.h"
#include "base/ident.h"
#include "graph/run_names.h"
#include "ops/confirm.h"
#include "ops/lock_args.h"
#include "ops/proc_args.h"
#include "ops/run_args.h"
#include "ops/short_id.h"
#include "ops/waits.h"
#include "own/workflow.h"
#include "proc/log_text.h"
#include "proc/process.h"
#include "run/book.h"
#include "run/queue.h"
#include "run/run_log.h"
#include "store/events.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { RUNS_OVER_SHOWN = 5, REQUESTS_SHOWN = 30, WORKFLOWS_SHOWN = 30 };
enum { LAST_LINE_TASKS = 8, LAST_LINE_MAX = 400 };

/* ---- runs ----------------------------------------------------------------------------------------------- */

static json_t *pick_keys(const json_t *from, const char *const *keys)
{
    json_t *json = json_object();
    json_copy_keys(json, from, keys);
    return json;
}

/* 1: its stage (owned); 0: it is being made or removed; -1: it cannot be read. */
static int stage_look(struct tsk_workspace *ws, const char *id, json_t **ret, struct tsk_error *err)
{
    char name[RUN_ID_MAX + 8];
    struct rundir run = {.dir = -1, .life_fd = -1, .runner_fd = -1};
    snprintf(name, sizeof name, "runs/%s", id);
    if (rundir_open_dir(ws, name, id, &run, err) < 0)
        return err->sys_errno == ENOENT ? 0 : -1;
    int result = rundir_look(&run, ret, err);
    rundir_clear(&run);
    return result < 0 ? -1 : 1;
}

json_t *overview_stage(struct tsk_workspace *ws, const char *id)
{
    struct tsk_error err;
    json_t *stage = NULL;
    return stage_look(ws, id, &stage, &err) == 1 ? stage : NULL;
}

/* The same for people: a run that cannot be read is named, as in `runs list`. */
static json_t *stage_or_broken(struct op_call *call, const char *id)
{
    struct tsk_error err;
    json_t *stage = NULL;
    return stage_look(call->ws, id, &stage, &err) < 0 ? run_broken(id, call->lang, &err) : stage;
}

/* The last line of a task's log, as a text; NULL: it has none. Owned. */
static json_t *last_line_of(struct tsk_workspace *ws, const char *run, const json_t *task)
{
    struct buf path CLEANUP(buf_clear) = BUF_INIT, text CLEANUP(buf_clear) = BUF_INIT;
    struct tsk_error ignored;
    off_t offset;
    buf_printf(&path, "runs/%s/tasks/%s/%s.%lld.log", run, json_get_string(task, "session_id", ""),
               json_get_string(task, "task", ""), (long long)json_get_int(task, "attempt", 1));
    if (strstr(buf_str(&path), "/../") || run_log_tail(ws->state_dir, buf_str(&path), 1, &text, &offset, &ignored) != 1)
        return NULL;
    size_t len = text.len;
    while (len && text.data[len - 1] == '\n')
        len--;
    const char *line = log_text_last_part(text.data, &len);
    return len ? run_log_text(line, len < LAST_LINE_MAX ? len : LAST_LINE_MAX) : NULL;
}

void overview_add_last_line(struct tsk_workspace *ws, json_t *run)
{
    const char *id = json_get_string(run, "run_id", "");
    json_t *stage CLEANUP_JSON = overview_stage(ws, id), *line = NULL;
    const json_t *tasks = json_object_get(stage, "tasks");
    size_t looked = 0;
    for (size_t i = json_array_size(tasks); !line && i-- > 0 && looked < LAST_LINE_TASKS;) {
        const json_t *task = json_array_get(tasks, i);
        const char *state = json_get_string(task, "state", NULL);
        if (!state || (strcmp(state, "running") != 0 && strcmp(state, "interrupted") != 0))
            continue;
        line = last_line_of(ws, id, task);
        looked++;
    }
    if (line)
        json_object_set_new(run, "last_line", line);
}

static bool stage_is_open(const json_t *stage)
{
    const char *status = json_get_string(stage, "status", "");
    return strcmp(status, "RUNNING") == 0 || strcmp(status, "NEEDS_INPUT") == 0 || strcmp(status, "INTERRUPTED") == 0;
}

/* When the task asked, by the run's history. */
static const char *asked_at(const json_t *stage, const char *task)
{
    const json_t *history = json_object_get(stage, "history");
    for (size_t i = json_array_size(history); i-- > 0;) {
        const json_t *note = json_array_get(history, i);
        if (json_text_is(note, "what", "asked") && json_text_is(note, "task", task))
            return json_get_string(note, "time", NULL);
    }
    return NULL;
}

/* What a run asks, also while its other branches run, for a reader that shows all that wait for a person in one place. */
static void add_questions(const json_t *stage, json_t *questions)
{
    static const char *const keys[] = {"run_id", "request_id", "flow", "source", NULL};
    json_each (json_object_get(stage, "questions"), i, open) {
        json_t *question = pick_keys(stage, keys);
        json_object_update(question, open);
        const char *asked = asked_at(stage, json_get_string(open, "task", ""));
        if (asked)
            json_object_set_new(question, "asked_at", json_string(asked));
        json_array_append_new(questions, question);
    }
}

static const char *const run_keys[] = {"run_id",     "request_id", "flow",        "source", "status",
                                       "started_at", "ended_at",   "duration_ms", "counts", "reason_code",
                                       "started_by", "reason",     NULL};

static json_t *overview_run(const struct op_call *call, json_t *stage)
{
    run_read_reasons(stage, call->lang);
    return pick_keys(stage, run_keys);
}

/* The runs that continue or wait, into `runs`; `seen` has their ids. */
static int add_open_runs(struct op_call *call, json_t *runs, json_t *seen, json_t *questions, struct tsk_error *err)
{
    json_t *marked CLEANUP_JSON = NULL;
    if (rundir_list_open(call->ws, &marked, err) < 0)
        return -1;
    json_each (marked, i, id) {
        json_t *stage CLEANUP_JSON =
            json_array_size(runs) < OVERVIEW_RUNS ? overview_stage(call->ws, json_string_value(id)) : NULL;
        if (stage && stage_is_open(stage)) {
            json_array_append_new(runs, overview_run(call, stage));
            add_questions(stage, questions);
            json_object_set_new(seen, json_string_value(id), json_true());
        }
    }
    return 0;
}

/* What continues or waits comes first, then what is over, each the newest first: a reader that shows only some of them cuts at the
 * end. No more runs are looked at than are shown, however many there are. */
static int add_runs(struct op_call *call, struct run_names *names, json_t *answer, struct tsk_error *err)
{
    json_t *runs CLEANUP_JSON = json_array(), *over CLEANUP_JSON = json_array(), *seen CLEANUP_JSON = json_object();
    json_t *questions = json_array();
    json_object_set_new(answer, "questions", questions);
    if (add_open_runs(call, runs, seen, questions, err) < 0)
        return -1;
    for (size_t i = 0; i < OVERVIEW_RUNS && json_array_size(over) < RUNS_OVER_SHOWN; i++) {
        const char *id = run_names_next(names);
        json_t *stage CLEANUP_JSON = !id || json_object_get(seen, id) ? NULL : stage_or_broken(call, id);
        if (stage)
            json_array_append_new(stage_is_open(stage) ? runs : over, overview_run(call, stage));
    }
    json_array_extend(runs, over);
    json_each (runs, i, run)
        if (call->is_cli)
            short_id_put(call, short_ids_of_runs(names), json_get_string(run, "run_id", ""));
    json_object_set(answer, "runs", runs);
    return 0;
}

/* ---- requests and workflows ------------------------------------------------------------------------------- */

/* For people: the short forms of the requests that are shown, and of those whose runs are. */
static void shorten_requests(struct op_call *call, const struct book *book, const json_t *answer)
{
    json_t *ids CLEANUP_JSON = json_array();
    if (!call->is_cli)
        return;
    for (size_t i = 0; i < book->count; i++)
        json_array_append_new(ids, json_string(book->entries[i].request.id));
    json_each (json_object_get(answer, "requests"), i, one)
        short_id_put(call, short_ids_of_texts(ids), json_get_string(one, "id", ""));
    json_each (json_object_get(answer, "runs"), i, one)
        short_id_put(call, short_ids_of_texts(ids), json_get_string(one, "request_id", ""));
}

static int add_requests(struct op_call *call, const struct run_names *names, json_t *answer, struct tsk_error *err)
{
    static const char *const keys[] = {"id", "title", "status", "priority", "depends_on", NULL};
    struct book book CLEANUP(book_clear) = {0};
    if (book_open(call->ws, false, call->lang, &book, err) < 0)
        return -1;
    json_t *requests = json_array();
    for (size_t i = 0; i < book.count && json_array_size(requests) < REQUESTS_SHOWN; i++) {
        const char *status = book_status(&book.entries[i]);
        if (strcmp(status, "done") == 0 || strcmp(status, "archived") == 0)
            continue;
        json_t *whole CLEANUP_JSON = book_json(&book.entries[i]);
        json_t *shown = pick_keys(whole, keys);
        json_object_set_new(shown, "status", json_string(status));
        const char *run = json_get_string(book.entries[i].run, "run_id", "");
        json_object_set_new(shown, "run_id", json_string(run));
        if (call->is_cli)
            short_id_put(call, short_ids_of_runs(names), run);
        json_array_append_new(requests, shown);
    }
    json_object_set_new(answer, "requests", requests);
    shorten_requests(call, &book, answer);
    json_t *queue = NULL;
    if (queue_status(call->ws, &book, &queue, err) < 0)
        return -1;
    json_object_set_new(answer, "queue", queue);
    return 0;
}

/* ---- confirmations ---------------------------------------------------------------------------------------- */

/* The holder (of a lock) or owner (of a workflow) that would lose something by the yes: who, and whether it lives. */
static void add_loser(json_t *confirmation, const json_t *locks, const json_t *workflows)
{
    const json_t *args = json_object_get(confirmation, "args");
    const char *kind = json_get_string(args, "kind", "name"), *id = json_get_string(args, "id", NULL);
    const char *workflow = json_get_string(args, "ulTaskId", NULL);
    bool is_sprint = strncmp(json_get_string(confirmation, "operation", ""), "sprint.", 7) == 0;
    json_each (locks, i, one) {
        const json_t *holder = json_object_get(one, "holder");
        const char *its_kind = json_get_string(one, "kind", "");
        bool is_it = is_sprint ? strcmp(its_kind, "sprint") == 0
                               : id && strcmp(its_kind, kind) == 0 && json_text_is(one, "id", id);
        if (!is_it)
            continue;
        json_object_set(confirmation, "from", json_object_get(holder, "who"));
        json_object_set(confirmation, "from_alive", json_object_get(holder, "alive"));
        json_object_set(confirmation, "how", json_object_get(holder, "how"));
    }
    json_each (workflows, i, one)
        if (workflow && json_text_is(one, "ulTaskId", workflow)) {
            json_object_set(confirmation, "from", json_object_get(one, "who"));
            json_object_set(confirmation, "from_alive", json_object_get(one, "ownerAlive"));
            json_object_set(confirmation, "how", json_object_get(one, "how"));
        }
}

/* The lock, workflow, process or request that the call names; several with commas between them. */
static void add_thing(json_t *confirmation)
{
    static const char *const keys[] = {"ulTaskId", "id", "flow"};
    const json_t *args = json_object_get(confirmation, "args"), *named = NULL;
    struct buf thing CLEANUP(buf_clear) = BUF_INIT;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && !named; i++)
        named = json_object_get(args, keys[i]);
    json_each (named, i, one)
        buf_printf(&thing, "%s%s", i ? ", " : "", json_string_value(one) ? json_string_value(one) : "");
    json_object_set_new(confirmation, "thing",
                        json_is_string(named) ? json_copy((json_t *)named)
                        : thing.len           ? json_string(buf_str(&thing))
                                              : json_null());
}

/* An agent sees that others ask, without the token: that is a person's right to answer. */
static void add_confirmations(struct op_call *call, const json_t *locks, json_t *answer)
{
    json_t *list = confirm_list(call->ws, false);
    json_each (list, i, one) {
        struct who who;
        who_look(call->ws, json_get_string(one, "instance", ""), &who);
        json_object_set_new(one, "asked_by", who.label[0] ? who_json(&who) : json_null());
        add_thing(one);
        add_loser(one, locks, json_object_get(answer, "workflows"));
        if (call->is_brief || (call->is_cli && who_current()->is_agent))
            json_object_del(one, "token");
        json_object_del(one, "args"); /* the question says what matters; an argument may be a secret */
    }
    json_object_set_new(answer, "confirmations", list);
}

/* The newest event that the answer knows: a stream from behind it misses nothing. Read before everything else. */
static int add_event_id(struct op_call *call, json_t *answer, struct tsk_error *err)
{
    struct event_reader reader;
    if (event_reader_init(&reader, call->ws->state_dir, EVENT_FROM_END, err) < 0)
        return -1;
    json_object_set_new(answer, "event_id", json_integer(reader.next_id ? (json_int_t)reader.next_id - 1 : 0));
    event_reader_clear(&reader);
    return 0;
}

static int add_workflows(struct op_call *call, json_t *answer, struct tsk_error *err)
{
    json_t *list = NULL;
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    if (db_exists(call->ws->state_dir) &&
        (owners_open(&owners, call->ws, err) < 0 || workflow_list(&owners, NULL, true, &list, err) < 0))
        return -1;
    size_t count = json_array_size(list);
    while (json_array_size(list) > WORKFLOWS_SHOWN)
        json_array_remove(list, json_array_size(list) - 1);
    json_object_set_new(answer, "workflows", list ? list : json_array());
    if (count > WORKFLOWS_SHOWN)
        json_object_set_new(answer, "more_workflows", json_integer((json_int_t)(count - WORKFLOWS_SHOWN)));
    return 0;
}

/* The machine, and whether there is a report of doctor to ask for. */
static void overview_add_place(struct op_call *call, json_t *answer)
{
    struct stat st;
    json_object_set_new(answer, "host", json_string(host_name()));
    if (fs->fstatat(call->ws->state_dir, DOCTOR_REPORT_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    json_object_set_new(answer, "examined_at",
                        json_string(TIME_EXACT(st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000)));
}

int overview_make(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    json_t *locks CLEANUP_JSON = NULL, *processes CLEANUP_JSON = NULL, *answer CLEANUP_JSON = json_object();
    size_t most = call->is_brief ? OVERVIEW_BRIEF : SIZE_MAX, total;
    char here[PATH_MAX];
    bool trusted; /* a broken config.yaml is said here, not only where it is needed */
    if (add_event_id(call, answer, err) < 0 || workspace_config_bool(call->ws, "trust_fs", &trusted, err) < 0 ||
        locks_list(call->ws, NULL, call->root, &locks, err) < 0 ||
        (call->is_written ? proc_overview_to_write : proc_overview)(
            call->ws, call->is_remote ? NULL : proc_args_directory(call, here), most, &processes, &total, err) < 0)
        return -1;
    struct now now = clock_now();
    json_t *facts CLEANUP_JSON =
        json_pack("{s:s, s:s, s:s, s:s, s:O, s:O}", "version", TASUKI_VERSION, "root", call->ws->root, "state",
                  call->ws->state_path, "time", TIME_EXACT(now.wall_ms), "locks", locks, "processes", processes);
    json_object_update(answer, facts);
    overview_add_place(call, answer);
    struct run_names names CLEANUP(run_names_clear);
    if (run_names_open(call->ws, RUNS_FOLDER, &names, err) < 0 || add_runs(call, &names, answer, err) < 0 ||
        add_requests(call, &names, answer, err) < 0 || add_workflows(call, answer, err) < 0)
        return -1;
    add_confirmations(call, locks, answer);
    json_object_set_new(answer, "waiting",
                        waits_list(call->ws, locks, json_object_get(answer, "workflows"), processes));
    if (total > most)
        json_object_set_new(answer, "processes_total", json_integer((json_int_t)total));
    *ret = json_incref(answer);
    return 0;
}
