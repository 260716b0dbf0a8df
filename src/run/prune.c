#include "run/prune.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/word.h"
#include "base/yaml.h"
#include "graph/journal.h"
#include "graph/run_names.h"
#include "run/book.h"
#include "run/settle.h"

#include <stdlib.h>
#include <string.h>

#define DAY_MS      ((int64_t)24 * 60 * 60 * 1000)
#define DAYS_MAX    36500
#define LOOKED_EACH 10 /* runs that are opened for each one that may go */

/* ---- configuration -------------------------------------------------------------------------------------- */

static int keep_number(const struct yaml *doc, const struct yaml_node *keep, const char *key, int64_t max, int64_t *ret,
                       struct tsk_error *err)
{
    const struct yaml_node *node = yaml_get(keep, key);
    char path[32];
    snprintf(path, sizeof path, "keep.%s", key);
    if (node && (yaml_int(node, ret) < 0 || *ret < 0 || *ret > max))
        return yaml_error(doc, node, err, "yaml_why_range", "key", path, "min", "0", "max", DIGITS(max), NULL);
    return 0;
}

int prune_config(struct tsk_workspace *ws, struct prune *ret, struct tsk_error *err)
{
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    int64_t days = PRUNE_KEEP_DAYS;
    *ret = (struct prune){.runs = PRUNE_KEEP_RUNS};
    int found = workspace_config(ws, &doc, err);
    const struct yaml_node *keep = found == 1 ? yaml_get(yaml_root(doc), "keep") : NULL;
    static const char *const keys[] = {"runs", "days", NULL};
    if (found < 0 || config_need_keys(doc, keep, keys, err) < 0 ||
        keep_number(doc, keep, "runs", INT32_MAX, &ret->runs, err) < 0 ||
        keep_number(doc, keep, "days", DAYS_MAX, &days, err) < 0)
        return -1;
    ret->age_ms = days * DAY_MS;
    return 0;
}

/* ---- one run -------------------------------------------------------------------------------------------- */

/* K1, with the bytes held (D4). If the runner was killed before it wrote the stage, or the disk was full, only the journal says
 * that the run has ended. */
static bool is_run_over(const struct rundir *run)
{
    struct tsk_error unreadable;
    json_t *stage CLEANUP_JSON = NULL, *records CLEANUP_JSON = NULL;
    if (rundir_read_stage(run, &stage, &unreadable) == 0 && rundir_is_over(json_get_string(stage, "status", "")))
        return true;
    return journal_read(run->dir, &records, &unreadable) == 0 && rundir_is_over(rundir_end_of(records));
}

/* K3; in doubt it is. */
static bool is_latest_of_request(struct tsk_workspace *ws, const char *run_id, const json_t *stage)
{
    char latest[RUN_ID_MAX];
    struct tsk_error err;
    struct request request CLEANUP(request_clear) = {.json = NULL};
    const char *id = json_get_string(stage, "request_id", NULL);
    if (!id)
        return false;
    if (request_read(ws, id, LANG_EN, &request, &err) < 0 && err.code == TSK_REQUEST_NOT_FOUND)
        return false;
    return book_latest_run(ws, id, latest, &err) < 0 || strcmp(latest, run_id) == 0;
}

static bool is_old_enough(const json_t *stage, int64_t before_ms)
{
    int64_t ended_ms;
    return time_parse(json_get_string(stage, "ended_at", ""), &ended_ms) < 0 || ended_ms < before_ms;
}

static void removal_tell(struct tsk_workspace *ws, const struct rundir *run, const json_t *stage, const char *why)
{
    workspace_report(ws, (struct event){.type = "run.removed", .run_id = run->id},
                     json_pack("{s:s, s:s, s:s?}", "why", why, "status", json_get_string(stage, "status", ""),
                               "request_id", json_get_string(stage, "request_id", NULL)));
}

static int remove_taken(struct tsk_workspace *ws, struct rundir *run, const json_t *stage, const char *why,
                        struct tsk_error *err)
{
    if (rundir_remove(ws, run, err) < 0)
        return -1;
    removal_tell(ws, run, stage, why);
    return 0;
}

/* Whether it may go; without `prune->is_dry` it is gone then. */
static bool prune_one(struct tsk_workspace *ws, const struct prune *prune, const char *id, int64_t before_ms)
{
    struct rundir run;
    struct tsk_error err;
    json_t *stage CLEANUP_JSON = NULL;
    if (rundir_open(ws, id, &run, &err) < 0)
        return false;
    bool goes = rundir_look(&run, &stage, &err) == 0 && rundir_is_over(json_get_string(stage, "status", "")) &&
                is_old_enough(stage, before_ms) && !is_latest_of_request(ws, id, stage) && !settle_is_due(ws, id);
    if (goes && !prune->is_dry)
        goes = rundir_take_for_removal(&run, &err) == 0 && is_run_over(&run) &&
               remove_taken(ws, &run, stage, "prune", &err) == 0;
    rundir_clear(&run);
    return goes;
}

/* ---- all of them ---------------------------------------------------------------------------------------- */

