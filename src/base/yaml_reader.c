#include "base/yaml_reader.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct yaml_reader {
    yaml_parser_t parser;
    yaml_event_t event;
    bool has_event, has_document;
    unsigned depth;
};

int yaml_reader_open(const char *text, size_t len, struct yaml_reader **ret, struct tsk_error *err)
{
    struct yaml_reader *reader = calloc(1, sizeof *reader);
    if (!reader || !yaml_parser_initialize(&reader->parser)) {
        free(reader);
        return error_no_memory(err, "read", "YAML");
    }
    yaml_parser_set_encoding(&reader->parser, YAML_UTF8_ENCODING);
    size_t bom = len >= 3 && memcmp(text, YAML_BOM, 3) == 0 ? 3 : 0;
    yaml_parser_set_input_string(&reader->parser, (const unsigned char *)text + bom, len - bom);
    *ret = reader;
    return 0;
}

void yaml_reader_close(struct yaml_reader *reader)
{
    if (!reader)
        return;
    if (reader->has_event)
        yaml_event_delete(&reader->event);
    yaml_parser_delete(&reader->parser);
    free(reader);
}

static void piece_take_place(struct yaml_piece *piece, yaml_mark_t start, yaml_mark_t end)
{
    piece->line = (unsigned)start.line + 1;
    piece->column = (unsigned)start.column + 1;
    piece->end_line = (unsigned)end.line + 1;
    piece->end_column = (unsigned)end.column + 1;
}

static int reader_fail(struct yaml_reader *reader, struct yaml_piece *ret, const char **ret_reason)
{
    yaml_mark_t mark = yaml_parser_mark(&reader->parser);
    if (reader->parser.error == YAML_READER_ERROR)
        mark = reader->parser.mark; /* near it: libyaml knows only a byte offset */
    piece_take_place(ret, mark, mark);
    *ret_reason = yaml_parser_reason(&reader->parser);
    return -1;
}

static const char *problem_of(struct yaml_reader *reader)
{
    const yaml_event_t *event = &reader->event;
    if (event->type == YAML_DOCUMENT_START_EVENT) {
        if (reader->has_document)
            return text_get("yaml_why_second", LANG_EN);
        reader->has_document = true;
    }
    if (event->type == YAML_SEQUENCE_START_EVENT || event->type == YAML_MAPPING_START_EVENT)
        if (++reader->depth > YAML_DEPTH_MAX)
            return text_get("yaml_why_depth", LANG_EN);
    if (event->type == YAML_SEQUENCE_END_EVENT || event->type == YAML_MAPPING_END_EVENT)
        reader->depth--;
    return yaml_event_refusal(event);
}

static void piece_take_scalar(const yaml_event_t *event, struct yaml_piece *ret)
{
    yaml_scalar_style_t style = event->data.scalar.style;
    ret->text = (const char *)event->data.scalar.value;
    ret->len = event->data.scalar.length;
    ret->is_plain = style == YAML_PLAIN_SCALAR_STYLE;
    ret->is_block = style == YAML_LITERAL_SCALAR_STYLE || style == YAML_FOLDED_SCALAR_STYLE;
    ret->is_quoted = !ret->is_plain && !ret->is_block;
}

/* false: an event that is no piece. */
static bool piece_of(const yaml_event_t *event, struct yaml_piece *ret)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        ret->type = YAML_PIECE_SCALAR;
        piece_take_scalar(event, ret);
        return true;
    case YAML_SEQUENCE_START_EVENT:
        ret->type = YAML_PIECE_LIST;
        return true;
    case YAML_MAPPING_START_EVENT:
        ret->type = YAML_PIECE_MAP;
        return true;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        ret->type = YAML_PIECE_END;
        return true;
    case YAML_STREAM_END_EVENT:
        ret->type = YAML_PIECE_END_OF_FILE;
        return true;
    default:
        return false;
    }
}

int yaml_reader_next(struct yaml_reader *reader, struct yaml_piece *ret, const char **ret_reason)
{
    for (;;) {
        if (reader->has_event)
            yaml_event_delete(&reader->event);
        reader->has_event = yaml_parser_parse(&reader->parser, &reader->event) != 0;
        if (!reader->has_event)
            return reader_fail(reader, ret, ret_reason);
        ret->is_plain = ret->is_quoted = ret->is_block = false;
        ret->text = NULL;
        ret->len = 0;
        piece_take_place(ret, reader->event.start_mark, reader->event.end_mark);
        if ((*ret_reason = problem_of(reader)))
            return -1;
        if (piece_of(&reader->event, ret))
            return 0;
    }
}
