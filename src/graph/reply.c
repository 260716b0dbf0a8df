#include "graph/reply.h"
#include "base/fs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLY_MAX (2u << 20)

void reply_id(uint32_t node, int64_t answers, char id[REPLY_ID_MAX])
{
    snprintf(id, REPLY_ID_MAX, "%u.%lld", node, (long long)answers + 1);
}

/* False: a question of an older run, which has no id. */
static bool reply_name(const json_t *question, char name[REPLY_ID_MAX + 8])
{
    const char *id = json_get_string(question, "id", "");
    bool is_id = *id && strlen(id) < REPLY_ID_MAX && strspn(id, "0123456789.") == strlen(id);
    snprintf(name, REPLY_ID_MAX + 8, "reply.%s", is_id ? id : "");
    return is_id;
}

int reply_put(const struct rundir *run, const json_t *question, const json_t *answer, struct tsk_error *err)
{
    char name[REPLY_ID_MAX + 8], private_name[FS_PRIVATE_NAME_MAX];
    struct buf text CLEANUP(buf_clear) = {.max = REPLY_MAX};
    json_t *document CLEANUP_JSON = json_pack("{s:O}", "answer", answer);
    json_write(&text, document, false);
    bool has_name = reply_name(question, name);
    int fd CLEANUP_FD = fs_temp_open(run->dir, 0600, private_name);
    bool is_put = has_name && !text.failed && fd >= 0 && fs_write_all(fd, text.data, text.len) == 0 &&
                  fs_publish(fd, private_name, run->dir, name) == 0;
    int problem = has_name && !text.failed ? errno : EINVAL;
    if (private_name[0])
        fs->unlinkat(run->dir, private_name, 0);
    if (is_put)
        return 0;
    errno = problem;
    if (problem != EEXIST)
        return fs_error(err, "write", run->dir, name);
    return error_set(err, TSK_ALREADY_ANSWERED, "answered_already", "run", run->id, "run_id", run->id, NULL);
}

json_t *reply_get(const struct rundir *run, const json_t *question)
{
    char name[REPLY_ID_MAX + 8];
    struct buf text CLEANUP(buf_clear) = {.max = REPLY_MAX};
    if (!reply_name(question, name) || fs_read_file(run->dir, name, REPLY_MAX - 1, &text) < 0)
        return NULL;
    json_t *document CLEANUP_JSON = json_loadb(buf_str(&text), text.len, 0, NULL);
    return json_incref(json_object_get(document, "answer"));
}

size_t reply_filter(const struct rundir *run, json_t *questions)
{
    size_t before = json_array_size(questions);
    for (size_t i = before; i-- > 0;) {
        json_t *answer CLEANUP_JSON = reply_get(run, json_array_get(questions, i));
        if (answer)
            json_array_remove(questions, i);
    }
    return before - json_array_size(questions);
}

bool reply_is_for(const char *run_id, const json_t *question, const char *task)
{
    const char *slash = strrchr(task, '/'), *session = json_get_string(question, "session_id", "");
    size_t run_len = strlen(run_id), len = slash ? (size_t)(slash - task) : 0;
    if (!json_text_is(question, "task", slash ? slash + 1 : task))
        return false;
    bool is_branch = strncmp(session, run_id, run_len) == 0 && session[run_len] == '_';
    const char *branch = is_branch ? session + run_len + 1 : session;
    return !slash || (strlen(session) == len && memcmp(session, task, len) == 0) ||
           (strlen(branch) == len && memcmp(branch, task, len) == 0);
}

static void node_key(const json_t *record, char key[24])
{
    snprintf(key, 24, "%lld", (long long)json_get_int(record, "n", -1));
}

static void put_question(json_t *open, const char *node, int64_t answers, const json_t *record)
{
    char id[REPLY_ID_MAX];
    reply_id((uint32_t)json_get_int(record, "n", -1), answers, id);
    json_object_set_new(open, node,
                        json_pack("{s:s, s:s, s:s, s:O*}", "id", id, "task", json_get_string(record, "k", ""),
                                  "session_id", json_get_string(record, "s", ""), "question",
                                  json_object_get(record, "q")));
}

/* Those without an answer in the journal. */
static json_t *asked_questions(const json_t *records)
{
    json_t *open CLEANUP_JSON = json_object(), *answers CLEANUP_JSON = json_object(), *list = json_array();
    char node[24];
    json_each (records, i, record) {
        const char *event = json_get_string(record, "e", "");
        node_key(record, node);
        bool is_answer = strcmp(event, "answer") == 0;
        if (is_answer)
            json_object_set_new(answers, node, json_integer(json_get_int(answers, node, 0) + 1));
        if (strcmp(event, "ask") == 0)
            put_question(open, node, json_get_int(answers, node, 0), record);
        else if (is_answer || strcmp(event, "start") == 0 || strcmp(event, "end") == 0)
            json_object_del(open, node); /* it runs again, or was stopped: nobody waits for the answer */
    }
    json_each_pair (open, key, record)
        json_array_append(list, record);
    return list;
}

json_t *reply_questions(const struct rundir *run, const json_t *records)
{
    json_t *open = asked_questions(records);
    reply_filter(run, open);
    return open;
}

bool reply_is_there(const struct rundir *run, const json_t *records)
{
    json_t *open CLEANUP_JSON = asked_questions(records);
    return reply_filter(run, open) > 0;
}

bool reply_is_taken(const json_t *records, const json_t *question)
{
    char *end;
    int64_t count = 0, node = strtoll(json_get_string(question, "id", "-1."), &end, 10);
    json_each (records, i, record)
        count += json_text_is(record, "e", "answer") && json_get_int(record, "n", -1) == node;
    return *end == '.' && count >= strtoll(end + 1, NULL, 10);
}

int reply_refuse(const char *run, const json_t *records, const char *task, struct tsk_error *err)
{
    bool has_asked = false, has_task = !task;
    json_each (records, i, record) {
        if (!json_text_is(record, "e", "ask"))
            continue;
        json_t *asked CLEANUP_JSON = json_pack("{s:s, s:s}", "task", json_get_string(record, "k", ""), "session_id",
                                               json_get_string(record, "s", ""));
        has_asked = true;
        has_task |= task && reply_is_for(run, asked, task);
    }
    if (has_asked && has_task)
        return error_set(err, TSK_ALREADY_ANSWERED, "answered_already", "run", run, "run_id", run, NULL);
    if (has_asked)
        return error_set(err, TSK_NOT_FOUND, "no_question", "run", run, NULL);
    return error_set(err, TSK_CONFLICT, "answer_not_asked", "run", run, "run_id", run, NULL);
}
