/* main.c: flytctl. See flytctl.h. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "control-managers/flytctl/flytctl.h"
#include "cpu/common/fd.h"
#include "cpu/common/log.h"

/* Opens /dev/null for reading in place of a stdout that was closed, so that printing fails there as on a full disk. */
static int open_standard(void)
{
    const bool closed = fcntl(STDOUT_FILENO, F_GETFD) < 0;
    if (fd_open_standard() != 0)
        return -1;
    if (!closed)
        return 0;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int code = dup2(fd, STDOUT_FILENO);
    close(fd);
    return code < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    static struct flytctl ctl = { .timeout_ms = CTL_CALL_SECONDS * 1000 };
    log_set_name("flytctl");
    if (open_standard() != 0) {         /* else the connection could be what is printed to */
        perror("flytctl: /dev/null cannot be opened in place of a closed stdin, stdout or stderr");
        return EXIT_FAILED;
    }
    signal(SIGPIPE, SIG_IGN);           /* `flytctl … | head` ends by the failed write below */
    int code = options_parse(&ctl, argc, argv);
    if (code == EXIT_FINE)
        code = ctl.command->run(&ctl);
    session_close(&ctl);
    const bool lost = fflush(stdout) != 0 || ferror(stdout);
    if (code == -1) /* help, or the version */
        code = EXIT_FINE;
    return lost && code == EXIT_FINE ? EXIT_FAILED : code;
}
