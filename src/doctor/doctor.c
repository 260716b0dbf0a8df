/* doctor.c - performs the checks of checks.def, and makes the report. */
#include "doctor/doctor.h"
#include "base/log.h"
#include "doctor/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check {
    const char *name;      /* in the report */
    const char *title;     /* text key */
    enum doctor_mode mode; /* DOCTOR_QUICK: also before every run */
    void (*look)(struct finding *f);
};

static const struct check checks[] = {
#define X(name, mode) {#name, "doctor_title_" #name, DOCTOR_##mode, check_##name},
#include "doctor/checks.def"
#undef X
};

const char *doctor_status_name(enum doctor_status status)
{
    static const char *const names[] = {[DOCTOR_PASS] = "PASS", [DOCTOR_WARN] = "WARN", [DOCTOR_FAIL] = "FAIL"};
    return names[status];
}

static json_t *array_or_null(json_t *array)
{
    return json_array_size(array) ? json_incref(array) : NULL;
}

/* One problem is its own summary; of several the first of the worst kind, and how many more. */
static void put_summary(struct finding *f, struct buf *b)
{
    if (f->problems == 0) {
        buf_puts(b, buf_str(&f->summary));
        return;
    }
    buf_puts(b, buf_str(&f->first));
    if (f->problems > 1) {
        buf_puts(b, " ");
        text_put(b, f->doctor->options.lang, "doctor_and_more", "count", DIGITS(f->problems - 1), NULL);
    }
}

static json_t *finding_json(const struct check *check, struct finding *f)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    put_summary(f, &b);
    if (f->untold) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        text_put(&line, f->doctor->options.lang, "doctor_and_more", "count", DIGITS(f->untold), NULL);
        json_array_append_new(f->evidence, json_string(buf_str(&line)));
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:O, s:o*, s:o*}", "name", check->name, "title",
                     text_get(check->title, f->doctor->options.lang), "status", doctor_status_name(f->status),
                     "summary", json_of_text(buf_str(&b)), "evidence", f->evidence, "fix", array_or_null(f->fix),
                     "fixed", array_or_null(f->fixed));
}

static void finding_clear(struct finding *f)
{
    json_decref(f->evidence);
    json_decref(f->fix);
    json_decref(f->fixed);
    buf_clear(&f->summary);
    buf_clear(&f->first);
}

/* Records that something was changed, and by which check. */
static void report_mended(struct doctor *d, const struct check *check)
{
    char data[128];
    struct tsk_error err;
    snprintf(data, sizeof data, "{\"check\":\"%s\"}", check->name);
    struct event event = {.type = "doctor.fixed", .data = data};
    if (workspace_event(d->ws, &d->now, &event, &err) < 0)
        log_problem(&err);
}

/* Looks; adds what was found to `list`. */
static enum doctor_status check_perform(const struct check *check, struct doctor *d, json_t *list)
{
    struct finding f = {.doctor = d,
                        .evidence = json_array(),
                        .fix = json_array(),
                        .fixed = json_array(),
                        .summary = BUF_INIT,
                        .first = BUF_INIT};
    check->look(&f);
    if (f.is_mended)
        report_mended(d, check);
    if (!f.is_absent)
        json_array_append_new(list, finding_json(check, &f));
    enum doctor_status status = f.is_absent ? DOCTOR_PASS : f.status;
    finding_clear(&f);
    return status;
}

int doctor_examine(struct tsk_workspace *ws, const struct doctor_options *options, json_t **ret, struct tsk_error *err)
{
    struct doctor d = {
        .ws = ws, .options = *options, .now = clock_now(), .recovered = json_array(), .newest_event_ms = -1};
    json_t *list = json_array();
    enum doctor_status worst = DOCTOR_PASS;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        if (options->mode == DOCTOR_QUICK && checks[i].mode != DOCTOR_QUICK)
            continue;
        enum doctor_status status = check_perform(&checks[i], &d, list);
        worst = status > worst ? status : worst;
    }
    db_close(&d.db);
    *ret = json_pack("{s:s, s:s, s:o, s:o}", "status", doctor_status_name(worst), "mode",
                     options->mode == DOCTOR_QUICK ? "quick" : "full", "checks", list, "recovered", d.recovered);
    return *ret ? 0 : error_set(err, TSK_INTERNAL, NULL, NULL);
}

/* The first check that failed, as an error. */
static int report_failure(const json_t *report, struct tsk_error *err)
{
    json_each (json_object_get(report, "checks"), i, check) {
        if (!json_text_is(check, "status", "FAIL"))
            continue;
        error_set(err, TSK_DOCTOR_FAILED, "doctor_failed", "check", json_get_string(check, "name", ""), "title",
                  json_get_string(check, "title", ""), "reason", json_get_string(check, "summary", ""), NULL);
        json_each (json_object_get(check, "fix"), k, command)
            error_add_next(err, "%s", json_string_value(command));
        return error_add_next(err, "tasuki doctor");
    }
    return 0;
}

int doctor_quick(struct tsk_workspace *ws, const char *request_id, enum lang lang, struct tsk_error *err)
{
    json_t *report CLEANUP_JSON = NULL;
    struct doctor_options options = {.mode = DOCTOR_QUICK, .lang = lang, .request_id = request_id};
    if (doctor_examine(ws, &options, &report, err) < 0)
        return -1;
    return report_failure(report, err);
}
