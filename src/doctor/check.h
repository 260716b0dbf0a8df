/* check.h - the interface between the checks and the table: the input of a check, and how it reports its findings.
 *
 *     finding_add(f, DOCTOR_WARN, "doctor_torn_line", "file", name, NULL);   // evidence; the worst one is the check's status
 *     finding_fix(f, "chmod 700 %s", quoted);                                // a command that fixes it
 *     finding_summary(f, "doctor_locks_sum", "count", digits, NULL);         // said when nothing is wrong */
#ifndef DOCTOR_CHECK_H
#define DOCTOR_CHECK_H

#include "base/clock.h"
#include "base/fs.h"
#include "base/word.h"
#include "doctor/doctor.h"
#include "store/db.h"

#define EVIDENCE_MAX 20 /* lines of a check that are shown; the rest is counted */

/* One examination. */
struct doctor {
    struct tsk_workspace *ws;
    struct doctor_options options;
    struct now now;
    json_t *recovered;       /* locks, as in lock.list */
    struct db db;            /* open after the check "database", unless its handle is NULL */
    int64_t newest_event_ms; /* the greatest time in the trail, after the check "events"; -1: none */
};

/* What one check has found so far. */
struct finding {
    struct doctor *doctor;
    enum doctor_status status;
    bool is_mended; /* an event is due */
    bool is_absent; /* the subject does not exist here: the check is not listed */
    json_t *evidence, *fix, *fixed;
    size_t problems, told, untold; /* lines of evidence: that are no PASS; shown; left out */
    struct buf summary, first;     /* when all is well; the first line of the worst kind */
};

/* A line of evidence: the sentence `key` with its pairs. */
void finding_add(struct finding *f, enum doctor_status status, const char *key, ...) __attribute__((sentinel));
/* The sentence of an error as evidence. */
void finding_error(struct finding *f, enum doctor_status status, const struct tsk_error *err);
void finding_summary(struct finding *f, const char *key, ...) __attribute__((sentinel));
/* Reports a fix as a sentence, and as an event. */
void finding_fixed(struct finding *f, const char *key, ...) __attribute__((sentinel));
/* The same for a fix that has its own event, or none because every look makes it. */
void finding_recovered(struct finding *f, const char *key, ...) __attribute__((sentinel));
/* Adds a command that fixes it; a repeated command is shown once. */
void finding_fix(struct finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "tasuki [--root R] <the words>". */
void finding_fix_ours(struct finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A string, whatever bytes a file name in it has. */
json_t *json_of_text(const char *text);
bool finding_fixes(const struct finding *f); /* --fix */

/* `.aiflow/<name>` as a path for people, and quoted for a command. */
void state_path(const struct doctor *d, const char *name, char path[PATH_MAX]);
const char *state_word(const struct doctor *d, const char *name, struct buf *b);
void put_bytes(uint64_t bytes, char text[32]); /* "12 MiB" */

/* ---- the checks ---- */

#define X(name, mode) void check_##name(struct finding *f);
#include "doctor/checks.def"
#undef X

#endif
