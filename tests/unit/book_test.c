/* book_update: what has not changed is not read again; what has, is. (What a book says is tested in tests/spec.) */
#include "run/book.h"
#include "unit/scene.h"

#include <stdio.h>

#define FOLDER ".aiflow/requests/"
#define STAGE  "{\"run_id\": \"RUN-1\", \"request_id\": \"RQ-a\", \"status\": \"%s\", \"started_at\": \"2026\"}"

static int reads; /* of request files */

static int count_openat(int dir, const char *path, int flags, mode_t mode)
{
    const char *dot = strrchr(path, '.');
    reads += dot && strcmp(dot, REQUEST_SUFFIX) == 0;
    return fs_system_calls.openat(dir, path, flags, mode);
}

/* All files are old, as far as their times can be trusted. */
static int old_fstatat(int dir, const char *path, struct stat *st, int flags)
{
    int result = fs_system_calls.fstatat(dir, path, st, flags);
    if (result == 0)
        st->st_ctim.tv_sec -= 3600;
    return result;
}

static struct fs_calls calls;

static struct tsk_workspace *begin(void)
{
    calls = fs_system_calls;
    calls.openat = count_openat;
    calls.fstatat = old_fstatat;
    fs = &calls;
    struct tsk_workspace *ws = scene_open();
    ASSERT_INT(fs_make_dirs(ws->state_dir, "requests"), 0);
    scene_write(FOLDER "RQ-a.yaml", "title: a\nrun: x\n");
    scene_write(FOLDER "RQ-b.yaml", "title: b\nrun: x\npriority: P0\n");
    scene_write(FOLDER "RQ-c.yaml", "title: c\nrun: x\ndepends_on: [RQ-a]\n");
    return ws;
}

static void end(struct tsk_workspace *ws, struct book *book)
{
    book_clear(book);
    tsk_workspace_close(ws);
    fs = &fs_system_calls;
}

static const char *title(const struct book *book, const char *id)
{
    const struct book_entry *entry = book_find(book, id);
    return entry ? json_get_string(entry->request.json, "title", "") : "(none)";
}

TEST(a_book_that_is_updated_reads_only_the_files_that_have_changed)
{
    struct tsk_error err;
    struct tsk_workspace *ws = begin();
    struct book book = {.ws = ws};
    ASSERT_OK(book_update(ws, false, LANG_EN, &book, &err));
    ASSERT_INT(reads, 3);
    ASSERT_OK(book_update(ws, false, LANG_EN, &book, &err));
    ASSERT_INT(reads, 3);
    ASSERT_STR(book_next(&book)->request.id, "RQ-b");
    ASSERT_STR(book_reason_names[book_find(&book, "RQ-c")->reason], "DEPENDS_NOT_DONE");
    scene_write(FOLDER "RQ-a.yaml", "title: A\nrun: x\n"); /* of the same length */
    ASSERT_OK(book_update(ws, false, LANG_EN, &book, &err));
    ASSERT_INT(reads, 4);
    ASSERT_STR(title(&book, "RQ-a"), "A");
    end(ws, &book);
}

TEST(a_book_that_is_updated_has_new_files_and_lacks_those_that_are_gone)
{
    struct tsk_error err;
    struct tsk_workspace *ws = begin();
    struct book book = {.ws = ws};
    ASSERT_OK(book_update(ws, false, LANG_EN, &book, &err));
    ASSERT_INT(unlink(FOLDER "RQ-b.yaml"), 0);
    scene_write(FOLDER "RQ-d.yaml", "title: d\nrun: x\n");
    scene_write(FOLDER "RQ-e e.yaml", "title: e\nrun: x\n");
    ASSERT_OK(book_update(ws, false, LANG_EN, &book, &err));
    ASSERT_INT(reads, 4);
    ASSERT_INT(book.count, 4);
    ASSERT_STR(title(&book, "RQ-b"), "(none)");
    ASSERT_STR(title(&book, "RQ-d"), "d");
    ASSERT_STR(book_status(book_find(&book, "RQ-e e.yaml")), "broken");
    end(ws, &book);
}

TEST(a_book_that_is_updated_sees_a_new_run_and_another_end_of_it)
{
    struct tsk_error err;
    struct tsk_workspace *ws = begin();
    struct book book = {.ws = ws};
    char text[200];
    ASSERT_OK(book_update(ws, false, LANG_EN, &book, &err));
    ASSERT_STR(book_status(book_find(&book, "RQ-a")), "ready");
    ASSERT_INT(fs_make_dirs(ws->state_dir, "runs/RUN-1"), 0);
    snprintf(text, sizeof text, STAGE, "FAILED");
    scene_write(".aiflow/runs/RUN-1/stage.json", text);
    ASSERT_OK(book_note_run(ws, "RQ-a", "RUN-1", &err));
    ASSERT_OK(book_update(ws, false, LANG_EN, &book, &err));
    ASSERT_STR(book_status(book_find(&book, "RQ-a")), "failed");
    snprintf(text, sizeof text, STAGE, "NEEDS_INPUT");
    ASSERT_INT(fs_replace_file(ws->state_dir, "runs/RUN-1/stage.json", 0600, text, strlen(text)), 0);
    ASSERT_OK(book_update(ws, false, LANG_EN, &book, &err));
    ASSERT_STR(book_status(book_find(&book, "RQ-a")), "needs_input");
    ASSERT_INT(reads, 3);
    end(ws, &book);
}
