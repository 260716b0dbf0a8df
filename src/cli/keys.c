/* keys.c - single keys of a terminal. Only where a person sits: stdin and stdout are the terminal, and we are in front. */
#include "cli/cli.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

/* The terminal as it was; lives as long as the program, as the terminal does. */
static struct {
    bool is_taken, has_exit;
    struct termios settings, keys; /* as it was; as it is while single keys are taken */
} keyboard;

/* A process in the background would be stopped by tcsetattr and by read. */
static bool keyboard_is_ours(void)
{
    return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void keyboard_give_back(void)
{
    if (keyboard.is_taken && keyboard_is_ours())
        tcsetattr(STDIN_FILENO, TCSANOW, &keyboard.settings);
    keyboard.is_taken = false;
}

bool cli_has_terminal(void)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && keyboard_is_ours();
}

/* As Ctrl-Z does by default. Unlike SIGSTOP, SIGTSTP has no effect where nobody could continue us: `ssh -t host tasuki up`. */
static void stop_here(int number)
{
    struct sigaction ours, by_default = {.sa_handler = SIG_DFL};
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    sigaction(number, &by_default, &ours);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
    sigaction(number, &ours, NULL);
}

/* Ctrl-Z: the shell gets the terminal as it was. Once in front again (not with `bg`), single keys are taken as before. */
static void on_stop(int number)
{
    int saved = errno;
    if (keyboard.is_taken && keyboard_is_ours())
        tcsetattr(STDIN_FILENO, TCSANOW, &keyboard.settings);
    stop_here(number);
    if (keyboard.is_taken && keyboard_is_ours())
        tcsetattr(STDIN_FILENO, TCSANOW, &keyboard.keys);
    errno = saved;
}

static bool keyboard_take(bool is_raw)
{
    if (!cli_has_terminal() || (!keyboard.is_taken && tcgetattr(STDIN_FILENO, &keyboard.settings) < 0))
        return false;
    struct sigaction before;
    struct termios keys = keyboard.settings;
    if (is_raw)
        cfmakeraw(&keys);
    else
        keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    if (tcsetattr(STDIN_FILENO, TCSANOW, &keys) < 0)
        return false;
    keyboard.keys = keys;
    keyboard.is_taken = true;
    /* Of a raw terminal, Ctrl-Z is a key. */
    if (!is_raw && sigaction(SIGTSTP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGTSTP, &(struct sigaction){.sa_handler = on_stop, .sa_flags = SA_RESTART}, NULL);
    if (!keyboard.has_exit)
        atexit(keyboard_give_back);
    keyboard.has_exit = true;
    return true;
}

bool cli_take_raw(void)
{
    return keyboard_take(true);
}

bool cli_take_keys(struct op_call *call UNUSED, bool on)
{
    if (on)
        return keyboard_take(false);
    keyboard_give_back();
    return false;
}
