#include "own/who.h"
#include "scene.h"

#include <pthread.h>

static struct tsk_error err;

/* ---- text ---- */

TEST(text_from_outside_has_no_control_characters_and_ends_at_a_character)
{
    char small[8];
    char text[64];
    who_copy(text, sizeof text,
             "a\x1b[31mb\nc\x7f"
             "d\xc2\x9b"
             "e\xff");
    ASSERT_STR(text, "a?[31mb?c?d?e?");
    who_copy(small, sizeof small, "\xe9\x8e\x96\xe9\x8e\x96\xe9\x8e\x96");
    ASSERT_STR(small, "\xe9\x8e\x96\xe9\x8e\x96");
    who_copy(small, sizeof small, NULL);
    ASSERT_STR(small, "");
}

TEST(a_note_has_at_most_200_characters_and_no_control_characters)
{
    char note[WHO_NOTE_SIZE + 4] = "";
    for (int i = 0; i < WHO_NOTE_CHARS; i++)
        memcpy(note + 3 * i, "\xe9\x8e\x96", 4);
    ASSERT_OK(who_check_note(note, &err));
    memcpy(note + 3 * WHO_NOTE_CHARS, "x", 2);
    ASSERT_CODE(who_check_note(note, &err), TSK_INVALID_INPUT);
    ASSERT_CODE(who_check_note("two\nlines", &err), TSK_INVALID_INPUT);
    ASSERT_CODE(who_check_note("\x1b[2J", &err), TSK_INVALID_INPUT);
    ASSERT_CODE(who_check_note("\xff", &err), TSK_INVALID_INPUT);
}

TEST(a_who_comes_back_from_its_json)
{
    struct who who = {.label = "a#2",
                      .user = "u",
                      .program = "p",
                      .pid = 5,
                      .host = "h",
                      .instance = "h-5-1",
                      .session = "s",
                      .subagent = "sub",
                      .note = "n \"q\""};
    struct who back;
    struct buf label CLEANUP(buf_clear) = BUF_INIT;
    json_t *json CLEANUP_JSON = who_json(&who);
    who_of_json(json, &back);
    ASSERT(memcmp(&who, &back, sizeof who) == 0);
    who_put_label(&label, json);
    ASSERT_STR(buf_str(&label), "a#2: n \"q\"");
}

/* ---- the acting party ---- */

static void *work(void *label)
{
    struct who who = {.label = "thread"};
    who_enter(&who);
    snprintf(label, 32, "%.31s", who_current()->label);
    who_enter(NULL);
    return NULL;
}

TEST(a_thread_works_for_its_caller_and_the_others_for_the_process)
{
    char label[32] = "";
    pthread_t thread;
    setenv("TASUKI_AGENT", "whole", 1);
    ASSERT_STR(who_current()->label, "whole");
    ASSERT_INT(pthread_create(&thread, NULL, work, label), 0);
    pthread_join(thread, NULL);
    ASSERT_STR(label, "thread");
    ASSERT_STR(who_current()->label, "whole");
    who_set_note("later");
    ASSERT(strstr(who_current_text(), "\"note\":\"later\""));
}

TEST(the_environment_names_agent_session_subagent_and_note)
{
    struct who who;
    setenv("TASUKI_AGENT", "bob\n", 1);
    setenv("TASUKI_AGENT_SESSION", "s-1", 1);
    setenv("TASUKI_SUBAGENT", "reviewer", 1);
    setenv("TASUKI_NOTE", "refactoring auth", 1);
    who_of_environment(&who, NULL);
    ASSERT_STR(who.label, "bob?");
    ASSERT_STR(who.session, "s-1");
    ASSERT_STR(who.subagent, "reviewer");
    ASSERT_STR(who.note, "refactoring auth");
    ASSERT(who.is_agent);
    ASSERT_INT(who.pid, getpid());
    unsetenv("TASUKI_AGENT");
    who_of_environment(&who, NULL);
    ASSERT_STR(who.label, "who_test"); /* a program that uses the library is itself the program */
    ASSERT(!who.is_agent);
}

TEST(a_forked_program_is_another_one)
{
    int status;
    ASSERT_INT(who_current()->pid, getpid());
    pid_t child = fork();
    if (child == 0)
        _exit(who_current()->pid == getpid() ? 0 : 1);
    waitpid(child, &status, 0);
    ASSERT_INT(status, 0);
}

/* ---- the registry ---- */

/* A living process with an instance of its own. */
static pid_t living(struct proc_id *ret)
{
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    ASSERT_INT(proc_id_of(pid, ret), 0);
    return pid;
}

static void enroll(struct tsk_workspace *ws, const struct proc_id *process, const char *name, struct who *who)
{
    struct instance instance;
    *who = (struct who){.is_agent = true};
    ASSERT_OK(instance_register(ws, process, &instance, &err));
    ASSERT_OK(who_register(ws, &instance, name, "/tmp", who, &err));
}

TEST(living_clients_of_one_name_have_different_numbers_and_a_dead_ones_number_is_free)
{
    struct tsk_workspace *ws = scene_open();
    struct proc_id process[3];
    struct who who;
    pid_t first = living(&process[0]), second = living(&process[1]), third = living(&process[2]);
    enroll(ws, &process[0], "claude-code", &who);
    ASSERT_STR(who.label, "claude-code");
    enroll(ws, &process[1], "claude-code", &who);
    ASSERT_STR(who.label, "claude-code#2");
    enroll(ws, &process[1], "claude-code", &who); /* the same one once more */
    ASSERT_STR(who.label, "claude-code#2");
    kill(first, SIGKILL);
    waitpid(first, NULL, 0);
    enroll(ws, &process[2], "claude-code", &who);
    ASSERT_STR(who.label, "claude-code");
    kill(second, SIGKILL);
    kill(third, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    tsk_workspace_close(ws);
}

TEST(a_note_stays_with_the_instance_and_the_card_has_the_last_call)
{
    struct tsk_workspace *ws = scene_open();
    struct proc_id self;
    struct who who, seen;
    char operation[64];
    int64_t at;
    ASSERT_INT(proc_id_of(getpid(), &self), 0);
    enroll(ws, &self, "codex", &who);
    ASSERT_OK(who_write_note(ws, who.instance, "tests", &err));
    who_look(ws, who.instance, &seen);
    ASSERT_STR(seen.label, "codex");
    ASSERT_STR(seen.note, "tests");
    who_last_call(ws, who.instance, &self, operation, &at);
    ASSERT_STR(operation, "");
    who_saw(ws, who.instance, &self, "lock.acquire");
    who_last_call(ws, who.instance, &self, operation, &at);
    ASSERT_STR(operation, "lock.acquire");
    ASSERT(at > 0);
    ASSERT_CODE(who_write_note(ws, "nobody", "x", &err), TSK_NOT_FOUND);
    tsk_workspace_close(ws);
}
