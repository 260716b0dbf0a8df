#include "base/utf8.h"
#include "base/yaml.h"

#include <string.h>
#include <strings.h>

bool yaml_is_reserved(const char *text)
{
    static const char *const words[] = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(words[i], text) == 0)
            return true;
    return false;
}

static bool must_escape(unsigned code)
{
    return (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 || code == 0xfeff || code == 0xfffe ||
           code == 0xffff;
}

/* The character at *at, which is moved behind it. */
static unsigned take_code_point(const char **at)
{
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    size_t len = utf8_sequence(*at, strlen(*at));
    BUG(len == 0); /* jansson's strings are valid */
    unsigned code = (unsigned char)(*at)[0] & masks[len];
    for (size_t i = 1; i < len; i++)
        code = code << 6 | ((unsigned char)(*at)[i] & 0x3f);
    *at += len;
    return code;
}

bool yaml_needs_escapes(const char *text)
{
    while (*text)
        if (must_escape(take_code_point(&text)))
            return true;
    return false;
}

void yaml_put_quoted(struct buf *b, const char *text)
{
    buf_puts(b, "\"");
    while (*text) {
        const char *begin = text;
        unsigned code = take_code_point(&text);
        if (code == '"' || code == '\\')
            buf_printf(b, "\\%c", (int)code);
        else if (code == '\n' || code == '\t')
            buf_puts(b, code == '\n' ? "\\n" : "\\t");
        else if (code < 0x20 || must_escape(code))
            buf_printf(b, "\\u%04x", code);
        else
            buf_put(b, begin, (size_t)(text - begin));
    }
    buf_puts(b, "\"");
}
