/* output.h - what a task tells its run: the lines of its TASUKI_OUTPUT file.
 *
 * A line is `key=value` or one JSON object. An object with "do" is a request to the run:
 *     {"do": "set"|"add"|"append", "key": K, "value": V}
 *     {"do": "next"|"goto", "task": NAME}  {"do": "again"}  {"do": "spawn", "task": NAME, "payload": {"run": [CMD…]}}
 *     {"do": "finish"|"cancel", "message": TEXT}
 *     {"do": "ask", "question": TEXT, "type": …, "options": […]}
 * Any other object sets its members as keys. A value that is valid JSON is stored as JSON, anything else as text. */
#ifndef GRAPH_OUTPUT_H
#define GRAPH_OUTPUT_H

#include "graph/channel.h"

#define OUTPUT_MAX (16u << 20)

struct output {
    struct effects effects;
    json_t *requests; /* as memory.h's; NULL: none */
    json_t *question; /* NULL: none */
};

/* INVALID_INPUT, text "output_line", when a line is neither. */
int output_parse(struct output *output, const char *text, size_t len, struct tsk_error *err);
void output_clear(struct output *output);
/* INVALID_INPUT for a question that nobody could answer: without a text, of an unknown type, a selection of nothing. */
int output_check_question(const json_t *question, struct tsk_error *err);
/* The value that a text means: JSON if it is that, else the text itself. A number that would be printed differently (1.10, 1e3,
 * 007) stays a text: it is a version, a commit or a price. NULL: it is not UTF-8. */
json_t *output_value(const char *text);

#endif
