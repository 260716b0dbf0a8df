/* Any bytes as a YAML file: refused with a place inside the text, or a tree that can be walked. */
#include "base/yaml.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned walk(const struct yaml_node *node, unsigned depth)
{
    unsigned count = 1;
    int64_t number;
    bool flag;
    BUG(depth > YAML_DEPTH_MAX || !node->line || !node->column);
    BUG((node->type == YAML_SCALAR) != (node->text != NULL));
    yaml_int(node, &number);
    yaml_bool(node, &flag);
    yaml_text(node);
    for (const struct yaml_node *child = node->first; child; child = child->next) {
        BUG((node->type == YAML_MAP) != (child->key != NULL));
        BUG(child->key && !yaml_get(node, child->key));
        count += walk(child, depth + 1);
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct yaml *doc = NULL;
    struct tsk_error err;
    char *text = malloc(size + 1);
    if (size)
        memcpy(text, data, size);
    if (yaml_parse(text, size, "input", &doc, &err) == 0) {
        BUG(walk(yaml_root(doc), 0) > YAML_NODES_MAX);
        yaml_error(doc, yaml_root(doc), &err, "yaml_why_tasks", NULL);
    }
    BUG(!tsk_error_context(&err, "line") || !tsk_error_context(&err, "reason"));
    yaml_doc_free(doc);
    free(text);
    return 0;
}
