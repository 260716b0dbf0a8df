#include "base/parcel.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_SIZE sizeof(uint32_t)

void parcel_put(struct buf *b, const void *data, size_t len)
{
    uint32_t length = htole32((uint32_t)len);
    buf_put(b, &length, sizeof length);
    if (len)
        buf_put(b, data, len);
    buf_put(b, "", 1);
}

void parcel_puts(struct buf *b, const char *text)
{
    parcel_put(b, text, text ? strlen(text) : 0);
}

void parcel_put_int(struct buf *b, int64_t number)
{
    char digits[32];
    struct buf text;
    buf_init_fixed(&text, digits, sizeof digits);
    buf_put_int(&text, number);
    parcel_put(b, digits, text.len);
}

static size_t length_at(const char *data)
{
    uint32_t length;
    memcpy(&length, data, sizeof length);
    return le32toh(length);
}

bool parcel_next(struct parcel *p, struct piece *ret)
{
    size_t length = p->len > LENGTH_SIZE ? length_at(p->data) : 0;
    if (p->len <= LENGTH_SIZE || length >= p->len - LENGTH_SIZE || p->data[LENGTH_SIZE + length] != '\0')
        return false;
    *ret = (struct piece){p->data + LENGTH_SIZE, length};
    p->data += LENGTH_SIZE + length + 1;
    p->len -= LENGTH_SIZE + length + 1;
    return true;
}

const char *parcel_text(struct parcel *p)
{
    struct piece piece;
    return parcel_next(p, &piece) ? piece.data : "";
}

int64_t parcel_int(struct parcel *p)
{
    return strtoll(parcel_text(p), NULL, 10);
}

size_t frame_begin(struct buf *b)
{
    size_t began = b->len;
    buf_put(b, "\0\0\0", LENGTH_SIZE);
    return began;
}

void frame_end(struct buf *b, size_t began)
{
    uint32_t length = htole32((uint32_t)(b->len - began - LENGTH_SIZE));
    if (!b->failed)
        memcpy(b->data + began, &length, sizeof length);
}

int frame_take(const struct buf *b, size_t *at, struct parcel *ret)
{
    if (b->len - *at < LENGTH_SIZE)
        return 0;
    size_t length = length_at(b->data + *at);
    if (length > FRAME_MAX)
        return -1;
    if (b->len - *at - LENGTH_SIZE < length)
        return 0;
    *ret = (struct parcel){b->data + *at + LENGTH_SIZE, length};
    *at += LENGTH_SIZE + length;
    return 1;
}
