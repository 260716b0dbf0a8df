#include "base/word.h"
#include "base/utf8.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Edits that turn one word into the other, a swap of neighbours counting as one. Words are short. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b);
    size_t rows[3][64];
    if (la >= 64 || lb >= 64)
        return 64;
    for (size_t j = 0; j <= lb; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t *row = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            row[j] = min3(up[j] + 1, row[j - 1] + 1, up[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && up2[j - 2] + 1 < row[j])
                row[j] = up2[j - 2] + 1;
        }
    }
    return rows[la % 3][lb];
}

const char *nearest_word(const char *word, const char *const *candidates, size_t count)
{
    const char *best = NULL;
    size_t best_distance = strlen(word) <= 3 ? 1 : 2;
    bool has_near = false;
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(word, candidates[i]);
        bool is_start = strlen(word) >= 2 && strncmp(candidates[i], word, strlen(word)) == 0;
        if (is_start && !best)
            best = candidates[i];
        /* Two changes in four letters are another word, unless it begins alike; and so is one that shares nothing. Of two that are as
         * near, the longer one is meant: a letter is left out more often than it is added. */
        bool is_other = distance >= strlen(word) || (distance == 2 && strlen(word) <= 4 && word[0] != candidates[i][0]);
        bool is_shorter = has_near && distance == best_distance && strlen(candidates[i]) < strlen(best);
        if (distance <= best_distance && !is_other && !is_shorter) {
            best_distance = distance;
            best = candidates[i];
            has_near = true;
        }
    }
    return best;
}

/* A terminal does not show control bytes as they are, so they are written as escapes. (Not all shells know $'…'.) */
static void put_printf(struct buf *b, const char *text)
{
    buf_puts(b, "\"$(printf '");
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte >= 0x7f || byte == '\'' || byte == '\\')
            buf_printf(b, "\\%03o", byte);
        else if (byte == '%')
            buf_puts(b, "%%");
        else
            buf_put(b, text, 1);
    }
    buf_puts(b, "')\"");
}

/* Whether it can be read from a terminal as it is. */
static bool is_odd(const char *text)
{
    if (!utf8_is_valid(text, strlen(text)))
        return true;
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return true;
    return false;
}

const char *shell_word(struct buf *b, const char *text)
{
    static const char harmless[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:=@%+,";
    buf_reset(b);
    if (text[0] && text[strspn(text, harmless)] == '\0') {
        buf_puts(b, text);
        return buf_str(b);
    }
    if (is_odd(text)) {
        put_printf(b, text);
        return buf_str(b);
    }
    buf_puts(b, "'");
    for (; *text; text++) {
        if (*text == '\'')
            buf_puts(b, "'\\''");
        else
            buf_put(b, text, 1);
    }
    buf_puts(b, "'");
    return buf_str(b);
}

size_t words_split(char *line, char *ret[], size_t max)
{
    static const char blanks[] = " \t\r\n";
    size_t count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(line, blanks, &rest); word && count < max; word = strtok_r(NULL, blanks, &rest))
        ret[count++] = word;
    return count;
}

bool word_is_in(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

const char *number_text(int64_t value, char text[24])
{
    struct buf b;
    buf_init_fixed(&b, text, 24);
    buf_put_int(&b, value);
    return text;
}

const char *path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *text_or_null(const char *text)
{
    return text && text[0] ? text : NULL;
}

void word_put_encoded(struct buf *b, const char *text)
{
    for (const char *at = text; *at; at++) {
        unsigned char c = (unsigned char)*at;
        bool is_plain = c < 128 && (isalnum(c) || (at > text && strchr("._-", c)));
        if (is_plain)
            buf_put(b, at, 1);
        else
            buf_printf(b, "%%%02X", c);
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool word_decode(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        if (*at != '%') {
            *to++ = *at;
            continue;
        }
        int high = hex_digit(at[1]), low = high < 0 ? -1 : hex_digit(at[2]);
        if (low < 0 || (high == 0 && low == 0))
            return false;
        *to++ = (char)(high * 16 + low);
        at += 2;
    }
    *to = '\0';
    return true;
}
