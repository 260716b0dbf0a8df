/* fixture_names.c - the suite's resources and prompts. */
#include "fixtures.h"

#include <stdio.h>
#include <string.h>

void fixture_add_resources(json_t *list, bool templates)
{
    static const char *const uris[][3] = {{"test://static-text", "static text", "text/plain"},
                                          {"test://static-binary", "static binary", "image/png"},
                                          {"test://watched-resource", "watched resource", "text/plain"}};
    if (templates) {
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:s}", "uriTemplate", "test://template/{id}/data", "name",
                                        "template", "description", "A fixture.", "mimeType", "application/json"));
        return;
    }
    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "uri", uris[i][0], "name", uris[i][1],
                                              "description", "A fixture.", "mimeType", uris[i][2]));
}

static json_t *contents(const char *uri, const char *type, const char *key, const char *value)
{
    return json_pack("{s:[{s:s, s:s, s:s}]}", "contents", "uri", uri, "mimeType", type, key, value);
}

json_t *fixture_read(const char *uri)
{
    static const char prefix[] = "test://template/", suffix[] = "/data";
    char text[256];
    size_t len = strlen(uri), around = sizeof prefix + sizeof suffix - 2;
    if (strcmp(uri, "test://static-text") == 0)
        return contents(uri, "text/plain", "text", "This is the content of the static text resource.");
    if (strcmp(uri, "test://static-binary") == 0)
        return contents(uri, "image/png", "blob", PIXEL_PNG);
    if (strcmp(uri, "test://watched-resource") == 0)
        return contents(uri, "text/plain", "text", "It can be watched.");
    if (len <= around || len - around > 64 || strncmp(uri, prefix, sizeof prefix - 1) != 0 ||
        strcmp(uri + len - sizeof suffix + 1, suffix) != 0)
        return NULL;
    int id_len = (int)(len - around);
    const char *id = uri + sizeof prefix - 1;
    snprintf(text, sizeof text, "{\"id\":\"%.*s\",\"templateTest\":true,\"data\":\"Data for ID: %.*s\"}", id_len, id,
             id_len, id);
    return contents(uri, "application/json", "text", text);
}

/* ---- prompts ---- */

static const char *const prompts[][3] = {{"test_simple_prompt", NULL, NULL},
                                         {"test_prompt_with_arguments", "arg1", "arg2"},
                                         {"test_prompt_with_embedded_resource", "resourceUri", NULL},
                                         {"test_prompt_with_image", NULL, NULL},
                                         {"test_input_required_result_prompt", NULL, NULL}};

void fixture_add_prompts(json_t *list)
{
    for (size_t i = 0; i < sizeof prompts / sizeof prompts[0]; i++) {
        json_t *arguments = json_array();
        for (size_t j = 1; j < 3 && prompts[i][j]; j++)
            json_array_append_new(arguments, json_pack("{s:s, s:s, s:b}", "name", prompts[i][j], "description",
                                                       "A test argument.", "required", true));
        json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "name", prompts[i][0], "description", "A fixture.",
                                              "arguments", arguments));
    }
}

bool fixture_has_prompt(const char *name)
{
    for (size_t i = 0; i < sizeof prompts / sizeof prompts[0]; i++)
        if (strcmp(prompts[i][0], name) == 0)
            return true;
    return false;
}

static json_t *message(json_t *content_take)
{
    return json_pack("{s:s, s:o}", "role", "user", "content", content_take);
}

static json_t *text_message(const char *text)
{
    return message(json_pack("{s:s, s:s}", "type", "text", "text", text));
}

static json_t *context_prompt(struct mcp_request *request, struct mcp_fault *fault)
{
    json_t *unfinished;
    json_t *answers CLEANUP_JSON = round_answers(request, &round_context, &unfinished, fault);
    if (!answers)
        return unfinished;
    return json_pack("{s:[o]}", "messages",
                     text_message(json_get_string(json_at(answers, "user_context.content"), "context", "?")));
}

json_t *fixture_prompt(struct mcp_request *request, const char *name, struct mcp_fault *fault)
{
    const json_t *arguments = json_object_get(request->params, "arguments");
    if (strcmp(name, "test_input_required_result_prompt") == 0)
        return context_prompt(request, fault);
    if (strcmp(name, "test_prompt_with_arguments") == 0) {
        struct buf text CLEANUP(buf_clear) = BUF_INIT;
        buf_printf(&text, "Prompt with arguments: arg1='%s', arg2='%s'", json_get_string(arguments, "arg1", ""),
                   json_get_string(arguments, "arg2", ""));
        return json_pack("{s:[o]}", "messages", text_message(buf_str(&text)));
    }
    if (strcmp(name, "test_prompt_with_embedded_resource") == 0)
        return json_pack("{s:[o, o]}", "messages",
                         message(json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "resource", "resource", "uri",
                                           json_get_string(arguments, "resourceUri", "test://example-resource"),
                                           "mimeType", "text/plain", "text", "Embedded resource content for testing.")),
                         text_message("Please process the embedded resource above."));
    if (strcmp(name, "test_prompt_with_image") == 0)
        return json_pack(
            "{s:[o, o]}", "messages",
            message(json_pack("{s:s, s:s, s:s}", "type", "image", "data", PIXEL_PNG, "mimeType", "image/png")),
            text_message("Please analyze the image above."));
    return json_pack("{s:[o]}", "messages", text_message("This is a simple prompt for testing."));
}
