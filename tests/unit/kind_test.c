/* The names of locks and of their files, and who is listed as waiting. */
#include "lock/kind.h"
#include "own/waiting.h"
#include "unit/faulty.h"
#include "unit/scene.h"

#define WAITING_FOLDER "waiting"

static struct tsk_error err;

/* The file of a lock with that id, "!" and the refusal's text, or "?" and its code. */
static const char *file_of(struct tsk_workspace *ws, enum tsk_lock_kind kind, const char *id)
{
    static char result[LOCK_FILE_NAME_MAX + 64];
    struct lock_target target;
    if (lock_target_init(&target, ws, lock_kind_get(kind), id, NULL, &err) < 0) {
        snprintf(result, sizeof result, "!%s %s", err.code == TSK_INVALID_INPUT ? "" : tsk_code_name(err.code),
                 err.text ? err.text : "");
        return result;
    }
    snprintf(result, sizeof result, "%s", target.file);
    lock_target_clear(&target);
    return result;
}

TEST(each_kind_of_lock_takes_its_ids_and_refuses_others_by_name)
{
    static const struct {
        enum tsk_lock_kind kind;
        const char *id, *file;
    } table[] = {
        {TSK_LOCK_NAME, "demo", "name.demo.lock.json"},
        {TSK_LOCK_NAME, "src/api", "name.src%2Fapi.lock.json"},
        {TSK_LOCK_NAME, "a b", "name.a%20b.lock.json"},
        {TSK_LOCK_NAME, "", "! param_missing"},
        {TSK_LOCK_NAME, NULL, "! param_missing"},
        {TSK_LOCK_NAME, "a\nb", "! lock_name_pattern"},
        {TSK_LOCK_NAME, "\xff", "! lock_name_pattern"},
        {TSK_LOCK_REQUEST, "RQ-1", "request.RQ-1.lock.json"},
        {TSK_LOCK_REQUEST, "a/b", "! id_pattern"},
        {TSK_LOCK_REQUEST, "", "! param_missing"},
        {TSK_LOCK_QUEUE, NULL, "queue.lock.json"},
        {TSK_LOCK_QUEUE, "", "queue.lock.json"},
        {TSK_LOCK_QUEUE, "x", "! queue_has_no_id"},
        {TSK_LOCK_SPRINT, NULL, ".sprint-running"},
        {TSK_LOCK_SPRINT, "other", "other"},
        {TSK_LOCK_SPRINT, "..", "! file_name_pattern"},
        {TSK_LOCK_SPRINT, ".", "! file_name_pattern"},
        {TSK_LOCK_SPRINT, "a/b", "! file_name_pattern"},
        {TSK_LOCK_SPRINT, "", "! file_name_pattern"},
        {TSK_LOCK_SPRINT, "a.tmp", "! file_name_pattern"},
        {TSK_LOCK_SPRINT, ".tmp", "! file_name_pattern"},
        {TSK_LOCK_SPRINT, "tmp", "tmp"},
        {TSK_LOCK_SPRINT, ".tsk-1", "! file_name_pattern"},
        {TSK_LOCK_SPRINT, "a\x1f", "! file_name_pattern"},
        {TSK_LOCK_SPRINT, "a\x7f", "! file_name_pattern"},
        {TSK_LOCK_SPRINT, "a ~", "a ~"},
    };
    struct tsk_workspace *ws = scene_open();
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(file_of(ws, table[i].kind, table[i].id), table[i].file) != 0)
            test_fail(__FILE__, __LINE__, "%s \"%s\": %s", lock_kind_names[table[i].kind],
                      table[i].id ? table[i].id : "NULL", file_of(ws, table[i].kind, table[i].id));
    char name[256];
    for (int len = 199; len <= 201; len++) { /* docs: at most 200 bytes */
        memset(name, 'n', (size_t)len);
        name[len] = '\0';
        ASSERT_INT(file_of(ws, TSK_LOCK_NAME, name)[0] == '!', len > 200);
    }
    for (int len = 127; len <= 129; len++) {
        memset(name, 's', (size_t)len);
        name[len] = '\0';
        ASSERT_INT(file_of(ws, TSK_LOCK_SPRINT, name)[0] == '!', len > 128);
    }
    tsk_workspace_close(ws);
}