static size_t random_below(size_t count)
{
    char hex[9];
    random_hex(hex, 8);
    return strtoul(hex, NULL, 16) % count;
}

/* The next of those that may go: the newest first, or in an order of chance, so that a run that has to stay is not looked at each
 * time. NULL: no more. */
static const char *prune_next(const struct prune *prune, struct run_names *names, size_t start, size_t *at)
{
    if (!prune->max)
        return run_names_next(names);
    return *at < names->left ? names->ids[(start + (*at)++) % names->left] : NULL;
}

static bool is_id_before(const char *id, int64_t before_ms)
{
    int64_t time_ms = time_of_id(id);
    return time_ms >= 0 && time_ms < before_ms;
}

int prune_runs(struct tsk_workspace *ws, const struct prune *prune, json_t **ret, struct tsk_error *err)
{
    struct run_names names CLEANUP(run_names_clear);
    int64_t before_ms = clock_now().wall_ms - prune->age_ms;
    size_t looked = 0, at = 0;
    *ret = NULL;
    if (!prune->is_dry)
        rundir_sweep_gone(ws, prune->max ? prune->max : SIZE_MAX);
    if (run_names_open(ws, RUNS_FOLDER, &names, err) < 0)
        return -1;
    *ret = json_array();
    for (int64_t i = 0; i < prune->runs && run_names_next(&names); i++)
        ; /* the newest stay */
    size_t start = prune->max && names.left ? random_below(names.left) : 0;
    for (const char *id; (id = prune_next(prune, &names, start, &at));) {
        if (prune->max && (json_array_size(*ret) == prune->max || looked == prune->max * LOOKED_EACH))
            break;
        bool is_due = is_id_before(id, before_ms);
        looked += is_due;
        if (is_due && prune_one(ws, prune, id, before_ms))
            json_array_append_new(*ret, json_string(id));
    }
    return 0;
}

void prune_after_run(struct tsk_workspace *ws)
{
    struct tsk_error err;
    struct prune prune;
    json_t *gone CLEANUP_JSON = NULL;
    int result = prune_config(ws, &prune, &err);
    prune.max = PRUNE_EACH_TIME;
    if (result < 0 || prune_runs(ws, &prune, &gone, &err) < 0)
        log_problem(&err);
}

/* ---- runs rm -------------------------------------------------------------------------------------------- */

static int removal_refuse(const struct rundir *run, const json_t *stage, enum tsk_code code, const char *text,
                          struct tsk_error *err)
{
    error_set(err, code, text, "run", run->id, "run_id", run->id, NULL);
    rundir_add_starter(stage, err);
    if (code == TSK_RUN_IN_PROGRESS)
        error_add_next(err, "tasuki wait run %s", run->id); /* whose it is may be somebody who lives */
    error_add_next(err, "tasuki runs show %s", run->id);
    if (code != TSK_RUN_IN_PROGRESS)
        error_add_next(err, "tasuki runs cancel %s", run->id);
    return -1;
}

/* K1: with one command that is right for the state that it has. */
static int need_over(const struct rundir *run, const json_t *stage, struct tsk_error *err)
{
    const char *status = json_get_string(stage, "status", "");
    if (rundir_is_over(status))
        return 0;
    if (strcmp(status, "RUNNING") == 0)
        return removal_refuse(run, stage, TSK_RUN_IN_PROGRESS, "run_has_runner", err);
    if (strcmp(status, "NEEDS_INPUT") == 0)
        return removal_refuse(run, stage, TSK_NEEDS_INPUT, "run_rm_waits", err);
    return removal_refuse(run, stage, TSK_CONFLICT, "run_rm_interrupted", err);
}

static int refuse_latest(const struct rundir *run, const json_t *stage, struct tsk_error *err)
{
    const char *request = json_get_string(stage, "request_id", "");
    error_set(err, TSK_CONFLICT, "run_rm_latest", "run", run->id, "request", request, "run_id", run->id, NULL);
    error_add(err, "request_id", request);
    return error_add_next(err, "tasuki request rm %s", request);
}

static int remove_opened(struct tsk_workspace *ws, struct rundir *run, struct tsk_error *err)
{
    json_t *stage CLEANUP_JSON = NULL;
    if (rundir_look(run, &stage, err) < 0 || need_over(run, stage, err) < 0 || rundir_take_for_removal(run, err) < 0)
        return -1;
    if (!is_run_over(run)) /* resumed and killed meanwhile, or damaged */
        return removal_refuse(run, stage, TSK_CONFLICT, "run_rm_interrupted", err);
    if (is_latest_of_request(ws, run->id, stage))
        return refuse_latest(run, stage, err);
    if (settle_run(ws, run->id, err) < 0)
        return -1;
    return remove_taken(ws, run, stage, "rm", err);
}

int prune_remove(struct tsk_workspace *ws, const char *name, char run_id[RUN_ID_MAX], struct tsk_error *err)
{
    struct rundir run;
    if (rundir_open(ws, name, &run, err) < 0)
        return -1;
    memcpy(run_id, run.id, RUN_ID_MAX);
    int result = remove_opened(ws, &run, err);
    rundir_clear(&run);
    return result;
}
