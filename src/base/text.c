#include "base/text.h"
#include "base/json.h"
#include "base/text_tables.h"

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

static const struct text_entry *find(const char *key)
{
    return bsearch(key, text_entries, text_entry_count, sizeof text_entries[0], compare_key);
}

const char *text_key(const char *key)
{
    const struct text_entry *entry = find(key);
    return entry ? entry->key : NULL;
}

const char *text_get(const char *key, enum lang lang)
{
    BUG((unsigned)lang >= LANG_COUNT);
    const struct text_entry *entry = find(key);
    if (!entry)
        bug_abort("messages.v1", 0, key);
    return entry->sentence[lang];
}

/* Where the values of a sentence come from. `put` appends the value of `name`, or says that there is none. */
struct source {
    bool (*put)(const struct source *self, struct buf *b, const char *name);
    const struct tsk_error *err;
    va_list *pairs;
};

enum { NAME_MAX_LEN = 63 };

/* The length of a `{name}` at `s` with the name copied out, or 0. */
static size_t read_placeholder(const char *s, char name[NAME_MAX_LEN + 1])
{
    size_t len = strspn(s + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    if (len == 0 || len > NAME_MAX_LEN || s[1 + len] != '}')
        return 0;
    memcpy(name, s + 1, len);
    name[len] = '\0';
    return len + 2;
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
        size_t len = read_placeholder(s, name);
        if (!len || !values->put(values, b, name))
            buf_put(b, s, len ? len : 1); /* unknown: it stays visible */
        s += len ? len : 1;
    }
}

static bool put_from_pairs(const struct source *self, struct buf *b, const char *name)
{
    va_list pairs;
    va_copy(pairs, *self->pairs);
    bool found = false;
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
    struct source values = {.put = put_from_pairs, .pairs = pairs};
    put_sentence(b, text_get(key, lang), &values);
}

void text_put(struct buf *b, enum lang lang, const char *key, ...)
{
    va_list pairs;
    va_start(pairs, key);
    text_put_list(b, lang, key, &pairs);
    va_end(pairs);
}

/* For people: strings without quotes, nothing as "-". */
static void put_json_value(struct buf *b, const json_t *value)
{
    if (json_is_string(value))
        buf_puts(b, json_string_value(value));
    else if (json_is_null(value))
        buf_puts(b, "-");
    else
        json_write(b, value, false);
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
    put_json_value(b, value);
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
    struct source values = {.put = put_from_error, .err = err};
    put_sentence(b, err->text ? text_get(err->text, lang) : text_of_code(err->code, lang)->title, &values);
}

/* The longest prefix of at most `max` bytes that does not cut a character. */
static size_t whole_characters(const char *s, size_t len, size_t max)
{
    if (len <= max)
        return len;
    size_t at = max;
    while (at > 0 && max - at < 4 && ((unsigned char)s[at] & 0xc0) == 0x80)
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
