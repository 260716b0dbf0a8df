/* database.c - state.db, always through SQLite (see store/db.h). */
#include "doctor/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define STUCK_MS 10000 /* events that waited longer were left by somebody who died */

static void look_inside(struct finding *f)
{
    struct tsk_error err;
    struct db_rows rows CLEANUP(db_rows_free) = {0};
    int more = db_query(&f->doctor->db, &rows, &err, "PRAGMA integrity_check(20)");
    if (more == 0)
        more = db_next(&rows, &err);
    for (; more == 1; more = db_next(&rows, &err)) {
        const char *line = db_column_text(&rows, 0);
        if (line && strcmp(line, "ok") != 0)
            finding_add(f, DOCTOR_FAIL, "doctor_db_line", "reason", line, NULL);
    }
    if (more < 0)
        finding_error(f, DOCTOR_FAIL, &err);
}

/* What is registered in it is lost with it; the processes themselves and their files are not. */
static void suggest_new(struct finding *f)
{
    struct buf from CLEANUP(buf_clear) = BUF_INIT, to CLEANUP(buf_clear) = BUF_INIT;
    char name[64];
    snprintf(name, sizeof name, "damaged/%lld",
             (long long)(f->doctor->now.wall_ms / 1000)); /* not over an earlier one */
    const char *folder = state_word(f->doctor, name, &to);
    finding_fix(f, "mkdir -p %s && mv %s* %s/", folder, state_word(f->doctor, "state.db", &from), folder);
}

void check_database(struct finding *f)
{
    struct tsk_error err;
    struct stat st;
    char size[32];
    struct doctor *d = f->doctor;
    if (fs->fstatat(d->ws->state_dir, "state.db", &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT) {
        finding_summary(f, "doctor_db_none", NULL); /* made by the first who needs it */
        return;
    }
    if (db_open(&d->db, d->ws->state_dir, &err) < 0) {
        bool is_damaged = err.text && strcmp(err.text, "db_damaged") == 0;
        finding_error(f, DOCTOR_FAIL, &err);
        if (is_damaged)
            suggest_new(f);
        return;
    }
    put_bytes((uint64_t)st.st_size, size);
    finding_summary(f, "doctor_db_good", "size", size, NULL);
    if (d->options.mode == DOCTOR_FULL)
        look_inside(f);
    if (f->status == DOCTOR_FAIL) {
        suggest_new(f);
        db_close(&d->db);
    }
}

/* ---- events that wait for the trail ---- */

static bool is_stuck(const char *line, const struct now *now)
{
    json_t *event CLEANUP_JSON = line ? json_loads(line, 0, NULL) : NULL;
    int64_t time;
    return !event || time_parse(json_get_string(event, "time", ""), &time) < 0 || now->wall_ms - time > STUCK_MS;
}

void check_outbox(struct finding *f)
{
    struct tsk_error err;
    struct db_rows rows CLEANUP(db_rows_free) = {0};
    struct doctor *d = f->doctor;
    int64_t stuck = 0;
    if (!db_is_open(&d->db)) {
        f->is_absent = true;
        return;
    }
    finding_summary(f, "doctor_outbox_good", NULL);
    int more = db_query(&d->db, &rows, &err, "SELECT line FROM outbox ORDER BY id");
    if (more == 0)
        more = db_next(&rows, &err);
    for (; more == 1; more = db_next(&rows, &err))
        stuck += is_stuck(db_column_text(&rows, 0), &d->now);
    db_rows_free(&rows);
    if (more < 0)
        finding_error(f, DOCTOR_FAIL, &err);
    if (!stuck)
        return;
    const char *count = DIGITS(stuck);
    if (finding_fixes(f) && workspace_flush_outbox(d->ws, &d->db, &err) == 0) {
        finding_fixed(f, "doctor_outbox_fixed", "count", count, NULL);
        return;
    }
    finding_add(f, DOCTOR_WARN, "doctor_outbox", "count", count, NULL);
    finding_fix_ours(f, "doctor --fix");
}
