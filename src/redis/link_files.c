/* link_files.c - the files that travel with a run: on the server once, by the hash of their content, however many runs use them. */
#include "base/clock.h"
#include "base/fs.h"
#include "redis/cluster.h"
#include "redis/link.h"

#include <stdio.h>
#include <stdlib.h>

#define FILES_LIFE_S "604800"
#define PART_LIFE_S  "3600"
#define PART_SIZE    (1 << 20)

/* A part that is on its way has another name, so that what has the hash's name is whole. */
static int send_parts(struct link *l, const char *key, const char *part, int fd, struct tsk_error *err)
{
    static char data[PART_SIZE];
    ssize_t len = 1;
    if (redis_say(&l->calls, NULL, err, "DEL", part, NULL) < 0)
        return -1;
    for (off_t at = 0; len > 0; at += len) {
        struct redis_command command CLEANUP(command_clear) = {.count = 0};
        redisReply *reply CLEANUP_REPLY = NULL;
        len = fs->pread(fd, data, sizeof data, at);
        if (len < 0)
            return error_errno(err, "read", l->files_path);
        command_begin(&command, "APPEND");
        command_puts(&command, part);
        command_put(&command, data, (size_t)len);
        if (len && (cluster_ask(&l->calls, part, &command, &reply, err) < 0 ||
                    redis_say(&l->calls, NULL, err, "EXPIRE", part, PART_LIFE_S, NULL) < 0))
            return -1;
    }
    if (redis_say(&l->calls, NULL, err, "RENAME", part, key, NULL) < 0)
        return -1;
    return redis_say(&l->calls, NULL, err, "EXPIRE", key, FILES_LIFE_S, NULL);
}

static int send_files(struct link *l, struct tsk_error *err)
{
    char key[KEY_MAX], part[KEY_MAX], name[64];
    struct stat st;
    redisReply *reply CLEANUP_REPLY = NULL;
    int fd CLEANUP_FD = fs->openat(AT_FDCWD, l->files_path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 || fs->fstat(fd, &st) < 0)
        return error_errno(err, "read", l->files_path);
    snprintf(name, sizeof name, "part:%s", l->owner);
    key_of_files(&l->settings, l->files_hash, "pack", key);
    key_of_files(&l->settings, l->files_hash, name, part);
    if (redis_say(&l->calls, &reply, err, "STRLEN", key, NULL) < 0)
        return -1;
    if (reply->integer == st.st_size)
        return redis_say(&l->calls, NULL, err, "EXPIRE", key, FILES_LIFE_S, NULL);
    return send_parts(l, key, part, fd, err);
}

bool link_files(struct link *l)
{
    struct tsk_error err;
    if (!l->files_path || l->has_files)
        return true;
    l->has_files = send_files(l, &err) == 0;
    if (!l->has_files)
        link_away(l, &err);
    return l->has_files;
}

/* They are there as long as the run is; evicted, they come again. */
void link_files_live(struct link *l)
{
    char key[KEY_MAX];
    struct tsk_error err;
    redisReply *reply CLEANUP_REPLY = NULL;
    if (!l->files_path || !l->has_files)
        return;
    key_of_files(&l->settings, l->files_hash, "pack", key);
    if (redis_say(&l->calls, &reply, &err, "EXPIRE", key, FILES_LIFE_S, NULL) == 0 && reply->integer == 0) {
        l->has_files = false;
        link_files(l);
    }
}
