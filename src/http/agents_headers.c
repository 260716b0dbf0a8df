#include "http/agents.h"

#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static bool put_base64(struct buf *b, const char *text, size_t len)
{
    if (len % 4 != 0)
        return false;
    for (size_t i = 0; i < len; i += 4) {
        bool is_last = i + 4 == len;
        size_t pads = is_last ? (text[i + 3] == '=') + (text[i + 3] == '=' && text[i + 2] == '=') : 0;
        unsigned bits = 0;
        for (size_t k = 0; k < 4; k++) {
            int digit = k >= 4 - pads ? 0 : base64_digit(text[i + k]);
            if (digit < 0)
                return false;
            bits = bits << 6 | (unsigned)digit;
        }
        char bytes[3] = {(char)(bits >> 16), (char)(bits >> 8), (char)bits};
        buf_put(b, bytes, 3 - pads);
    }
    return true;
}

/* What a header says: as it is, or `=?base64?…?=` where it could not be written as it is. */
static bool put_header_value(struct buf *b, const struct http_text *value)
{
    static const char begin[] = "=?base64?", end[] = "?=";
    size_t extra = sizeof begin - 1 + sizeof end - 1;
    bool is_coded = value->len >= extra && memcmp(value->at, begin, sizeof begin - 1) == 0 &&
                    memcmp(value->at + value->len - 2, end, 2) == 0;
    if (is_coded)
        return put_base64(b, value->at + sizeof begin - 1, value->len - extra);
    buf_put(b, value->at, value->len);
    return true;
}

static bool header_says(const struct http_text *value, const char *text)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    return value && put_header_value(&b, value) && b.len == strlen(text) && memcmp(buf_str(&b), text, b.len) == 0;
}

/* ---- what must agree ---- */

/* The member of params that Mcp-Name repeats. */
static const char *name_key(const char *method)
{
    static const char *const keys[][2] = {{"tools/call", "name"},     {"prompts/get", "name"},
                                          {"resources/read", "uri"},  {"tasks/get", "taskId"},
                                          {"tasks/update", "taskId"}, {"tasks/cancel", "taskId"}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(method, keys[i][0]) == 0)
            return keys[i][1];
    return NULL;
}

static const json_t *properties_of(const json_t *tools, const char *name)
{
    json_each (tools, i, tool)
        if (json_text_is(tool, "name", name))
            return json_object_get(json_object_get(tool, "inputSchema"), "properties");
    return NULL;
}

static bool is_value(const struct http_text *header, const json_t *value)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    if (json_is_string(value))
        return header_says(header, json_string_value(value));
    json_write(&b, value, false);
    return header_says(header, buf_str(&b));
}

/* Arguments whose schema says that a header repeats them. */
static const char *argument_mismatch(const struct http_head *head, const json_t *params, const json_t *tools)
{
    const json_t *properties = properties_of(tools, json_get_string(params, "name", ""));
    const json_t *arguments = json_object_get(params, "arguments");
    json_each_pair (properties, key, property) {
        const char *named = json_get_string(property, "x-mcp-header", NULL);
        const json_t *value = named ? json_object_get(arguments, key) : NULL;
        char name[128];
        snprintf(name, sizeof name, "Mcp-Param-%s", named ? named : "");
        if (value && !json_is_null(value) && !is_value(http_header(head, name), value))
            return "Mcp-Param";
    }
    return NULL;
}

const char *agents_mismatch(const struct http_head *head, const json_t *message, const json_t *tools)
{
    const json_t *params = json_object_get(message, "params");
    const char *method = json_get_string(message, "method", ""), *key = name_key(method);
    const char *version = json_get_string(json_object_get(params, "_meta"), AGENTS_META "protocolVersion", NULL);
    if (version && !header_says(http_header(head, "MCP-Protocol-Version"), version))
        return "MCP-Protocol-Version";
    if (version && !header_says(http_header(head, "Mcp-Method"), method))
        return "Mcp-Method";
    const char *name = key && version ? json_get_string(params, key, NULL) : NULL;
    if (name && !header_says(http_header(head, "Mcp-Name"), name))
        return "Mcp-Name";
    return version && strcmp(method, "tools/call") == 0 ? argument_mismatch(head, params, tools) : NULL;
}
