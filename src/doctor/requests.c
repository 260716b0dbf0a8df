/* requests.c - request files that cannot be understood, and requests that wait for what will never come. */
#include "doctor/check.h"
#include "run/book.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *file_word(const struct finding *f, const struct request *request, struct buf *b)
{
    return state_word(f->doctor, request->source + strlen(".aiflow/"), b);
}

static void suggest_editing(struct finding *f, const struct request *request, int64_t line)
{
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    finding_fix(f, "${EDITOR:-vi} +%lld %s", (long long)line, file_word(f, request, &word));
}

/* RQ-….yaml of what the file is called now. */
static void proper_name(const char *name, char ret[LOCK_ID_MAX + 32])
{
    char id[LOCK_ID_MAX] = "";
    size_t stem = strlen(name) - strlen(strrchr(name, '.')), n = 0;
    for (size_t i = 0; i < stem && n < sizeof id - sizeof REQUEST_PREFIX; i++) {
        bool is_good = isalnum((unsigned char)name[i]) || strchr("._-", name[i]);
        if (is_good || n == 0 || id[n - 1] != '-')
            id[n++] = is_good ? name[i] : '-';
    }
    bool has_prefix = strncmp(id, REQUEST_PREFIX, strlen(REQUEST_PREFIX)) == 0;
    snprintf(ret, LOCK_ID_MAX + 32, REQUEST_FOLDER "/%s%s" REQUEST_SUFFIX, has_prefix ? "" : REQUEST_PREFIX, id);
}

static void suggest_renaming(struct finding *f, const struct request *request)
{
    char name[LOCK_ID_MAX + 32];
    struct buf from CLEANUP(buf_clear) = BUF_INIT, to CLEANUP(buf_clear) = BUF_INIT;
    proper_name(strrchr(request->source, '/') + 1, name);
    finding_fix(f, "mv -n %s %s", file_word(f, request, &from), state_word(f->doctor, name, &to));
}

/* An editor does not help where no file is. */
static void suggest_request(struct finding *f, const struct request *request)
{
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    const char *path = file_word(f, request, &word);
    bool is_misnamed = request->is_stray || strncmp(request->id, REQUEST_PREFIX, strlen(REQUEST_PREFIX)) != 0;
    if (request->read_errno == ELOOP)
        finding_fix(f, "cp --remove-destination \"$(realpath %s)\" %s", path, path);
    else if (request->read_errno == EINVAL)
        finding_fix(f, "mv %s %s.aside", path, path);
    else if (is_misnamed)
        suggest_renaming(f, request);
    else
        suggest_editing(f, request, json_get_int(json_array_get(request->problems, 0), "line", 1));
}

static void tell_problems(struct finding *f, const struct request *request)
{
    json_each (request->problems, i, problem) {
        finding_add(f, DOCTOR_WARN, "yaml_invalid", "source", request->source, "line",
                    DIGITS(json_get_int(problem, "line", 1)), "column", DIGITS(json_get_int(problem, "column", 1)),
                    "reason", json_get_string(problem, "reason", "?"), NULL);
    }
    suggest_request(f, request);
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
    if (book_open(f->doctor->ws, false, f->doctor->options.lang, &book, &err) < 0) {
        finding_error(f, DOCTOR_FAIL, &err);
        return;
    }
    for (size_t i = 0; i < book.count; i++)
        look_at_entry(f, &book.entries[i]);
    f->is_absent = book.count == 0;
    finding_summary(f, "doctor_requests_good", "count", DIGITS(book.count), NULL);
}
