/* edit_text.h - the text of a request file, as edit.c writes it. */
#ifndef RUN_EDIT_TEXT_H
#define RUN_EDIT_TEXT_H

#include "run/request.h"

/* A new file from its values. */
void edit_text_new(struct buf *text, const json_t *values);
/* The file of `before` with `values` over it (null: without that key). INVALID_INPUT when that cannot be done without losing
 * anything else that is there. What comes out may be broken by what was asked for. */
int edit_text_change(const struct request *before, const json_t *values, enum lang lang, struct buf *text,
                     struct tsk_error *err);
/* Whether a file says these values. */
bool edit_text_says(const struct request *request, const json_t *values);

#endif
