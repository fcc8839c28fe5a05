/* Preloaded into the engine on machines with few cores.
 *
 * The progress thread of NIXL's UCX backend calls poll(two descriptors, no wait) without pause and
 * so keeps one core busy in an idle engine. Here that very call waits for one millisecond instead.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>

typedef int (*poll_function)(struct pollfd *, nfds_t, int);

int poll(struct pollfd *descriptors, nfds_t count, int timeout_ms)
{
    static poll_function real;
    if (!real)
        real = (poll_function)dlsym(RTLD_NEXT, "poll");
    if (timeout_ms == 0 && count == 2 && descriptors[0].events == POLLIN &&
        descriptors[1].events == POLLIN)
        timeout_ms = 1;
    return real(descriptors, count, timeout_ms);
}
