/* parcel.h - byte strings packed one after the other. A runner and the process that carries its attempts talk in parcels, and
 * an attempt travels to another machine as a parcel. Any bytes are allowed; nothing has to be escaped or decoded.
 *
 *     struct buf b = BUF_INIT;
 *     parcel_puts(&b, "end"); parcel_put(&b, text, len);
 *     struct parcel p = {b.data, b.len};
 *     while (parcel_next(&p, &piece)) ...
 *
 * A piece is its length (4 bytes, little endian), its bytes, and a NUL that the length does not count. A frame is a parcel with its
 * own length in front, for a stream. */
#ifndef BASE_PARCEL_H
#define BASE_PARCEL_H

#include "base/buf.h"

#define FRAME_MAX (256u << 20)

struct parcel {
    const char *data;
    size_t len;
};

/* A piece of a parcel; borrowed, and a C string unless it has a NUL of its own. */
struct piece {
    const char *data;
    size_t len;
};

void parcel_put(struct buf *b, const void *data, size_t len);
void parcel_puts(struct buf *b, const char *text); /* NULL: "" */
void parcel_put_int(struct buf *b, int64_t number);
/* Returns false at the end, or if the next bytes are not a piece. */
bool parcel_next(struct parcel *p, struct piece *ret);
/* The next piece as text ("" at the end), or as a number (0 if it is not one). */
const char *parcel_text(struct parcel *p);
int64_t parcel_int(struct parcel *p);

/* Begins a frame; everything put until frame_end belongs to it. Returns its offset. */
size_t frame_begin(struct buf *b);
void frame_end(struct buf *b, size_t began);
/* Reads the frame that begins at offset *at. Returns 1 and moves *at past it; 0 if the frame is incomplete; -1 if these
 * bytes are not a frame. */
int frame_take(const struct buf *b, size_t *at, struct parcel *ret);

#endif