TEST(a_long_name_is_cut_and_names_that_begin_alike_have_different_files)
{
    struct tsk_workspace *ws = scene_open();
    char name[201], first[LOCK_FILE_NAME_MAX], text[1024];
    memset(name, 'n', 180);
    name[180] = '\0';
    snprintf(first, sizeof first, "name.%s.lock.json", name);
    ASSERT_STR(file_of(ws, TSK_LOCK_NAME, name), first);
    memcpy(name + 180, "x", 2);
    snprintf(first, sizeof first, "%s", file_of(ws, TSK_LOCK_NAME, name));
    ASSERT_INT(strlen(first), strlen("name.") + 120 + 1 + 16 + strlen(".lock.json"));
    ASSERT_INT(first[5 + 120], '~');
    name[180] = 'y';
    const char *second = file_of(ws, TSK_LOCK_NAME, name);
    ASSERT(strcmp(first, second) != 0 && strncmp(first, second, 126) == 0);
    /* The whole name is in the file; one that is called after another name is no lock of ours. */
    char id[LOCK_NAME_SIZE] = "", path[LOCK_FILE_NAME_MAX + 32];
    const struct lock_kind *kind = lock_kind_get(TSK_LOCK_NAME);
    ASSERT_INT(fs_make_dirs(AT_FDCWD, "locks"), 0);
    int dir CLEANUP_FD = open("locks", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT(!lock_kind_file_id(kind, dir, second, id));
    snprintf(text, sizeof text, "{\"lock_type\":\"name\",\"name\":\"%s\",\"pid\":1}", name);
    snprintf(path, sizeof path, "locks/%s", second);
    scene_write(path, text);
    bool is_ours = lock_kind_file_id(kind, dir, second, id);
    ASSERT(!is_ours || strcmp(id, name) == 0);
    snprintf(path, sizeof path, "locks/%s", first);
    scene_write(path, text);
    ASSERT(!lock_kind_file_id(kind, dir, first, id));
    tsk_workspace_close(ws);
}

TEST(a_file_is_a_lock_of_the_kind_whose_name_it_has_and_of_no_other)
{
    static const struct {
        enum tsk_lock_kind kind;
        const char *file, *id; /* NULL: it is none */
    } table[] = {
        {TSK_LOCK_NAME, "name.demo.lock.json", "demo"},
        {TSK_LOCK_NAME, "name.src%2Fapi.lock.json", "src/api"},
        {TSK_LOCK_NAME, "name.src%2fapi.lock.json", NULL},
        {TSK_LOCK_NAME, "name.%64emo.lock.json", NULL}, /* a name has one file */
        {TSK_LOCK_NAME, "name.a%0Ab.lock.json", NULL},
        {TSK_LOCK_NAME, "name..lock.json", NULL},
        {TSK_LOCK_NAME, "name.lock.json", NULL},
        {TSK_LOCK_NAME, "name.demo.lock.jso", NULL},
        {TSK_LOCK_NAME, "name.demo.lock.json~", NULL},
        {TSK_LOCK_NAME, "nam.demo.lock.json", NULL},
        {TSK_LOCK_NAME, "name.a~b.lock.json", NULL},
        {TSK_LOCK_REQUEST, "request.RQ-1.lock.json", "RQ-1"},
        {TSK_LOCK_REQUEST, "request.a b.lock.json", NULL},
        {TSK_LOCK_REQUEST, "name.demo.lock.json", NULL},
        {TSK_LOCK_QUEUE, "queue.lock.json", ""},
        {TSK_LOCK_QUEUE, "queuex.lock.json", NULL},
        {TSK_LOCK_SPRINT, ".sprint-running", NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char id[LOCK_NAME_SIZE] = "?";
        bool found = lock_kind_file_id(lock_kind_get(table[i].kind), AT_FDCWD, table[i].file, id);
        if (found != (table[i].id != NULL) || (found && strcmp(id, table[i].id) != 0))
            test_fail(__FILE__, __LINE__, "%s: %s", table[i].file, found ? id : "none");
    }
}

TEST(a_kind_is_known_by_its_name_and_number)
{
    for (int i = 0; i < LOCK_KIND_COUNT; i++)
        ASSERT(lock_kind_by_name(lock_kind_names[i]) == lock_kind_get((enum tsk_lock_kind)i));
    ASSERT(!lock_kind_names[LOCK_KIND_COUNT]);
    ASSERT(!lock_kind_by_name("") && !lock_kind_by_name("names") &&
           !lock_kind_get((enum tsk_lock_kind)LOCK_KIND_COUNT));
    ASSERT(!lock_kind_get((enum tsk_lock_kind) - 1));
    ASSERT(strncmp(LOCK_KIND_LIST, lock_kind_names[0], strlen(lock_kind_names[0])) == 0);
}

static size_t count_waiting(struct tsk_workspace *ws)
{
    json_t *list CLEANUP_JSON = waiting_list(ws);
    return json_array_size(list);
}

TEST(who_waits_is_listed_while_it_waits_and_what_the_dead_have_left_goes_with_the_next)
{
    struct tsk_workspace *ws = scene_open();
    struct waiting one = WAITING_NONE, two = WAITING_NONE;
    ASSERT_INT(count_waiting(ws), 0);
    waiting_begin(&one, ws, "name", "demo");
    scene_write(".aiflow/" WAITING_FOLDER "/00.json",
                "{\"kind\":\"name\",\"id\":\"dead\",\"since_ms\":1}\n"); /* nobody has it locked */
    scene_write(".aiflow/" WAITING_FOLDER "/.hidden.json", "{}");
    scene_write(".aiflow/" WAITING_FOLDER "/note.txt", "mine");
    json_t *list CLEANUP_JSON = waiting_list(ws);
    ASSERT_INT(json_array_size(list), 1);
    const json_t *first = json_array_get(list, 0);
    ASSERT(json_text_is(first, "kind", "name") && json_text_is(first, "id", "demo") &&
           json_get_string(first, "since", NULL));
    ASSERT(!json_object_get(first, "since_ms") && json_object_get(first, "who"));
    waiting_begin(&two, ws, "queue", "");
    ASSERT(!scene_exists(".aiflow/" WAITING_FOLDER "/00.json"));
    ASSERT(scene_exists(".aiflow/" WAITING_FOLDER "/.hidden.json") &&
           scene_exists(".aiflow/" WAITING_FOLDER "/note.txt"));
    ASSERT_INT(count_waiting(ws), 2);
    waiting_end(&one);
    waiting_end(&one);
    ASSERT_INT(count_waiting(ws), 1);
    waiting_end(&two);
    ASSERT_INT(count_waiting(ws), 0);
    tsk_workspace_close(ws);
}

TEST(who_cannot_be_listed_waits_all_the_same_and_leaves_nothing)
{
    struct tsk_workspace *ws = scene_open();
    struct waiting one = WAITING_NONE;
    waiting_begin(&one, ws, "name", "warm");
    waiting_end(&one);
    bool has_struck = true;
    for (long n = 1; has_struck; n++) {
        fault_begin(NULL, n, EIO);
        waiting_begin(&one, ws, "name", "demo");
        bool is_last = fault.struck && strcmp(fault.struck, "fstatat") == 0;
        has_struck = fault_end();
        ASSERT(is_last || count_waiting(ws) <= 1);
        waiting_end(&one);
        ASSERT_INT(count_waiting(ws), 0);
    }
    tsk_workspace_close(ws);
}
