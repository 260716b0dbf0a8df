#include "base/text.h"
#include "base/json.h"
#include "base/text_tables.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const lang_names[LANG_COUNT] = {[LANG_JA] = "ja", [LANG_EN] = "en", [LANG_ZH] = "zh"};

bool lang_parse(const char *name, enum lang *ret)
{
    if (!name)
        return false;
    for (enum lang lang = 0; lang < LANG_COUNT; lang++) {
        size_t len = strlen(lang_names[lang]);
        if (strncasecmp(name, lang_names[lang], len) == 0 && strchr("_-.@", name[len])) {
            *ret = lang; /* strchr finds the NUL as well: the bare name */
            return true;
        }
    }
    return false;
}

const char *lang_name(enum lang lang)
{
    BUG((unsigned)lang >= LANG_COUNT);
    return lang_names[lang];
}

enum lang lang_from_environment(void)
{
    static const char *const locale[] = {"LC_ALL", "LC_MESSAGES", "LANG"};
    enum lang lang = LANG_EN;
    if (lang_parse(getenv("TASUKI_LANG"), &lang))
        return lang;
    for (size_t i = 0; i < sizeof locale / sizeof locale[0]; i++) {
        const char *value = getenv(locale[i]);
        if (!value || !*value)
            continue;
        lang_parse(value, &lang); /* the first that is set decides: LC_ALL=C means English whatever LANG is */
        break;
    }
    return lang;
}

const struct code_text *text_of_code(enum tsk_code code, enum lang lang)
{
    BUG((unsigned)code >= TEXT_CODE_COUNT || (unsigned)lang >= LANG_COUNT);
    return &text_codes[lang][code];
}

static int compare_key(const void *key, const void *entry)
{
    return strcmp(key, ((const struct text_entry *)entry)->key);
}

static const struct text_entry *text_find(const char *key)
{
    return bsearch(key, text_entries, text_entry_count, sizeof text_entries[0], compare_key);
}

const char *text_key(const char *key)
{
    const struct text_entry *entry = text_find(key);
    return entry ? entry->key : NULL;
}

const char *text_get(const char *key, enum lang lang)
{
    BUG((unsigned)lang >= LANG_COUNT);
    const struct text_entry *entry = text_find(key);
    if (!entry)
        bug_abort("messages.v1", 0, key);
    return entry->sentence[lang];
}

/* Where the values of a sentence come from. `put` appends the value of `name`, or says that there is none. */
struct source {
    bool (*put)(const struct source *self, struct buf *b, const char *name);
    enum lang lang;
    const struct tsk_error *err;
    va_list *pairs;
    const json_t *objects[2];
};

enum { NAME_MAX_LEN = 63 };

