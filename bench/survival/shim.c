/* Faults at an exact place: dies at the n-th call that touches a named file, or shows a system clock that jumps.
 *
 * FAULT_AT     lines "call substring nth token": with the nth "write" to a file, or "rename" to a name, that contains
 *              the substring, the process kills itself, if the file `token` can be removed (so each fault strikes once;
 *              a token "-" strikes every time). "a*b" is a name that contains a, and b after it.
 * CLOCK_OFFSET file whose number (seconds) is added to the system clock; the monotonic clock stays as it is.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MOST 16
static int n_faults = -1;
static struct { char call[16], part[128], token[256]; int nth, seen; } faults[MOST];

static void load(void) {
    const char *path = getenv("FAULT_AT");
    n_faults = 0;
    if (!path) return;
    FILE *file = fopen(path, "r");
    if (!file) return;
    while (n_faults < MOST && fscanf(file, "%15s %127s %d %255s", faults[n_faults].call, faults[n_faults].part,
                                     &faults[n_faults].nth, faults[n_faults].token) == 4)
        n_faults++;
    fclose(file);
}

static int matches(const char *name, const char *part) {
    char first[128];
    const char *star = strchr(part, '*');
    if (!star) return strstr(name, part) != NULL;
    memcpy(first, part, star - part);
    first[star - part] = 0;
    const char *found = strstr(name, first);
    return found && strstr(found, star + 1);
}

static void strike(const char *call, const char *name) {
    if (n_faults < 0) load();
    for (int i = 0; i < n_faults; i++) {
        if (strcmp(faults[i].call, call) || !matches(name, faults[i].part)) continue;
        if (++faults[i].seen < faults[i].nth) continue;
        if (strcmp(faults[i].token, "-") && unlink(faults[i].token)) continue;
        kill(getpid(), SIGKILL);
        pause();
    }
}

int rename(const char *from, const char *to) {
    static int (*real)(const char *, const char *);
    if (!real) real = dlsym(RTLD_NEXT, "rename");
    strike("rename", to);
    return real(from, to);
}

ssize_t write(int fd, const void *data, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    if (getenv("FAULT_AT") && fd > 2) {
        char link[64], name[512];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, name, sizeof name - 1);
        if (length > 0) {
            name[length] = 0;
            if (strstr(name, "/.tmp-")) {
                size_t half = size / 2;
                for (int i = 0; half && n_faults != 0 && i < (n_faults < 0 ? 1 : n_faults); i++) {
                    if (n_faults < 0) load();
                    if (i < n_faults && !strcmp(faults[i].call, "write") && matches(name, faults[i].part) &&
                        faults[i].seen + 1 >= faults[i].nth && !access(faults[i].token, F_OK)) {
                        real(fd, data, half); /* half of it is written before the end */
                        break;
                    }
                }
                strike("write", name);
            }
        }
    }
    return real(fd, data, size);
}

static double offset(void) {
    static int (*plain)(clockid_t, struct timespec *);
    static double value;
    static long looked;
    const char *path = getenv("CLOCK_OFFSET");
    struct timespec now;
    if (!path) return 0;
    if (!plain) plain = dlsym(RTLD_NEXT, "clock_gettime");
    plain(CLOCK_MONOTONIC, &now);
    long slot = now.tv_sec * 10 + now.tv_nsec / 100000000;
    if (slot != looked) {
        looked = slot;
        FILE *file = fopen(path, "r");
        double read;
        if (file) {
            if (fscanf(file, "%lf", &read) == 1) value = read;
            fclose(file);
        }
    }
    return value;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(clock, time);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) time->tv_sec += (time_t)offset();
    return code;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict when, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    when->tv_sec = now.tv_sec;
    when->tv_usec = now.tv_nsec / 1000;
    return 0;
}
