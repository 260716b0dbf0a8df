/* keys.c - single keys of a terminal. Only where a person sits: stdin and stdout are the terminal, and we are in front. */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

/* The terminal as it was; lives as long as the program, as the terminal does. */
static struct {
    bool is_taken, has_exit;
    struct termios settings, keys; /* as it was; as it is while single keys are taken */
} keyboard;

static void keyboard_give_back(void)
{
    if (keyboard.is_taken)
        tcsetattr(STDIN_FILENO, TCSANOW, &keyboard.settings);
    keyboard.is_taken = false;
}

bool cli_has_terminal(void)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* Ctrl-Z: the shell gets the terminal as it was. Once in front again (not with `bg`), single keys are taken as before. */
static void on_stop(int number UNUSED)
{
    int saved = errno;
    if (keyboard.is_taken)
        tcsetattr(STDIN_FILENO, TCSANOW, &keyboard.settings);
    kill(getpid(), SIGSTOP);
    if (keyboard.is_taken && tcgetpgrp(STDIN_FILENO) == getpgrp())
        tcsetattr(STDIN_FILENO, TCSANOW, &keyboard.keys);
    errno = saved;
}

static bool keyboard_take(bool is_raw)
{
    if (!cli_has_terminal() || (!keyboard.is_taken && tcgetattr(STDIN_FILENO, &keyboard.settings) < 0))
        return false;
    struct termios keys = keyboard.settings;
    if (is_raw)
        cfmakeraw(&keys);
    else
        keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    if (tcsetattr(STDIN_FILENO, TCSANOW, &keys) < 0)
        return false;
    keyboard.keys = keys;
    keyboard.is_taken = true;
    if (!is_raw) /* of a raw terminal, Ctrl-Z is a key */
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
