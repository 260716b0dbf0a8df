#include "redis/cluster.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS       16384
#define NODES_MAX   64
#define HOPS_MAX    5
#define NODE_TRY_MS 300

struct cluster_node {
    struct redis_settings settings;
    struct redis_conn conn;
    int64_t try_ms; /* before that it is not tried again */
};

struct redis_cluster {
    struct redis_settings settings;
    struct cluster_node *nodes[NODES_MAX];
    size_t count;
    uint8_t owner[SLOTS]; /* 0: not known. 1: the connection itself. n + 2: nodes[n] */
};

/* CRC16 (XMODEM) of the hash tag, or of the whole key. */
static unsigned slot_of_key(const char *key)
{
    const char *open = strchr(key, '{'), *close = open ? strchr(open, '}') : NULL;
    const char *from = close && close > open + 1 ? open + 1 : key;
    const char *to = from == key ? key + strlen(key) : close;
    unsigned crc = 0;
    for (; from < to; from++) {
        crc ^= (unsigned)(unsigned char)*from << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? (crc << 1 ^ 0x1021) & 0xffff : crc << 1 & 0xffff;
    }
    return crc % SLOTS;
}

void cluster_close(struct redis_conn *conn)
{
    for (size_t i = 0; conn->cluster && i < conn->cluster->count; i++) {
        redis_close(&conn->cluster->nodes[i]->conn);
        free(conn->cluster->nodes[i]);
    }
    free(conn->cluster);
    conn->cluster = NULL;
}

static struct redis_cluster *cluster_of(struct redis_conn *conn)
{
    if (conn->cluster)
        return conn->cluster;
    conn->cluster = memory_zeroed(1, sizeof *conn->cluster);
    conn->cluster->settings = *conn->settings;
    return conn->cluster;
}

/* `MOVED SLOT HOST:PORT`, the host may be missing: the same. false: it is no such thing. */
static bool read_place(const char *refusal, const char *word, unsigned *ret_slot, struct redis_settings *settings)
{
    size_t len = strlen(word);
    char *rest;
    if (strncmp(refusal, word, len) != 0 || refusal[len] != ' ')
        return false;
    unsigned long slot = strtoul(refusal + len + 1, &rest, 10);
    const char *colon = strrchr(rest, ':');
    if (slot >= SLOTS || *rest != ' ' || !colon)
        return false;
    *ret_slot = (unsigned)slot;
    if (colon > rest + 1)
        snprintf(settings->host, sizeof settings->host, "%.*s", (int)(colon - rest - 1), rest + 1);
    snprintf(settings->port, sizeof settings->port, "%.7s", colon + 1);
    return true;
}

/* The number of the node in `owner`; 0: there are too many. */
static uint8_t node_number(struct redis_cluster *cluster, const struct redis_settings *settings)
{
    for (size_t i = 0; i < cluster->count; i++)
        if (strcmp(cluster->nodes[i]->settings.host, settings->host) == 0 &&
            strcmp(cluster->nodes[i]->settings.port, settings->port) == 0)
            return (uint8_t)(i + 2);
    if (cluster->count == NODES_MAX)
        return 0;
    struct cluster_node *node = memory_zeroed(1, sizeof *node);
    node->settings = *settings;
    node->conn.fd = -1;
    cluster->nodes[cluster->count++] = node;
    return (uint8_t)(cluster->count + 1);
}

bool cluster_moved(struct redis_conn *conn, const char *refusal)
{
    unsigned slot;
    if (!conn->is_cluster)
        return false;
    struct redis_cluster *cluster = cluster_of(conn);
    struct redis_settings settings = cluster->settings;
    if (!read_place(refusal, "MOVED", &slot, &settings))
        return false;
    cluster->owner[slot] = node_number(cluster, &settings);
    return cluster->owner[slot] != 0;
}

