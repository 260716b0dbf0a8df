/* log_scene.h - what the log tests share: a process's directory made by hand, and a holder that only looks when told. */
#ifndef UNIT_LOG_SCENE_H
#define UNIT_LOG_SCENE_H

#include "hold/protocol.h"
#include "proc/log.h"
#include "unit/scene.h"

#include <fcntl.h>
#include <linux/falloc.h>

#define TIME_0 INT64_C(1770471000000)

/* A stream as the holder knows it (src/hold/output.c). */
struct scene_log {
    const char *name;
    int64_t base, size;
};

static inline struct proc scene_process(const char *mode)
{
    struct proc p = {.id = "web", .view = {.phase = "", .n = 1}};
    snprintf(p.view.log, sizeof p.view.log, "%s", mode);
    ASSERT(mkdir("p", 0700) == 0 && mkdir("p/log", 0700) == 0);
    p.dir = open("p", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT(p.dir >= 0);
    return p;
}

static inline int scene_log_open(const struct scene_log *log, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "p/log/%s.log", log->name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0600);
    ASSERT(fd >= 0);
    return fd;
}

static inline void scene_put_bytes(const struct scene_log *log, const void *data, size_t len)
{
    int fd CLEANUP_FD = scene_log_open(log, O_APPEND);
    ASSERT_INT(fs_write_all(fd, data, len), 0);
}

static inline void scene_put(const struct scene_log *log, const char *text)
{
    scene_put_bytes(log, text, strlen(text));
}

/* The holder looks: a record, and a greater base if the file was cut. */
static inline void scene_look(struct scene_log *log, int64_t time_ms)
{
    char path[64];
    struct stat st;
    int fd CLEANUP_FD = scene_log_open(log, 0);
    ASSERT_INT(fstat(fd, &st), 0);
    if (st.st_size < log->size)
        log->base += log->size;
    log->size = st.st_size;
    struct hold_index record = {time_ms, log->base + log->size, log->base, st.st_ino};
    snprintf(path, sizeof path, "p/%s.idx", log->name);
    int index CLEANUP_FD = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ASSERT(index >= 0);
    ASSERT_INT(fs_write_all(index, &record, sizeof record), 0);
}

/* Writes a text and is seen to have written it at that time. */
static inline void scene_put_at(struct scene_log *log, const char *text, int64_t time_ms)
{
    scene_put(log, text);
    scene_look(log, time_ms);
}

static inline void scene_drop(const struct scene_log *log, int64_t bytes)
{
    int fd CLEANUP_FD = scene_log_open(log, 0);
    if (bytes && fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, bytes) < 0)
        test_skip("no holes can be punched here");
}

/* All of it, unless the query says otherwise. */
static inline struct log_query scene_query(enum log_stream stream)
{
    return (struct log_query){.stream = stream, .lines = -1, .cursor = {-1, -1}, .since_ms = -1, .until_ms = -1};
}

/* "line\n", "out:line\n" where both streams are asked for, "line…" where it has no end. */
static inline bool scene_take(void *data, const struct log_line *line)
{
    struct buf *b = data;
    if (b->is_fixed) /* says whose */
        buf_puts(b, line->stream == LOG_STDERR ? "err:" : "out:");
    buf_put(b, line->text, line->len);
    buf_puts(b, line->is_partial ? "…" : "\n");
    return true;
}

static inline void scene_read(const struct proc *p, struct log_query *query, struct buf *b)
{
    struct tsk_error err;
    buf_reset(b);
    ASSERT_OK(log_read(p, query, scene_take, b, query->cursor, &err));
}

#define ASSERT_READ(query, expected)                                                                                   \
    do {                                                                                                               \
        char text_[4096];                                                                                              \
        struct buf found_;                                                                                             \
        struct log_query query_ = (query);                                                                             \
        if (query_.stream == LOG_BOTH)                                                                                 \
            buf_init_fixed(&found_, text_, sizeof text_);                                                              \
        else                                                                                                           \
            found_ = (struct buf)BUF_INIT;                                                                             \
        scene_read(&p, &query_, &found_);                                                                              \
        ASSERT_STR(buf_str(&found_), expected);                                                                        \
        buf_clear(&found_);                                                                                            \
    } while (0)

#endif
