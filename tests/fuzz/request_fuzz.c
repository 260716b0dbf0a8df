/* Any bytes as a request's file: broken with places, or whole. A whole one is edited: what was mentioned has changed, the rest has
 * not, and it is whole again. */
#include "run/edit_text.h"
#include "run/request.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_problems(const struct request *request)
{
    size_t i;
    json_t *problem;
    json_array_foreach (request->problems, i, problem)
        BUG(json_get_int(problem, "line", 0) < 1 || json_get_int(problem, "column", 0) < 1 ||
            !*json_get_string(problem, "reason", ""));
}

static void check_edit(const struct request *before, const char *key, json_t *value)
{
    static const char *const keys[] = {"title", "status", "priority", "depends_on", "flow", "run", "body"};
    struct buf text CLEANUP(buf_clear) = {.max = REQUEST_SIZE_MAX * 2};
    struct request after CLEANUP(request_clear) = {.json = NULL};
    json_t *values CLEANUP_JSON = json_pack("{s:O}", key, value);
    struct tsk_error err;
    if (edit_text_change(before, values, LANG_EN, &text, &err) < 0)
        return; /* refused, with a reason */
    BUG(text.failed);
    request_parse(before->id, buf_str(&text), text.len, LANG_EN, &after);
    BUG(request_is_broken(&after));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *is = json_object_get(after.json, keys[i]),
                     *must = strcmp(keys[i], key) == 0 ? value : json_object_get(before->json, keys[i]);
        BUG(is != must && !json_equal(is, must));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct request request CLEANUP(request_clear) = {.json = NULL};
    if (size > 4096)
        return 0;
    request_parse("RQ-1", (const char *)data, size, LANG_EN, &request);
    check_problems(&request);
    if (request_is_broken(&request))
        return 0;
    static const char *const texts[] = {"x", "a: b # c", "two\nlines\n", "- x", "yes", " ", "\xe6\x97\xa5"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        json_t *text CLEANUP_JSON = json_string(texts[i]);
        check_edit(&request, "title", text);
        check_edit(&request, "body", text);
    }
    json_t *priority CLEANUP_JSON = json_string("P0"), *list CLEANUP_JSON = json_pack("[s, s]", "RQ-a", "RQ-b");
    check_edit(&request, "priority", priority);
    check_edit(&request, "depends_on", list);
    return 0;
}
