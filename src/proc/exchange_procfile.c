/* exchange_procfile.c - Procfiles, and command lines as a shell reads them. */
#include "proc/exchange_reader.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- command lines ------------------------------------------------------------------------------------ */

enum { DOUBLE_QUOTE = 042 }; /* a number, so that the quotes of this file pair for tools that search it for strings */

/* First words that only a shell understands. */
static const char *const shell_words[] = {
    ".",    ":",    "alias",  "bg",    "break",  "case",  "cd",     "command", "continue", "do",   "done",
    "elif", "else", "esac",   "eval",  "exec",   "exit",  "export", "fg",      "fi",       "for",  "if",
    "in",   "jobs", "local",  "read",  "return", "set",   "shift",  "source",  "then",     "time", "times",
    "trap", "type", "ulimit", "umask", "unset",  "until", "wait",   "while",   NULL,
};

static bool is_shell_word(const char *word)
{
    for (size_t i = 0; shell_words[i]; i++)
        if (strcmp(shell_words[i], word) == 0)
            return true;
    return false;
}

/* NAME= at the beginning of a word. */
static bool is_assignment(const char *at)
{
    const char *end = at;
    while (isalnum((unsigned char)*end) || *end == '_')
        end++;
    return end > at && *end == '=' && !isdigit((unsigned char)*at);
}

/* The rest of a double-quoted part; *at is behind the closing quote afterwards. */
static enum shell_line take_double_quoted(const char **at, struct buf *word)
{
    for (const char *s = *at; *s; s++) {
        if (*s == DOUBLE_QUOTE) {
            *at = s + 1;
            return SHELL_PLAIN;
        }
        if (*s == '$' || *s == '`')
            return SHELL_SYNTAX;
        if (*s == '\\' && s[1] && strchr("\\\"$`", s[1]))
            s++;
        buf_put(word, s, 1);
    }
    return SHELL_UNFINISHED;
}

/* One word; *at is behind it afterwards. */
static enum shell_line take_word(const char **at, struct buf *word)
{
    const char *s = *at;
    if (*s == '~' || *s == '#')
        return SHELL_SYNTAX;
    while (*s && !strchr(" \t", *s)) {
        if (strchr("$`|&;<>(){}*?[]!\n\r", *s))
            return SHELL_SYNTAX;
        if (*s == DOUBLE_QUOTE) {
            s++;
            enum shell_line part = take_double_quoted(&s, word);
            if (part != SHELL_PLAIN)
                return part;
        } else if (*s == '\'') {
            const char *end = strchr(s + 1, '\'');
            if (!end)
                return SHELL_UNFINISHED;
            buf_put(word, s + 1, (size_t)(end - s - 1));
            s = end + 1;
        } else {
            if (*s == '\\' && !*++s)
                return SHELL_SYNTAX; /* shells differ in what it means */
            buf_put(word, s++, 1);
        }
    }
    *at = s;
    return SHELL_PLAIN;
}

enum shell_line shell_split(const char *line, json_t *words)
{
    bool is_first = true;
    line += strspn(line, " \t");
    if (is_assignment(line))
        return SHELL_SYNTAX;
    for (; *line; line += strspn(line, " \t")) {
        struct buf word CLEANUP(buf_clear) = BUF_INIT;
        enum shell_line result = take_word(&line, &word);
        if (result == SHELL_PLAIN && is_first && is_shell_word(buf_str(&word)))
            result = SHELL_SYNTAX;
        if (result != SHELL_PLAIN) {
            json_array_clear(words);
            return result;
        }
        json_array_append_new(words, json_string(buf_str(&word)));
        is_first = false;
    }
    return SHELL_PLAIN;
}

/* ---- Procfiles ---------------------------------------------------------------------------------------- */

struct line {
    const char *name, *command;
    size_t name_len, command_len;
};

/* NAME: COMMAND; false if it is not one. */
static bool line_parse(const char *text, size_t len, struct line *ret)
{
    size_t name = 0;
    while (name < len && (isalnum((unsigned char)text[name]) || strchr("_.-", text[name])))
        name++;
    if (!name || name == len || text[name] != ':')
        return false;
    size_t from = name + 1;
    while (from < len && strchr(" \t", text[from]))
        from++;
    while (len > from && strchr(" \t\r", text[len - 1]))
        len--;
    *ret = (struct line){.name = text, .name_len = name, .command = text + from, .command_len = len - from};
    return true;
}

static bool is_blank(const char *text, size_t len)
{
    size_t skip = strspn(text, " \t\r");
    return skip >= len || text[skip] == '#';
}

/* Names that begin a line of other formats. */
static bool is_foreign_key(const struct line *line)
{
    static const char *const keys[] = {"version", "processes", "templates", "services"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strlen(keys[i]) == line->name_len && memcmp(keys[i], line->name, line->name_len) == 0)
            return true;
    return false;
}

bool exchange_is_procfile(const char *text)
{
    size_t lines = 0;
    while (*text) {
        size_t len = strcspn(text, "\n");
        struct line line;
        if (!is_blank(text, len)) {
            if (!line_parse(text, len, &line) || !line.command_len || is_foreign_key(&line))
                return false;
            lines++;
        }
        text += len + (text[len] == '\n');
    }
    return lines > 0;
}

static void read_line(struct exchange_reader *r, const char *text, const struct line *line, unsigned number)
{
    struct exchange_place where = {number, (unsigned)(line->command - text) + 1};
    json_t *name CLEANUP_JSON = json_stringn(line->name, line->name_len);
    json_t *command CLEANUP_JSON = json_stringn(line->command, line->command_len);
    json_t *words CLEANUP_JSON = json_array();
    if (!command) {
        EXCHANGE_PROBLEM(r, where, json_string_value(name), "param_not_utf8", "param", "command");
        return;
    }
    enum shell_line kind = shell_split(json_string_value(command), words);
    if (kind == SHELL_UNFINISHED) {
        EXCHANGE_PROBLEM(r, where, json_string_value(name), "import_quote", "value", json_string_value(command));
        return;
    }
    if (kind == SHELL_SYNTAX) {
        json_array_append_new(words, json_string("sh"));
        json_array_append_new(words, json_string("-c"));
        json_array_append(words, command);
    }
    json_t *input CLEANUP_JSON = json_object();
    json_object_set(input, "command", json_array_get(words, 0));
    json_array_remove(words, 0);
    json_object_set(input, "args", words);
    json_object_set_new(input, "cwd", json_string(r->from->cwd_base));
    struct exchange_entry entry = {.name = json_string_value(name), .where = where};
    exchange_take(r, &entry, input);
}

void exchange_read_procfile(struct exchange_reader *r, const char *text)
{
    r->has_secrets = true;
    for (unsigned number = 1; *text; number++) {
        size_t len = strcspn(text, "\n");
        struct line line;
        if (!is_blank(text, len)) {
            if (line_parse(text, len, &line))
                read_line(r, text, &line, number);
            else
                EXCHANGE_PROBLEM(r, ((struct exchange_place){number, 1}), NULL, "import_procfile_line");
        }
        text += len + (text[len] == '\n');
    }
}
