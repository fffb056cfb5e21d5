/* error_log.h: the core's own part of the process's log of errors (core.h has the public one). */
#ifndef FLYT_CLIENT_CORE_ERROR_LOG_H
#define FLYT_CLIENT_CORE_ERROR_LOG_H

/* Keeps a message, as core_log does, which this library also prints: cpu/common/log.h calls it. */
void error_log_printed(int level, const char *text);

#endif
