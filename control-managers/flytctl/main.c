/* main.c: flytctl. See flytctl.h. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "control-managers/flytctl/flytctl.h"
#include "cpu/common/fd.h"
#include "cpu/common/log.h"

int main(int argc, char **argv)
{
    static struct flytctl ctl = { .timeout_ms = CTL_CALL_SECONDS * 1000 };
    log_set_name("flytctl");
    if (fd_open_standard() != 0) {      /* else the connection could be what is printed to */
        perror("flytctl: /dev/null cannot be opened in place of a closed stdin, stdout or stderr");
        return EXIT_FAILED;
    }
    signal(SIGPIPE, SIG_IGN);           /* `flytctl … | head` ends by the failed write below */
    int code = options_parse(&ctl, argc, argv);
    if (code == EXIT_FINE)
        code = ctl.command->run(&ctl);
    session_close(&ctl);
    if (fflush(stdout) != 0 && code == EXIT_FINE)
        code = EXIT_FAILED;
    return code == -1 ? EXIT_FINE : code;
}
