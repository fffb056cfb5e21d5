/* file.h: the file of a checkpoint, from its temporary name to its own. */
#ifndef FLYT_CHECKPOINT_FILE_H
#define FLYT_CHECKPOINT_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct checkpoint_file { char path[PATH_MAX], temporary[PATH_MAX]; };

/* Makes the file under its temporary name, in the folder of its own. Its descriptor, or -1 with why: somebody else's
   file has the name, for example. */
int  checkpoint_file_make(struct checkpoint_file *, const char *path, char *why, size_t size);
/* What is in it is on the disk, and it gets its name. False, with why: the temporary file is gone. fd stays open. */
bool checkpoint_file_name(struct checkpoint_file *, int fd, char *why, size_t size);
void checkpoint_file_drop(struct checkpoint_file *);

#endif
