/* move_line.c: how far a move is, on the terminal of the command that waits for it. */
#include <stdio.h>

#include "control-managers/flytctl/flytctl.h"

#define MIB (double)(1 << 20)

void show_progress(struct flytctl *ctl, const admin_move_row *move)
{
    const ctl_progress *progress = &move->progress;
    const unsigned long long program = move->prog;
    const char *phase = row_move_phase(move);
    char speed[64] = "";
    if (progress->rate)
        snprintf(speed, sizeof speed, ", %.1f MiB a second", (double)progress->rate / MIB);
    const bool prepares = progress->phase == CTL_PHASE_PREPARING && progress->done;   /* the program goes on */
    if ((prepares || progress->phase == CTL_PHASE_COPYING) && progress->total)
        show_line(ctl, "program %llu: %s, %.1f of %.1f MiB (%.0f %%)%s", program, phase, (double)progress->done / MIB,
                  (double)progress->total / MIB, 100 * (double)progress->done / (double)progress->total, speed);
    else
        show_line(ctl, "program %llu: %s", program, *phase ? phase : "the GPU server and the program are told");
}