/* The length of the `{name` at `s`, which `end` follows, with the name copied out, or 0. */
static size_t placeholder_read_name(const char *s, char end, char name[NAME_MAX_LEN + 1])
{
    size_t len = strspn(s + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    if (len == 0 || len > NAME_MAX_LEN || s[1 + len] != end)
        return 0;
    memcpy(name, s + 1, len);
    name[len] = '\0';
    return len + 2;
}

/* The length of a `{name}` at `s` with the name copied out, or 0. */
static size_t read_placeholder(const char *s, char name[NAME_MAX_LEN + 1])
{
    return placeholder_read_name(s, '}', name);
}

void text_put_span(struct buf *b, enum lang lang, const char *span)
{
    static const char *const units[] = {"ms", "s", "min", "h", "d"};
    static const char *const keys[] = {"unit_ms", "unit_s", "unit_min", "unit_h", "unit_d"};
    while (*span) {
        size_t digits = strspn(span, "0123456789 "), len = strcspn(span + digits, " "), i = 0;
        while (i < 5 && !(strlen(units[i]) == len && memcmp(units[i], span + digits, len) == 0))
            i++;
        buf_put(b, span, digits);
        if (i < 5)
            buf_puts(b, text_get(keys[i], lang));
        else
            buf_put(b, span + digits, len);
        span += digits + len;
    }
}

/* ---- reasons in English, from the readers of files ---- */

#define REASON_PREFIX "yaml_why_"

/* Whether the text is that sentence; then what is in the place of each placeholder. */
static bool reason_matches(const char *sentence, const char *text, json_t *values)
{
    char name[NAME_MAX_LEN + 1];
    while (*sentence) {
        size_t len = *sentence == '{' ? read_placeholder(sentence, name) : 0;
        if (!len && *sentence++ != *text++)
            return false;
        if (!len)
            continue;
        sentence += len;
        size_t literal = strcspn(sentence, "{");
        const char *end = literal ? memmem(text, strlen(text), sentence, literal) : text + strlen(text);
        if (!end)
            return false;
        json_object_set_new(values, name, json_stringn(text, (size_t)(end - text)));
        text = end;
    }
    return !*text;
}

/* The value of a placeholder; a span gets the units of the language, a reason its words. */
static bool put_placeholder(struct buf *b, const struct source *values, const char *name)
{
    static const char *const spans[] = {"span", "age", "left", "uptime", "cpu", NULL};
    size_t i = 0;
    bool is_reason = strcmp(name, "reason") == 0;
    while (spans[i] && strcmp(spans[i], name) != 0)
        i++;
    if (!spans[i] && !is_reason)
        return values->put(values, b, name);
    struct buf value CLEANUP(buf_clear) = BUF_INIT;
    bool found = values->put(values, &value, name);
    if (found)
        (is_reason ? text_put_reason : text_put_span)(b, values->lang, buf_str(&value));
    return found;
}

/* `{name|one|many}`: the words for a value of 1, or those for any other. Returns its length, or 0. */
static size_t put_words_for(struct buf *b, const char *s, const struct source *values)
{
    char name[NAME_MAX_LEN + 1];
    size_t from = placeholder_read_name(s, '|', name);
    size_t one = from ? strcspn(s + from, "|}") : 0;
    if (!from || s[from + one] != '|')
        return 0;
    size_t many = strcspn(s + from + one + 1, "}");
    struct buf value CLEANUP(buf_clear) = BUF_INIT;
    bool is_one = values->put(values, &value, name) && strcmp(buf_str(&value), "1") == 0;
    buf_put(b, is_one ? s + from : s + from + one + 1, is_one ? one : many);
    return from + one + 1 + many + 1;
}

static void put_sentence(struct buf *b, const char *sentence, const struct source *values)
{
    for (const char *s = sentence; *s;) {
        size_t plain = strcspn(s, "{");
        buf_put(b, s, plain);
        s += plain;
        if (!*s)
            break;
        char name[NAME_MAX_LEN + 1];
        size_t len = put_words_for(b, s, values);
        if (len) {
            s += len;
            continue;
        }
        len = read_placeholder(s, name);
        if (!len || !put_placeholder(b, values, name))
            buf_put(b, s, len ? len : 1); /* unknown: it stays visible */
        s += len ? len : 1;
    }
}

static bool put_from_pairs(const struct source *self, struct buf *b, const char *name)
{
    va_list pairs;
    va_copy(pairs, *self->pairs);
    bool found = false;
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_copy is not followed through a pointer */
    for (const char *key; !found && (key = va_arg(pairs, const char *));) {
        const char *value = va_arg(pairs, const char *);
        found = strcmp(key, name) == 0;
        if (found)
            buf_puts(b, value ? value : "-");
    }
    va_end(pairs);
    return found;
}

void text_put_list(struct buf *b, enum lang lang, const char *key, va_list *pairs)
{
    struct source values = {.put = put_from_pairs, .lang = lang, .pairs = pairs};
    put_sentence(b, text_get(key, lang), &values);
}

void text_put(struct buf *b, enum lang lang, const char *key, ...)
{
    va_list pairs;
    va_start(pairs, key);
    text_put_list(b, lang, key, &pairs);
    va_end(pairs);
}

void text_put_value(struct buf *b, const json_t *value)
{
    if (json_is_string(value))
        buf_puts(b, json_string_value(value));
    else if (json_is_null(value))
        buf_puts(b, "-");
    else
        json_write(b, value, false);
}

static bool put_from_objects(const struct source *self, struct buf *b, const char *name)
{
    const json_t *value = json_object_get(self->objects[0], name);
    value = value ? value : json_object_get(self->objects[1], name);
    if (value)
        text_put_value(b, value);
    return value;
}

void text_put_reason(struct buf *b, enum lang lang, const char *english)
{
    json_t *values CLEANUP_JSON = json_object();
    for (size_t i = 0; lang != LANG_EN && i < text_entry_count; i++) {
        const struct text_entry *entry = &text_entries[i];
        if (strncmp(entry->key, REASON_PREFIX, strlen(REASON_PREFIX)) != 0 ||
            !reason_matches(entry->sentence[LANG_EN], english, values))
            continue;
        text_put_json(b, lang, entry->key, values, NULL);
        return;
    }
    buf_puts(b, english);
}

void text_put_json(struct buf *b, enum lang lang, const char *key, const json_t *values, const json_t *more)
{
    struct source source = {.put = put_from_objects, .lang = lang, .objects = {values, more}};
    put_sentence(b, text_get(key, lang), &source);
}

/* `path` is what follows the item's key in the placeholder, "" for the item itself. */
static bool put_json_item(struct buf *b, const struct error_item *item, const char *path)
{
    /* A bare number or string is no document for every parser; an element of an array is. */
    struct buf document CLEANUP(buf_clear) = BUF_INIT;
    buf_printf(&document, "[%s]", item->value);
    json_t *array CLEANUP_JSON = NULL;
    struct tsk_error ignored;
    if (document.failed || json_parse(document.data, document.len, item->key, &array, &ignored) < 0)
        return false;
    const json_t *value = json_array_get(array, 0);
    if (*path)
        value = json_at(value, path);
    if (!value)
        return false;
    text_put_value(b, value);
    return true;
}

/* Whether the placeholder `name` is this item or lies inside it; *ret_path is the rest of the name. */
static bool item_matches(const struct error_item *item, const char *name, const char **ret_path)
{
    size_t len = strlen(item->key);
    if (item->type == 'n' || strncmp(name, item->key, len) != 0)
        return false;
    if (name[len] == '\0') {
        *ret_path = "";
        return true;
    }
    *ret_path = name + len + 1;
    return name[len] == '.' && item->type == 'j';
}

static bool put_from_error(const struct source *self, struct buf *b, const char *name)
{
    unsigned cursor = 0;
    for (struct error_item item; error_item_next(self->err, &cursor, &item);) {
        const char *path;
        if (!item_matches(&item, name, &path))
            continue;
        if (item.type == 'j')
            return put_json_item(b, &item, path);
        buf_puts(b, item.value);
        return true;
    }
    return false;
}

void text_put_error(struct buf *b, enum lang lang, const struct tsk_error *err)
{
    struct source values = {.put = put_from_error, .lang = lang, .err = err};
    put_sentence(b, err->text ? text_get(err->text, lang) : text_of_code(err->code, lang)->title, &values);
}

void text_keep_reason(json_t *json, enum lang lang, const struct tsk_error *err)
{
    struct buf message CLEANUP(buf_clear) = BUF_INIT;
    text_put_error(&message, lang, err);
    json_object_set_new(json, "reason_code", json_string(tsk_code_name(err->code)));
    json_object_set_new(json, "reason", json_string(buf_str(&message)));
    json_object_set_new(json, "reason_text",
                        json_pack("{s:s?, s:o}", "key", err->text, "values", json_of_error_context(err)));
}

/* The sentence of a key, or the title of the code for an error without one; NULL: it is not known here. */
static const char *sentence_of_reason(const char *key, const char *code, enum lang lang)
{
    if (key)
        return text_key(key) ? text_get(key, lang) : NULL;
    for (enum tsk_code i = TSK_OK; i < code_count(); i++)
        if (strcmp(tsk_code_name(i), code) == 0)
            return text_of_code(i, lang)->title;
    return NULL;
}

void text_read_reason(json_t *json, enum lang lang)
{
    struct buf message CLEANUP(buf_clear) = BUF_INIT;
    const json_t *text = json_object_get(json, "reason_text");
    if (!json_is_object(text))
        return;
    const char *sentence =
        sentence_of_reason(json_get_string(text, "key", NULL), json_get_string(json, "reason_code", ""), lang);
    struct source source = {.put = put_from_objects, .lang = lang, .objects = {json_object_get(text, "values"), NULL}};
    if (sentence)
        put_sentence(&message, sentence, &source);
    if (sentence && !message.failed)
        json_object_set_new(json, "reason", json_string(buf_str(&message)));
    json_object_del(json, "reason_text");
}

/* The longest prefix of at most `max` bytes that does not cut a character. */
static size_t whole_characters(const char *s, size_t len, size_t max)
{
    if (len <= max)
        return len;
    size_t at = max;
    while (at > 0 && max - at < 4 && utf8_is_inside(s[at]))
        at--;
    return at;
}

const char *tsk_error_message(const struct tsk_error *err, const char *lang, char *buf, size_t size)
{
    enum lang chosen;
    if (!lang_parse(lang, &chosen))
        chosen = lang_from_environment();
    struct buf sentence CLEANUP(buf_clear) = BUF_INIT;
    text_put_error(&sentence, chosen, err);
    if (size == 0)
        return buf;
    size_t len = whole_characters(buf_str(&sentence), sentence.len, size - 1);
    memcpy(buf, buf_str(&sentence), len);
    buf[len] = '\0';
    return buf;
}
