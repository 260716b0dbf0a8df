#include "lock/line.h"
#include "base/fs.h"
#include "base/ident.h"
#include "base/sha256.h"
#include "lock/wait.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LINE_AT    4096 /* of the table in the guard file */
#define LINE_SLOTS 64

struct slot {
    uint64_t ticket; /* 0: free */
    int64_t until_boot_ms;
    char key[16];
};

void line_key(const char *caller, char key[LINE_KEY_SIZE])
{
    char text[BOOT_ID_SIZE + 1024], hex[SHA256_HEX_SIZE];
    key[0] = '\0';
    if (!caller || !caller[0])
        return;
    int len = snprintf(text, sizeof text, "%s %s", boot_id(), caller);
    sha256_hex(text, len < (int)sizeof text ? (size_t)len : sizeof text - 1, hex);
    snprintf(key, LINE_KEY_SIZE, "%.16s", hex);
}

static bool is_kept(const struct slot *slot, int64_t now_ms)
{
    return slot->ticket && slot->until_boot_ms > now_ms && slot->until_boot_ms <= now_ms + LINE_KEEP_MS;
}

static int slots_read(const struct guard *guard, struct slot slots[LINE_SLOTS])
{
    memset(slots, 0, sizeof(struct slot) * LINE_SLOTS);
    return fs->pread(guard->fd, slots, sizeof(struct slot) * LINE_SLOTS, LINE_AT) < 0 ? -1 : 0;
}

static int slot_write(const struct guard *guard, size_t i, const struct slot *slot)
{
    off_t at = LINE_AT + (off_t)(i * sizeof *slot);
    return fs->pwrite(guard->fd, slot, sizeof *slot, at) == (ssize_t)sizeof *slot ? 0 : -1;
}

/* The slot of the caller's oldest kept place; LINE_SLOTS: there is none. */
static size_t find_kept(const struct slot slots[LINE_SLOTS], const char *key)
{
    size_t best = LINE_SLOTS;
    int64_t now_ms = clock_now().boot_ms;
    for (size_t i = 0; i < LINE_SLOTS; i++)
        if (is_kept(&slots[i], now_ms) && memcmp(slots[i].key, key, sizeof slots[i].key) == 0 &&
            (best == LINE_SLOTS || slots[i].ticket < slots[best].ticket))
            best = i;
    return best;
}

/* The waiter behind a place has its byte for an instant, as a reader, when the place becomes free. That waiter may be stopped in
 * this instant: then the place stays in the table, and this call takes another one. */
#define READER_MS 200

static int lock_place(struct guard *guard, uint64_t ticket)
{
    off_t place = GUARD_TICKET_BASE + (off_t)ticket;
    if (fs_lock_try(guard->fd, F_WRLCK, place, 1) == 0)
        return 0;
    return errno == EAGAIN || errno == EACCES ? wait_for_byte(guard->fd, F_WRLCK, place, READER_MS) : -1;
}

/* P2. False: the caller has no kept place, or the byte of the place is taken. */
static bool take_kept(struct guard *guard, const char *key, uint64_t *ret)
{
    struct slot slots[LINE_SLOTS];
    const struct slot empty = {0};
    if (!key[0] || slots_read(guard, slots) < 0)
        return false;
    size_t best = find_kept(slots, key);
    if (best == LINE_SLOTS || lock_place(guard, slots[best].ticket) < 0)
        return false;
    *ret = slots[best].ticket;
    if (slot_write(guard, best, &empty) == 0)
        return true;
    fs_lock_try(guard->fd, F_UNLCK, GUARD_TICKET_BASE + (off_t)*ret,
                1); /* it is in the table, so no call may have it */
    return false;
}

bool line_has_kept(const struct guard *guard)
{
    struct slot slots[LINE_SLOTS];
    int64_t now_ms = clock_now().boot_ms;
    size_t i = 0;
    if (slots_read(guard, slots) < 0)
        return false;
    while (i < LINE_SLOTS && !is_kept(&slots[i], now_ms))
        i++;
    return i < LINE_SLOTS;
}

void line_forget(struct guard *guard, const char *key)
{
    struct slot slots[LINE_SLOTS];
    const struct slot empty = {0};
    struct tsk_error ignored; /* the caller has its lock; the place runs out by itself */
    sigset_t saved;
    if (!key[0] || guard_tickets_lock(guard, &saved, &ignored) < 0)
        return;
    size_t best = slots_read(guard, slots) < 0 ? LINE_SLOTS : find_kept(slots, key);
    if (best < LINE_SLOTS)
        slot_write(guard, best, &empty);
    guard_tickets_unlock(guard, &saved);
}

int line_enter(struct guard *guard, const char *key, uint64_t *ret_ticket, struct tsk_error *err)
{
    sigset_t saved;
    if (guard_tickets_lock(guard, &saved, err) < 0)
        return -1;
    int result = take_kept(guard, key, ret_ticket) ? 0 : guard_next_ticket(guard, ret_ticket, err);
    guard_tickets_unlock(guard, &saved);
    return result;
}

bool line_keep(struct guard *guard, const char *key, uint64_t ticket)
{
    struct slot slots[LINE_SLOTS];
    struct tsk_error ignored; /* the answer says that the place is not kept; the caller queues at the end */
    sigset_t saved;
    size_t free_slot = 0;
    if (!key[0] || guard_tickets_lock(guard, &saved, &ignored) < 0)
        return false;
    /* With byte 1: for an older clock, a place that was kept meanwhile would not be one. */
    int64_t now_ms = clock_now().boot_ms;
    struct slot kept = {.ticket = ticket, .until_boot_ms = now_ms + LINE_KEEP_MS};
    bool is_read = slots_read(guard, slots) == 0;
    while (free_slot < LINE_SLOTS && is_kept(&slots[free_slot], now_ms))
        free_slot++;
    memcpy(kept.key, key, sizeof kept.key);
    bool is_done = is_read && free_slot < LINE_SLOTS && slot_write(guard, free_slot, &kept) == 0;
    /* Before the next call can look at the table: it must find the byte free. */
    fs_lock_try(guard->fd, F_UNLCK, GUARD_TICKET_BASE + (off_t)ticket, 1);
    guard_tickets_unlock(guard, &saved);
    return is_done;
}