static struct redis_conn *node_conn(struct redis_conn *conn, uint8_t number, struct tsk_error *err)
{
    if (number < 2)
        return conn;
    struct cluster_node *node = conn->cluster->nodes[number - 2];
    int64_t now = clock_now().boot_ms;
    if (node->conn.fd >= 0)
        return &node->conn;
    if (now < node->try_ms) {
        error_set(err, TSK_REDIS_UNAVAILABLE, "redis_lost", "reason", "closed", NULL);
        return NULL;
    }
    node->try_ms = now + NODE_TRY_MS;
    if (redis_connect(&node->conn, &node->settings, err) < 0) {
        memset(conn->cluster->owner, 0, sizeof conn->cluster->owner); /* another one may have its slots now */
        return NULL;
    }
    node->conn.is_cluster = false; /* it does not continue from there */
    return &node->conn;
}

static int ask_there(struct redis_conn *conn, const char *refusal, const struct redis_command *command,
                     redisReply **ret, struct tsk_error *err)
{
    unsigned slot;
    struct redis_settings settings = cluster_of(conn)->settings;
    if (!read_place(refusal, "ASK", &slot, &settings))
        return -1;
    struct redis_conn *node = node_conn(conn, node_number(conn->cluster, &settings), err);
    if (!node || redis_say(node, NULL, err, "ASKING", NULL) < 0)
        return -1;
    return redis_ask(node, command, ret, err);
}

int cluster_ask(struct redis_conn *conn, const char *key, const struct redis_command *command, redisReply **ret,
                struct tsk_error *err)
{
    if (!conn->is_cluster)
        return redis_ask(conn, command, ret, err);
    unsigned slot = slot_of_key(key);
    for (int hop = 0; hop < HOPS_MAX; hop++) {
        struct redis_conn *node = node_conn(conn, cluster_of(conn)->owner[slot], err);
        if (!node)
            return -1;
        if (redis_ask(node, command, ret, err) == 0) {
            if (!conn->cluster->owner[slot])
                conn->cluster->owner[slot] = 1;
            return 0;
        }
        const char *refusal = node->fd >= 0 ? tsk_error_context(err, "reason") : NULL;
        if (refusal && strncmp(refusal, "ASK ", 4) == 0)
            return ask_there(conn, refusal, command, ret, err);
        if (!refusal || !cluster_moved(conn, refusal))
            return -1;
    }
    return -1;
}

int cluster_ask_two(struct redis_conn *conn, const char *key, const struct redis_command *first,
                    const struct redis_command *second, redisReply **ret, struct tsk_error *err)
{
    redisReply *reply CLEANUP_REPLY = NULL;
    if (!conn->is_cluster)
        return redis_ask_two(conn, first, second, ret, err);
    int result = cluster_ask(conn, key, first, ret, err);
    return result < 0 ? -1 : cluster_ask(conn, key, second, &reply, err);
}

struct redis_conn *cluster_at(struct redis_conn *conn, const char *key, struct tsk_error *err)
{
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    redisReply *reply CLEANUP_REPLY = NULL;
    unsigned slot = slot_of_key(key);
    if (!conn->is_cluster)
        return conn;
    if (!cluster_of(conn)->owner[slot]) {
        command_begin(&command, "EXISTS");
        command_puts(&command, key);
        if (cluster_ask(conn, key, &command, &reply, err) < 0)
            return NULL;
    }
    return node_conn(conn, conn->cluster->owner[slot], err);
}

int cluster_connect(struct redis_conn *conn, const struct redis_settings *settings, const char *key,
                    struct tsk_error *err)
{
    struct redis_settings there = *settings;
    unsigned slot;
    for (int hop = 0; hop < HOPS_MAX; hop++) {
        if (redis_connect(conn, &there, err) < 0)
            return -1;
        if (!conn->is_cluster)
            return 0;
        conn->is_cluster = false;
        if (redis_say(conn, NULL, err, "EXISTS", key, NULL) == 0)
            return 0;
        const char *refusal = conn->fd >= 0 ? tsk_error_context(err, "reason") : NULL;
        bool is_elsewhere = refusal && read_place(refusal, "MOVED", &slot, &there);
        redis_close(conn);
        if (!is_elsewhere)
            return -1;
    }
    return error_set(err, TSK_REDIS_UNAVAILABLE, "redis_lost", "reason", "MOVED", NULL);
}
