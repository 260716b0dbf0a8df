#include "base/word.h"
#include "base/utf8.h"

#include <stdbool.h>
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
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(word, candidates[i]);
        bool is_start = strlen(word) >= 2 && strncmp(candidates[i], word, strlen(word)) == 0;
        if (is_start && !best)
            best = candidates[i];
        if (distance <= best_distance) {
            best_distance = distance;
            best = candidates[i];
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
