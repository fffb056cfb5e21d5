/* screen.c: pictures that follow each other, and single keys. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "control-managers/flytctl/flytctl.h"

enum { USUAL_HEIGHT = 24, ESCAPE = 27, SEQUENCE_MS = 50 };

static struct termios before;
static bool is_open;
static volatile sig_atomic_t interrupted, resized;

static void on_signal(int number)
{
    if (number == SIGWINCH)
        resized = 1;
    else
        interrupted = 1;
}

bool screen_open(void)
{
    struct sigaction action = { .sa_handler = on_signal };
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0)
        return false;
    struct termios single = before;
    single.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    single.c_cc[VMIN] = 0;
    single.c_cc[VTIME] = 0;
    sigaction(SIGWINCH, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    is_open = tcsetattr(STDIN_FILENO, TCSANOW, &single) == 0;
    if (is_open)
        printf("\033[?1049h\033[?25l"); /* the other screen, without a cursor */
    return is_open;
}

void screen_close(void)
{
    if (!is_open)
        return;
    printf("\033[?25h\033[?1049l");
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &before);
    is_open = false;
}

void screen_clear(void) { printf("\033[H\033[2J"); }

int screen_height(void)
{
    struct winsize size;
    const char *lines = getenv("LINES");
    int high = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row ? size.ws_row : lines ? atoi(lines) : 0;
    return high > 0 ? high : USUAL_HEIGHT;
}

static int read_byte(int ms)
{
    struct pollfd waiting = { .fd = STDIN_FILENO, .events = POLLIN };
    unsigned char byte;
    int ready = poll(&waiting, 1, ms);
    if (ready <= 0)
        return KEY_NONE;
    return read(STDIN_FILENO, &byte, 1) == 1 ? byte : KEY_END;
}

/* Behind ESC [ : the arrows and their neighbours. */
static int read_sequence(void)
{
    int next = read_byte(SEQUENCE_MS);
    if (next != '[' && next != 'O')
        return ESCAPE;
    next = read_byte(SEQUENCE_MS);
    int tilde = next >= '1' && next <= '8' ? read_byte(SEQUENCE_MS) : 0;
    switch (next) {
    case 'A': return KEY_UP;
    case 'B': return KEY_DOWN;
    case 'H': return KEY_HOME;
    case 'F': return KEY_LAST;
    case '5': return tilde == '~' ? KEY_PAGE_UP : KEY_NONE;
    case '6': return tilde == '~' ? KEY_PAGE_DOWN : KEY_NONE;
    case '1':
    case '7': return tilde == '~' ? KEY_HOME : KEY_NONE;
    case '4':
    case '8': return tilde == '~' ? KEY_LAST : KEY_NONE;
    default: return KEY_NONE;
    }
}

int screen_key(unsigned ms)
{
    if (!is_open) { /* SIGINT ends the program then */
        poll(NULL, 0, (int)ms);
        return KEY_NONE;
    }
    int key = read_byte((int)ms);
    if (interrupted)
        return KEY_END;
    if (resized) {
        resized = 0;
        return KEY_RESIZED;
    }
    return key == ESCAPE ? read_sequence() : key;
}
