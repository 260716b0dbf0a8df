#include "own/who.h"
#include "base/listing.h"
#include "base/word.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AGENTS_FOLDER "agents"
#define CARD_SIZE     64 /* bytes of a card: the operation, filled up with blanks */
#define CARD_KEPT_S   (30 * 24 * 3600)
/* A value of the column is_agent. */
enum { AGENT_NONE, AGENT_BY_NAME, AGENT_CLIENT };
#define WHO_COLUMNS "label, user, program, pid, hostname, id, session, subagent, note, is_agent"

/* ---- cards ---- */

static bool card_name(const char *instance, const struct proc_id *process, char name[64])
{
    if (process->pid)
        snprintf(name, 64, AGENTS_FOLDER "/%d.%llu.%llu", (int)process->pid, (unsigned long long)process->start_ticks,
                 (unsigned long long)process->pid_ns);
    else if (instance_is_http(instance))
        snprintf(name, 64, AGENTS_FOLDER "/%s", instance);
    else
        return false;
    return true;
}

static int card_open(struct tsk_workspace *ws, const char *instance, const struct proc_id *process, int flags)
{
    char name[64];
    if (!card_name(instance, process, name))
        return -1;
    return fs->openat(ws->state_dir, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static void card_write(int fd, const char *operation)
{
    char text[CARD_SIZE + 1];
    snprintf(text, sizeof text, "%-*.*s\n", CARD_SIZE - 1, CARD_SIZE - 1, operation);
    if (fs->pwrite(fd, text, CARD_SIZE, 0) < 0)
        return; /* then the last call is an earlier one */
}

/* We cannot look at a process in another pid namespace. Its card is removed when it has not been used for a long time. */
static bool is_card_over(int dir, const char *name)
{
    struct stat st;
    char *dot;
    struct proc_id process = {.pid = (pid_t)strtol(name, &dot, 10)};
    process.start_ticks = *dot == '.' ? strtoull(dot + 1, &dot, 10) : 0;
    process.pid_ns = *dot == '.' ? strtoull(dot + 1, NULL, 10) : pid_namespace();
    snprintf(process.boot_id, sizeof process.boot_id, "%s", boot_id());
    if (!process.pid || !process.start_ticks)
        return false;
    if (process.pid_ns == pid_namespace())
        return proc_id_liveness(&process) == LIVE_DEAD;
    return fs->fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           clock_now().wall_ms / 1000 - st.st_mtim.tv_sec > CARD_KEPT_S;
}

static void sweep_cards(struct tsk_workspace *ws)
{
    struct listing cards CLEANUP(listing_close);
    listing_open(&cards, ws->state_dir, AGENTS_FOLDER, LISTING_SORTED | LISTING_NO_LINK);
    for (const char *name; (name = listing_next(&cards));)
        if (is_card_over(cards.fd, name))
            fs->unlinkat(cards.fd, name, 0);
}

int who_card(struct tsk_workspace *ws, const char *instance, const struct proc_id *process)
{
    return card_open(ws, instance, process, O_WRONLY);
}

bool who_saw_at(int card, const char *operation)
{
    struct stat st;
    bool is_there = card >= 0 && fs->fstat(card, &st) == 0 && st.st_nlink > 0;
    if (is_there)
        card_write(card, operation);
    return is_there;
}

void who_saw(struct tsk_workspace *ws, const char *instance, const struct proc_id *process, const char *operation)
{
    int fd CLEANUP_FD = card_open(ws, instance, process, O_WRONLY);
    if (fd >= 0)
        card_write(fd, operation);
}

void who_last_call(struct tsk_workspace *ws, const char *instance, const struct proc_id *process, char operation[64],
                   int64_t *ret_ms)
{
    struct stat st;
    int fd CLEANUP_FD = card_open(ws, instance, process, O_RDONLY);
    ssize_t len = fd < 0 || fs->fstat(fd, &st) < 0 ? -1 : fs->pread(fd, operation, 63, 0);
    operation[len > 0 ? len : 0] = '\0';
    operation[strcspn(operation, " \n")] = '\0';
    *ret_ms = len >= 0 ? st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000 : 0;
}

/* ---- rows ---- */

static void read_who(const struct db_rows *rows, struct who *ret)
{
    int64_t agent = db_column_int(rows, 9);
    *ret = (struct who){
        .pid = (pid_t)db_column_int(rows, 3), .is_agent = agent != AGENT_NONE, .is_client = agent == AGENT_CLIENT};
    who_copy(ret->label, sizeof ret->label, db_column_text(rows, 0));
    who_copy(ret->user, sizeof ret->user, db_column_text(rows, 1));
    who_copy(ret->program, sizeof ret->program, db_column_text(rows, 2));
    who_copy(ret->host, sizeof ret->host, db_column_text(rows, 4));
    who_copy(ret->instance, sizeof ret->instance, db_column_text(rows, 5));
    who_copy(ret->session, sizeof ret->session, db_column_text(rows, 6));
    who_copy(ret->subagent, sizeof ret->subagent, db_column_text(rows, 7));
    who_copy(ret->note, sizeof ret->note, db_column_text(rows, 8));
}

int who_load(struct db *db, const char *instance, struct who *ret, struct tsk_error *err)
{
    struct db_rows rows CLEANUP(db_rows_free);
    *ret = (struct who){.pid = 0};
    if (db_query(db, &rows, err, "SELECT " WHO_COLUMNS " FROM instance WHERE id = ?1 AND label IS NOT NULL",
                 DB_TEXT(instance)) < 0)
        return -1;
    int found = db_next(&rows, err);
    if (found == 1)
        read_who(&rows, ret);
    return found;
}

void who_look(struct tsk_workspace *ws, const char *instance, struct who *ret)
{
    struct db db CLEANUP(db_close) = {0};
    struct tsk_error ignored;
    *ret = (struct who){.pid = 0};
    if (db_open_existing(&db, ws->state_dir, &ignored) == 1)
        who_load(&db, instance, ret, &ignored);
}

bool who_is_same(const struct who *who, const struct who *known)
{
    return known->is_client || strcmp(who->label, known->label) == 0 || (!who->is_agent && !known->is_agent);
}

void who_add_note(struct tsk_workspace *ws, struct who *who)
{
    struct who now;
    struct stat st;
    if (who->note[0] || !who->instance[0] || fs->fstatat(ws->state_dir, AGENTS_FOLDER, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    who_look(ws, who->instance, &now);
    if (who_is_same(who, &now))
        who_copy(who->note, sizeof who->note, now.note);
}

void who_of_client(struct tsk_workspace *ws, const char *instance, const char *label, bool is_agent,
                   const char *operation, struct who *ret)
{
    *ret = (struct who){.pid = 0};
    if (*instance) {
        who_look(ws, instance, ret);
        if (operation)
            who_saw(ws, instance, &(struct proc_id){.pid = 0}, operation);
        who_copy(ret->instance, sizeof ret->instance, instance);
    }
    if (!ret->label[0]) {
        who_copy(ret->label, sizeof ret->label, label);
        who_copy(ret->host, sizeof ret->host, host_name());
    }
    ret->is_agent = ret->is_agent || is_agent;
}

#define NUMBER_MAX 1024

/* B1, inside the transaction. */
static int next_number(struct db *db, const char *name, const char *instance, int *ret, struct tsk_error *err)
{
    bool is_used[NUMBER_MAX] = {false};
    struct now now = clock_now();
    struct db_rows rows CLEANUP(db_rows_free);
    int more;
    if (db_query(db, &rows, err, "SELECT id, number FROM instance WHERE name = ?1 AND id <> ?2", DB_TEXT(name),
                 DB_TEXT(instance)) < 0)
        return -1;
    while ((more = db_next(&rows, err)) == 1) {
        struct instance_state state;
        int64_t number = db_column_int(&rows, 1);
        if (instance_judge(db, db_column_text(&rows, 0), &now, &state, err) < 0)
            return -1;
        if (state.alive != LIVE_DEAD && number > 0 && number < NUMBER_MAX)
            is_used[number] = true;
    }
    for (*ret = 1; *ret < NUMBER_MAX - 1 && is_used[*ret];)
        ++*ret;
    return more;
}

static int set_label(struct db *db, const char *name, struct who *who, int *ret_number, struct tsk_error *err)
{
    if (next_number(db, name, who->instance, ret_number, err) < 0)
        return -1;
    if (*ret_number == 1)
        who_copy(who->label, sizeof who->label, name);
    else
        snprintf(who->label, sizeof who->label, "%.80s#%d", name, *ret_number);
    return 0;
}

/* Inside a transaction. */
static int store(struct db *db, struct instance *instance, const char *name, const char *directory, struct who *who,
                 struct tsk_error *err)
{
    struct now now = clock_now();
    char kept[WHO_LABEL_SIZE];
    int number = 0;
    if (instance_keep(db, &now, instance, err) < 0)
        return -1;
    who_copy(who->instance, sizeof who->instance, instance->id);
    who_copy(kept, sizeof kept, name);
    if (name && set_label(db, kept, who, &number, err) < 0)
        return -1;
    return db_exec(db, err,
                   "UPDATE instance SET label = ?2, name = ?3, number = ?4, user = ?5, program = ?6, session = ?7,"
                   " subagent = ?8, directory = coalesce(?9, directory), is_agent = ?10,"
                   " note = CASE WHEN label = ?2 THEN note END WHERE id = ?1",
                   DB_TEXT(instance->id), DB_TEXT(who->label), DB_TEXT(name ? kept : NULL), DB_INT(number),
                   DB_TEXT(text_or_null(who->user)), DB_TEXT(text_or_null(who->program)),
                   DB_TEXT(text_or_null(who->session)), DB_TEXT(text_or_null(who->subagent)), DB_TEXT(directory),
                   DB_INT(who->is_client  ? AGENT_CLIENT
                          : who->is_agent ? AGENT_BY_NAME
                                          : AGENT_NONE));
}

static void make_card(struct tsk_workspace *ws, const struct instance *instance)
{
    sweep_cards(ws);
    if (fs_make_dirs(ws->state_dir, AGENTS_FOLDER) < 0)
        return;
    int fd = card_open(ws, instance->id, &instance->process, O_RDWR | O_CREAT);
    fs_close(&fd); /* its being there is enough; without it a command looks into the database */
}

int who_register(struct tsk_workspace *ws, struct instance *instance, const char *name, const char *directory,
                 struct who *who, struct tsk_error *err)
{
    struct db db CLEANUP(db_close) = {0};
    if (db_open(&db, ws->state_dir, err) < 0 || db_begin(&db, err) < 0)
        return -1;
    int result = store(&db, instance, name, directory, who, err);
    if (result == 0)
        result = db_commit(&db, err);
    db_rollback(&db);
    if (result == 0)
        make_card(ws, instance);
    return result;
}

int who_register_id(struct tsk_workspace *ws, const char *id, const char *name, const char *directory, struct who *who,
                    struct proc_id *ret_process, struct tsk_error *err)
{
    struct db db CLEANUP(db_close) = {0};
    struct instance instance;
    if (db_open(&db, ws->state_dir, err) < 0 || instance_find(&db, id, false, &instance, err) < 0)
        return -1;
    if (ret_process)
        *ret_process = instance.process;
    who->pid = instance.process.pid;
    return who_register(ws, &instance, name, directory, who, err);
}

int who_write_note(struct tsk_workspace *ws, const char *instance, const char *note, struct tsk_error *err)
{
    struct db db CLEANUP(db_close) = {0};
    if (db_open(&db, ws->state_dir, err) < 0 || db_begin(&db, err) < 0)
        return -1;
    int result = db_exec(&db, err, "UPDATE instance SET note = ?2 WHERE id = ?1", DB_TEXT(instance),
                         DB_TEXT(text_or_null(note)));
    if (result == 0 && db_changes(&db) == 0)
        result = error_set(err, TSK_NOT_FOUND, "instance_gone", "instance", instance, NULL);
    if (result == 0)
        result = db_commit(&db, err);
    db_rollback(&db);
    return result;
}

/* ---- a command ---- */

/* What the row says where the environment says nothing. The row of another party (B4) says only which instance it is. */
static void complete(struct who *who, const struct who *known, bool is_same)
{
    who_copy(who->instance, sizeof who->instance, known->instance);
    who->pid = known->pid ? known->pid : who->pid;
    if (!is_same)
        return;
    if (!who->is_agent)
        who_copy(who->label, sizeof who->label, known->label);
    who->is_agent = who->is_agent || known->is_agent;
    who->is_whole = known->is_client;
    if (!who->session[0])
        who_copy(who->session, sizeof who->session, known->session);
    if (!who->subagent[0])
        who_copy(who->subagent, sizeof who->subagent, known->subagent);
    if (!who->note[0])
        who_copy(who->note, sizeof who->note, known->note);
}

/* The caller's instance and what its row says of it. */
static int find_known(struct tsk_workspace *ws, const char *given, struct instance *ret, struct who *ret_known)
{
    struct db db CLEANUP(db_close) = {0};
    struct tsk_error ignored;
    if (db_open(&db, ws->state_dir, &ignored) < 0 || instance_find(&db, given, true, ret, &ignored) < 0)
        return -1;
    return who_load(&db, ret->id, ret_known, &ignored);
}

void who_begin(struct tsk_workspace *ws, const char *given, const char *operation)
{
    struct who who, known;
    struct instance instance = {.id = ""};
    struct tsk_error ignored;
    const char *named = given && *given ? given : getenv("TASUKI_INSTANCE_ID");
    who_of_environment(&who, &instance.process);
    int card CLEANUP_FD = named && *named ? -1 : card_open(ws, "", &instance.process, O_WRONLY);
    bool may_be_known = card >= 0 || (named && *named) || who.is_agent;
    int found = may_be_known ? find_known(ws, given, &instance, &known) : -1;
    if (named && *named) {
        who_copy(who.instance, sizeof who.instance, named);
        who.pid = instance.process.pid ? instance.process.pid : instance_pid(named);
    }
    bool is_same = found == 1 && ((named && *named) || who_is_same(&who, &known));
    if (found == 1)
        complete(&who, &known, is_same);
    who.is_whole = who.is_whole || (named && *named);
    char directory[PATH_MAX];
    bool is_new = found == 0 || (found == 1 && !is_same && known.is_agent);
    bool is_others = found == 1 && !is_same; /* the card, too */
    if (is_new && who.is_agent && instance.process.pid && !(named && *named) &&
        who_register(ws, &instance, NULL, getcwd(directory, sizeof directory), &who, &ignored) == 0) {
        is_others = false;
        if (card < 0)
            card = card_open(ws, instance.id, &instance.process, O_WRONLY);
    }
    if (card >= 0 && !is_others)
        card_write(card, operation);
    who_set(&who);
}
