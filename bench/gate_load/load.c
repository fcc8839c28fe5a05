/* The load of the bench of the gate's cost, in a closed loop on kept connections.
 *
 *     load PORT post  CONNECTIONS SECONDS
 *     load PORT stream CONNECTIONS SECONDS     (of which the first second is not counted)
 *
 * Prints one line of JSON: answers, events, failures, and percentiles of latency in microseconds:
 * of a whole answer for `post`, and from an event's making to its reading for `stream`.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 16384, INPUT_BYTES = 262144, EVENTS = 1024, SAMPLES = 1 << 22 };

struct connection {
    size_t have;
    int64_t sent_at;
    char *input;
};

static struct connection connections[CONNECTIONS];
static int opened[CONNECTIONS];
static uint32_t *samples;
static int64_t count, answers, events_seen, failures;
static char request[4096];
static size_t request_size;
static int streams;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void sample(int64_t from, int64_t to) {
    int64_t us = (to - from) / 1000;
    if (count < SAMPLES) samples[count++] = us < 0 ? 0 : (uint32_t)us;
}

static int compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void ask(int fd) {
    connections[fd].sent_at = now_ns();
    connections[fd].have = 0;
    if (send(fd, request, request_size, MSG_NOSIGNAL) != (ssize_t)request_size) failures++;
}

static int open_to(int port) {
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(port)};
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (void *)&where, sizeof where)) return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static int is_ok(const struct connection *c) { return c->have > 12 && !memcmp(c->input + 9, "200", 3); }

/* Reads whole events; the rest stays for the next time. Returns whether the answer is over. */
static int take_events(struct connection *c, int64_t now) {
    char *at = c->input, *end = c->input + c->have, *mark;
    while ((mark = memchr(at, '@', end - at)) && end - mark > 21) {
        sample(strtoll(mark + 1, NULL, 10), now);
        events_seen++;
        at = mark + 21;
    }
    int over = memmem(at, end - at, "[DONE]", 6) && end - at >= 5 && !memcmp(end - 5, "0\r\n\r\n", 5);
    if (!over && !mark && end - at > 64) at = end - 64;
    else if (mark) at = mark;
    memmove(c->input, at, end - at);
    c->have = end - at;
    return over;
}

static void take(int fd, int64_t now) {
    struct connection *c = &connections[fd];
    ssize_t got = recv(fd, c->input + c->have, INPUT_BYTES - 1 - c->have, 0);
    if (got <= 0) {
        if (got == 0 || errno != EAGAIN) failures++, close(fd);
        return;
    }
    int is_first = c->have == 0;
    c->have += got;
    c->input[c->have] = 0;
    if (is_first && !is_ok(c)) failures++;
    if (streams) {
        if (take_events(c, now)) answers++, ask(fd);
        return;
    }
    char *end = strstr(c->input, "\r\n\r\n");
    char *length = end ? strcasestr(c->input, "content-length:") : NULL;
    if (length && c->have >= (size_t)(end + 4 - c->input) + strtoul(length + 15, NULL, 10)) {
        sample(c->sent_at, now);
        answers++;
        ask(fd);
    }
}

int main(int argc, char **argument) {
    if (argc != 5) return fprintf(stderr, "usage: load PORT post|stream CONNECTIONS SECONDS\n"), 2;
    int port = atoi(argument[1]), clients = atoi(argument[3]);
    streams = !strcmp(argument[2], "stream");
    samples = malloc(SAMPLES * sizeof *samples);
    char body[2048];
    int size = sprintf(body, "{\"model\":\"tiny\",\"prompt\":\"");
    for (int i = 0; i < 20; i++) size += sprintf(body + size, "The tide comes in and goes. ");
    size += sprintf(body + size, "\",\"max_tokens\":64,\"temperature\":0.7,\"stream\":%s}",
                    streams ? "true" : "false");
    request_size = sprintf(request,
                           "POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: */*\r\n"
                           "authorization: Bearer abcdefghijkl\r\nuser-agent: bench\r\n"
                           "content-type: application/json\r\ncontent-length: %d\r\n\r\n%s",
                           size, body);
    int poll = epoll_create1(0);
    struct epoll_event events[EVENTS];
    for (int i = 0; i < clients; i++) {
        int fd = open_to(port);
        if (fd < 0 || fd >= CONNECTIONS) return perror("load: connect"), 1;
        connections[fd].input = malloc(INPUT_BYTES);
        struct epoll_event in = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poll, EPOLL_CTL_ADD, fd, &in);
        opened[i] = fd;
    }
    for (int i = 0; i < clients; i++) ask(opened[i]);
    int64_t begun = now_ns(), from = begun + 1000000000LL;
    int64_t until = from + (int64_t)(atof(argument[4]) * 1e9);
    int is_counting = 0;
    for (int64_t now = begun; now < until;) {
        int ready = epoll_wait(poll, events, EVENTS, 10);
        now = now_ns();
        if (!is_counting && now >= from) {
            count = answers = events_seen = 0;
            is_counting = 1;
            from = now;
            puts("counting");
            fflush(stdout);
        }
        for (int i = 0; i < ready; i++) take(events[i].data.fd, now_ns());
    }
    double seconds = (now_ns() - from) / 1e9;
    qsort(samples, count, sizeof *samples, compare);
    printf("{\"seconds\":%.3f,\"answers\":%lld,\"events\":%lld,\"failures\":%lld,"
           "\"p50_us\":%u,\"p99_us\":%u}\n",
           seconds, (long long)answers, (long long)events_seen, (long long)failures,
           count ? samples[count / 2] : 0, count ? samples[count * 99 / 100] : 0);
    return 0;
}
