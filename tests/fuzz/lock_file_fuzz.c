/* Any bytes as a lock file: what is read survives being written and read again, and judging it ends with a verdict. */
#include "base/fs.h"
#include "lock/judge.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const struct lock_record *record, bool is_yaml)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    struct lock_record again;
    if (is_yaml)
        record_write_yaml(record, &b);
    else
        record_write_json(record, "name", &b);
    BUG(b.failed);
    int result = is_yaml ? record_parse_yaml(b.data, b.len, &again) : record_parse_json(b.data, b.len, &again);
    BUG(result < 0 || again.pid != record->pid || again.fence != record->fence);
    BUG(again.hold != record->hold || strcmp(again.token, record->token) != 0);
}

/* One directory for the whole run, with a guard beside the lock file. */
static struct {
    int dir;
    struct guard guard;
} place = {.dir = -1};

static void remove_place(void)
{
    unlinkat(place.dir, SPRINT_FILE_DEFAULT, 0);
    unlinkat(place.dir, "guard", 0);
    char path[64], target[256];
    snprintf(path, sizeof path, "/proc/self/fd/%d", place.dir);
    ssize_t len = readlink(path, target, sizeof target - 1);
    target[len < 0 ? 0 : len] = '\0';
    rmdir(target);
}

static void make_place(void)
{
    char name[] = "/tmp/tasuki-fuzz-XXXXXX";
    struct tsk_error err;
    struct now now = {.wall_ms = 1770471000000, .boot_ms = 1000000};
    BUG(!mkdtemp(name));
    place.dir = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    BUG(place.dir < 0 || guard_open(&place.guard, place.dir, "guard", &err) < 0);
    BUG(guard_lock(&place.guard, &err) < 0 || guard_meet_boot(&place.guard, &now, 0, &err) < 0);
    atexit(remove_place);
}

static void judge(const uint8_t *data, size_t size, enum tsk_lock_kind kind)
{
    static struct tsk_workspace ws; /* only its paths are looked at, for messages */
    struct lock_target target = {.kind = lock_kind_get(kind), .ws = &ws, .file = SPRINT_FILE_DEFAULT, .dir = place.dir};
    struct now now = {.wall_ms = 1770471000000, .boot_ms = 1000000};
    struct judgement found;
    struct tsk_error err;
    int fd CLEANUP_FD = openat(place.dir, SPRINT_FILE_DEFAULT, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    BUG(fd < 0 || fs_write_all(fd, data, size) < 0);
    BUG(lock_judge(&target, &place.guard, &now, &found, NULL, &err) < 0);
    BUG(found.verdict == VERDICT_FREE || !found.how);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lock_record record;
    char *text = malloc(size + 1);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    if (place.dir < 0)
        make_place();
    if (record_parse_json(text, size, &record) == 0)
        round_trip(&record, false);
    if (record_parse_yaml(text, size, &record) == 0)
        round_trip(&record, true);
    judge(data, size, TSK_LOCK_NAME);
    judge(data, size, TSK_LOCK_SPRINT);
    free(text);
    return 0;
}
