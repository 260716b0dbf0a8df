/* requests.c - request files that cannot be understood, and requests that wait for what will never come. */
#include "doctor/check.h"
#include "run/book.h"

#include <stdio.h>
#include <string.h>

static void suggest_editing(struct finding *f, const struct request *request, int64_t line)
{
    char name[LOCK_ID_MAX + 32];
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    snprintf(name, sizeof name, REQUEST_FOLDER "/%s" REQUEST_SUFFIX, request->id);
    finding_fix(f, "${EDITOR:-vi} +%lld %s", (long long)line, state_word(f->doctor, name, &word));
}

static void tell_problems(struct finding *f, const struct request *request)
{
    size_t i;
    json_t *problem;
    json_array_foreach (request->problems, i, problem) {
        char line[24], column[24];
        number_text(json_get_int(problem, "line", 1), line);
        number_text(json_get_int(problem, "column", 1), column);
        finding_add(f, DOCTOR_WARN, "yaml_invalid", "source", request->source, "line", line, "column", column, "reason",
                    json_get_string(problem, "reason", "?"), NULL);
    }
    suggest_editing(f, request, json_get_int(json_array_get(request->problems, 0), "line", 1));
}

static void look_at_entry(struct finding *f, const struct book_entry *entry)
{
    const struct request *request = &entry->request;
    bool is_endless = entry->reason == BOOK_DEPENDS_CYCLE || entry->reason == BOOK_DEPENDS_NOT_FOUND;
    if (request_is_broken(request)) {
        tell_problems(f, request);
    } else if (is_endless) {
        finding_add(f, DOCTOR_WARN,
                    entry->reason == BOOK_DEPENDS_CYCLE ? "doctor_request_cycle" : "doctor_request_not_found",
                    "request", request->id, "detail", buf_str(&entry->detail), NULL);
        suggest_editing(f, request, 1);
    }
}

void check_requests(struct finding *f)
{
    struct tsk_error err;
    struct book book CLEANUP(book_clear) = {0};
    char count[24];
    if (book_open(f->doctor->ws, false, f->doctor->options.lang, &book, &err) < 0) {
        finding_error(f, DOCTOR_FAIL, &err);
        return;
    }
    for (size_t i = 0; i < book.count; i++)
        look_at_entry(f, &book.entries[i]);
    f->is_absent = book.count == 0;
    finding_summary(f, "doctor_requests_good", "count", number_text((int64_t)book.count, count), NULL);
}
