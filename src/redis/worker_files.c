/* worker_files.c - what attempts read on a worker: the files that travel with a run, fetched once, looked at, and unpacked for each
 * attempt; the values of a session. */
#include "base/fs.h"
#include "graph/pack.h"
#include "redis/worker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FETCH_SIZE (1 << 20)

static void pack_path(const struct worker *w, const char *hash, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%.3900s/pack.%.64s", w->scratch, hash);
}

static bool hash_fits(const struct buf *pack, const char *hash)
{
    char found[SHA256_HEX_SIZE];
    sha256_hex(pack->data, pack->len, found);
    return strcmp(found, hash) == 0;
}

/* The place of a pack that is here, or one for it: the one that was used longest ago goes. */
static struct worker_pack *pack_place(struct worker *w, const char *hash)
{
    char path[PATH_MAX];
    struct worker_pack *oldest = &w->packs[0];
    for (size_t i = 0; i < PACKS_MAX; i++) {
        if (strcmp(w->packs[i].hash, hash) == 0)
            return &w->packs[i];
        if (w->packs[i].used_ms < oldest->used_ms)
            oldest = &w->packs[i];
    }
    if (oldest->hash[0]) {
        pack_path(w, oldest->hash, path);
        fs->unlinkat(AT_FDCWD, path, 0);
    }
    *oldest = (struct worker_pack){.used_ms = 0};
    return oldest;
}

static int pack_fetch(struct worker *w, const char *hash, struct buf *ret)
{
    char key[KEY_MAX], from[24], to[24];
    struct tsk_error err;
    size_t got = FETCH_SIZE;
    key_of_files(&w->settings, hash, "pack", key);
    while (got == FETCH_SIZE && ret->len <= PACK_MAX) {
        redisReply *reply CLEANUP_REPLY = NULL;
        snprintf(from, sizeof from, "%zu", ret->len);
        snprintf(to, sizeof to, "%zu", ret->len + FETCH_SIZE - 1);
        if (redis_say(&w->calls, &reply, &err, "GETRANGE", key, from, to, NULL) < 0 || !reply->str)
            break;
        got = reply->len;
        if (got)
            buf_put(ret, reply->str, got);
    }
    errno = 0; /* what is not on the server is no fault of this machine (W7) */
    return ret->len && got < FETCH_SIZE ? 0 : -1;
}

/* 1: what is there has another content. */
static int pack_get(struct worker *w, const char *hash, struct buf *ret)
{
    char path[PATH_MAX];
    pack_path(w, hash, path);
    struct worker_pack *pack = pack_place(w, hash);
    if (pack->hash[0] && fs_read_file(AT_FDCWD, path, PACK_MAX, ret) == 0 && hash_fits(ret, hash)) {
        pack->used_ms = clock_now().boot_ms;
        return 0;
    }
    buf_reset(ret);
    if (pack_fetch(w, hash, ret) < 0)
        return -1;
    if (!hash_fits(ret, hash))
        return 1;
    if (fs_replace_file(AT_FDCWD, path, 0600, ret->data, ret->len) == 0) {
        snprintf(pack->hash, sizeof pack->hash, "%s", hash);
        pack->used_ms = clock_now().boot_ms;
    }
    return 0;
}

int files_unpack(struct worker *w, const char *hash, const char *dir)
{
    struct buf pack CLEANUP(buf_clear) = {.max = PACK_MAX + 2 * FETCH_SIZE};
    int result = pack_get(w, hash, &pack);
    if (result != 0)
        return result;
    if (fs->mkdirat(AT_FDCWD, dir, 0700) < 0 && errno != EEXIST)
        return -1;
    int fd CLEANUP_FD = fs->openat(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0 || pack_unpack(pack.data, pack.len, fd) < 0)
        return fd >= 0 && errno == EBADMSG ? 1 : -1;
    return 0;
}

/* ---- values --------------------------------------------------------------------------------------------- */

/* The id of a session may be longer than the name of a file. */
static void channel_path(const struct worker *w, const struct worker_run *run, const char *session, int64_t version,
                         char path[PATH_MAX])
{
    char hash[SHA256_HEX_SIZE], dir[PATH_MAX];
    sha256_hex(session, strlen(session), hash);
    worker_run_dir(w, run, dir);
    fs->mkdirat(AT_FDCWD, dir, 0700); /* what is wrong with it, the file shows */
    snprintf(path, PATH_MAX, "%.3900s/%s.%lld", dir, hash, (long long)version);
}

int talk_channel(struct worker *w, struct worker_run *run, const char *session, int64_t version, char path[PATH_MAX])
{
    char start[KEY_MAX], number[32];
    struct buf key CLEANUP(buf_clear) = BUF_INIT;
    struct stat st;
    struct tsk_error err;
    redisReply *reply CLEANUP_REPLY = NULL;
    channel_path(w, run, session, version, path);
    if (fs->fstatat(AT_FDCWD, path, &st, 0) == 0)
        return 0;
    snprintf(number, sizeof number, "%lld", (long long)version);
    key_of_run(&w->settings, run->root, "channel:", start);
    buf_printf(&key, "%s%s", start, session);
    if (redis_say(&w->calls, &reply, &err, "HGET", buf_str(&key), number, NULL) < 0 || !reply->str) {
        errno = 0;
        return -1;
    }
    return fs_replace_file(AT_FDCWD, path, 0600, reply->str, reply->len);
}
