/* file.h: the file of a checkpoint, which gets its name when all of it is on the disk. Until then it has none, where
   the file system can do that, so that nothing of it stays when the process is killed; else a temporary one. */
#ifndef FLYT_CHECKPOINT_FILE_H
#define FLYT_CHECKPOINT_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct checkpoint_file {
    char path[PATH_MAX], temporary[PATH_MAX];
    bool named;                             /* it has its temporary name */
};

/* Makes the file, in the folder of its name. Its descriptor, or -1 with why: somebody else's
   file has the name, for example. */
int  checkpoint_file_make(struct checkpoint_file *, const char *path, char *why, size_t size);
/* What is in it is on the disk, and it gets its name. False, with why: no file of it is left. fd stays open. */
bool checkpoint_file_name(struct checkpoint_file *, int fd, char *why, size_t size);
/* Nothing of it stays, once the descriptor is closed. */
void checkpoint_file_drop(struct checkpoint_file *);

#endif
