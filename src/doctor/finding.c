/* finding.c - how a check tells what it found. */
#include "doctor/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *json_of_text(const char *text)
{
    json_t *value = json_string(text);
    if (value)
        return value;
    struct buf clean CLEANUP(buf_clear) = BUF_INIT;
    buf_json_string(&clean, text);
    value = json_loads(buf_str(&clean), JSON_DECODE_ANY, NULL);
    return value ? value : json_string("");
}

static void add_line(struct finding *f, enum doctor_status status, const char *line)
{
    if (status > f->status || (status != DOCTOR_PASS && f->problems == 0)) {
        buf_reset(&f->first);
        buf_puts(&f->first, line);
    }
    f->status = status > f->status ? status : f->status;
    f->problems += status != DOCTOR_PASS;
    if (f->told == EVIDENCE_MAX) {
        f->untold++;
        return;
    }
    f->told++;
    json_array_append_new(f->evidence, json_of_text(line));
}

void finding_add(struct finding *f, enum doctor_status status, const char *key, ...)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    va_list pairs;
    va_start(pairs, key);
    text_put_list(&line, f->doctor->options.lang, key, &pairs);
    va_end(pairs);
    add_line(f, status, buf_str(&line));
}

void finding_error(struct finding *f, enum doctor_status status, const struct tsk_error *err)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    text_put_error(&line, f->doctor->options.lang, err);
    add_line(f, status, buf_str(&line));
}

void finding_summary(struct finding *f, const char *key, ...)
{
    va_list pairs;
    va_start(pairs, key);
    buf_reset(&f->summary);
    text_put_list(&f->summary, f->doctor->options.lang, key, &pairs);
    va_end(pairs);
}

static void add_fixed(struct finding *f, const char *key, va_list *pairs)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    text_put_list(&line, f->doctor->options.lang, key, pairs);
    json_array_append_new(f->fixed, json_of_text(buf_str(&line)));
}

void finding_fixed(struct finding *f, const char *key, ...)
{
    va_list pairs;
    va_start(pairs, key);
    add_fixed(f, key, &pairs);
    va_end(pairs);
    f->is_mended = true;
}

void finding_recovered(struct finding *f, const char *key, ...)
{
    va_list pairs;
    va_start(pairs, key);
    add_fixed(f, key, &pairs);
    va_end(pairs);
}

static void add_fix(struct finding *f, const char *command)
{
    json_each (f->fix, i, known)
        if (strcmp(json_string_value(known), command) == 0)
            return;
    if (json_array_size(f->fix) < EVIDENCE_MAX)
        json_array_append_new(f->fix, json_of_text(command));
}

static __attribute__((format(printf, 3, 0))) void add_formatted_fix(struct finding *f, const char *before,
                                                                    const char *format, va_list values)
{
    char *words = NULL;
    BUG(vasprintf(&words, format, values) < 0);
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    buf_printf(&b, "%s%s", before, words);
    add_fix(f, buf_str(&b));
    free(words);
}

void finding_fix(struct finding *f, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    add_formatted_fix(f, "", format, values);
    va_end(values);
}

void finding_fix_ours(struct finding *f, const char *format, ...)
{
    struct buf before CLEANUP(buf_clear) = BUF_INIT, word CLEANUP(buf_clear) = BUF_INIT;
    va_list values;
    buf_puts(&before, "tasuki ");
    if (f->doctor->options.root)
        buf_printf(&before, "--root %s ", shell_word(&word, f->doctor->options.root));
    va_start(values, format);
    add_formatted_fix(f, buf_str(&before), format, values);
    va_end(values);
}

bool finding_fixes(const struct finding *f)
{
    return f->doctor->options.fixes;
}

/* ---- words ---------------------------------------------------------------------------------------------- */

void state_path(const struct doctor *d, const char *name, char path[PATH_MAX])
{
    if (snprintf(path, PATH_MAX, "%s%s%s", d->ws->state_path, name[0] ? "/" : "", name) >= PATH_MAX)
        snprintf(path, PATH_MAX, "%s", name);
}

const char *state_word(const struct doctor *d, const char *name, struct buf *b)
{
    char path[PATH_MAX];
    state_path(d, name, path);
    return shell_word(b, path);
}

void put_bytes(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf(text, 32, value < 10 && unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}
