/* instance_http.c - instances of clients that reach us through the server: a secret, and a lease instead of a process. */
#include "base/sha256.h"
#include "own/instance.h"

#include <stdio.h>
#include <string.h>

/* A lease is written longer than promised, and again only when that time is used up: a busy client costs one write in that
 * time, not one per call. */
#define LEASE_SPARE_MS (15 * 1000)

/* The end of a lease that begins now, on both clocks: lease_boot_ms, lease_wall_ms. */
#define LEASE_END(now)                                                                                                 \
    DB_INT((now).boot_ms + INSTANCE_LEASE_MS + LEASE_SPARE_MS),                                                        \
        DB_INT((now).wall_ms + INSTANCE_LEASE_MS + LEASE_SPARE_MS)

int instance_register_http(struct tsk_workspace *ws, const char *label, char ret_id[INSTANCE_HTTP_SIZE],
                           char ret_secret[INSTANCE_SECRET_SIZE], struct tsk_error *err)
{
    struct now now = clock_now();
    struct db db CLEANUP(db_close) = {0};
    char id[INSTANCE_HTTP_SIZE] = INSTANCE_HTTP_PREFIX, secret[INSTANCE_SECRET_SIZE], hash[SHA256_HEX_SIZE];
    random_hex(id + strlen(id), 16);
    random_hex(secret, INSTANCE_SECRET_SIZE - 1);
    sha256_hex(secret, strlen(secret), hash);
    const char *time = TIME_EXACT(now.wall_ms);
    if (db_open(&db, ws->state_dir, err) < 0 || db_begin(&db, err) < 0 || instance_sweep(&db, &now, err) < 0 ||
        db_exec(&db, err,
                "INSERT INTO instance (id, hostname, pid, boot_id, pid_ns, start_ticks, created_at, label, secret_hash,"
                " lease_boot_ms, lease_wall_ms) VALUES (?1, ?2, 0, ?3, 0, 0, ?4, ?5, ?6, ?7, ?8)",
                DB_TEXT(id), DB_TEXT(host_name()), DB_TEXT(boot_id()), DB_TEXT(time), DB_TEXT(label), DB_TEXT(hash),
                LEASE_END(now)) < 0 ||
        db_commit(&db, err) < 0)
        return -1;
    memcpy(ret_id, id, sizeof id);
    memcpy(ret_secret, secret, sizeof secret);
    return 0;
}

/* Compares in constant time. */
static bool is_equal(const char *a, const char *b, size_t len)
{
    unsigned char difference = 0;
    for (size_t i = 0; i < len; i++)
        difference |= (unsigned char)(a[i] ^ b[i]);
    return difference == 0;
}

int instance_verify_http(struct tsk_workspace *ws, const char *id, const char *secret, struct tsk_error *err)
{
    struct db db CLEANUP(db_close) = {0};
    struct db_rows rows CLEANUP(db_rows_free) = {0};
    char hash[SHA256_HEX_SIZE];
    sha256_hex(secret, strlen(secret), hash);
    if (db_open(&db, ws->state_dir, err) < 0 ||
        db_query(&db, &rows, err, "SELECT secret_hash FROM instance WHERE id = ?1", DB_TEXT(id)) < 0)
        return -1;
    int found = db_next(&rows, err);
    if (found < 0)
        return -1;
    const char *kept = found ? db_column_text(&rows, 0) : NULL;
    if (kept && strlen(kept) == SHA256_HEX_SIZE - 1 && is_equal(kept, hash, SHA256_HEX_SIZE - 1))
        return 0;
    return error_set(err, TSK_UNAUTHORIZED, "instance_secret_wrong", "instance", id, NULL);
}

int instance_renew(struct tsk_workspace *ws, const char *id, struct tsk_error *err)
{
    struct now now = clock_now();
    struct db db CLEANUP(db_close) = {0};
    struct db_rows rows CLEANUP(db_rows_free) = {0};
    if (db_open(&db, ws->state_dir, err) < 0 ||
        db_query(&db, &rows, err,
                 "SELECT boot_id, lease_boot_ms FROM instance WHERE id = ?1 AND secret_hash IS NOT NULL",
                 DB_TEXT(id)) < 0)
        return -1;
    int found = db_next(&rows, err);
    if (found <= 0)
        return found < 0 ? -1 : error_set(err, TSK_NOT_FOUND, "instance_gone", "instance", id, NULL);
    if (strcmp(db_column_text(&rows, 0), boot_id()) == 0 && db_column_int(&rows, 1) - now.boot_ms >= INSTANCE_LEASE_MS)
        return 0;
    db_rows_free(&rows);
    if (db_begin(&db, err) < 0 ||
        db_exec(&db, err, "UPDATE instance SET boot_id = ?2, lease_boot_ms = ?3, lease_wall_ms = ?4 WHERE id = ?1",
                DB_TEXT(id), DB_TEXT(boot_id()), LEASE_END(now)) < 0)
        return -1;
    return db_commit(&db, err) < 0 ? -1 : 1;
}

int instance_note_sprint(struct tsk_workspace *ws, const char *id, const char *root, const char *file,
                         struct tsk_error *err)
{
    struct db db CLEANUP(db_close) = {0};
    if (db_open(&db, ws->state_dir, err) < 0 || db_begin(&db, err) < 0 ||
        db_exec(&db, err,
                "INSERT OR IGNORE INTO instance_sprint (instance, root, file) SELECT id, ?2, ?3 FROM instance"
                " WHERE id = ?1",
                DB_TEXT(id), DB_TEXT(root), DB_TEXT(file)) < 0)
        return -1;
    return db_commit(&db, err);
}

int instance_list_sprints(struct tsk_workspace *ws, const char *id, json_t **ret, struct tsk_error *err)
{
    struct db db CLEANUP(db_close) = {0};
    struct db_rows rows CLEANUP(db_rows_free) = {0};
    json_t *list CLEANUP_JSON = json_array();
    int more;
    if (db_open(&db, ws->state_dir, err) < 0 ||
        db_query(&db, &rows, err, "SELECT root, file FROM instance_sprint WHERE instance = ?1", DB_TEXT(id)) < 0)
        return -1;
    while ((more = db_next(&rows, err)) == 1)
        json_array_append_new(list, json_pack("[s, s]", db_column_text(&rows, 0), db_column_text(&rows, 1)));
    if (more == 0)
        *ret = json_incref(list);
    return more;
}

int instance_extend_all(struct tsk_workspace *ws, int64_t seen_ms, struct tsk_error *err)
{
    struct now now = clock_now();
    struct db db CLEANUP(db_close) = {0};
    /* One that runs also when the wall clock has been set since it was written (I5). */
    if (db_open(&db, ws->state_dir, err) < 0 || db_begin(&db, err) < 0 ||
        db_exec(&db, err,
                "UPDATE instance SET boot_id = ?1, lease_boot_ms = ?2, lease_wall_ms = ?3 WHERE secret_hash IS NOT NULL"
                " AND (lease_wall_ms > ?4 OR (boot_id = ?1 AND lease_boot_ms > ?5))",
                DB_TEXT(boot_id()), LEASE_END(now), DB_INT(seen_ms), DB_INT(now.boot_ms)) < 0)
        return -1;
    return db_commit(&db, err);
}
