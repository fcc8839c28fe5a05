/* A mock engine for the bench of the gate's cost: answers at once, or streams at a fixed pace.
 *
 *     engine PORT CHUNKS_PER_SECOND CHUNKS
 *
 * A body with "stream":true gets a stream of CHUNKS events, each with the time of its making in
 * it; any other POST one short answer; GET an empty one. One thread, epoll, no allocation at work.
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

enum { CONNECTIONS = 16384, INPUT_BYTES = 65536, EVENTS = 1024 };

struct connection {
    int open, streams, wants_usage, sent;
    int64_t due;
    size_t have, skip;
    char *input;
};

static struct connection connections[CONNECTIONS];
static int active[CONNECTIONS], actives;
static int64_t interval_ns;
static int chunks;

static const char WHOLE[] =
    "{\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,\"model\":\"tiny\","
    "\"choices\":[{\"index\":0,\"text\":\" the tide comes in\",\"logprobs\":null,"
    "\"finish_reason\":\"length\",\"stop_reason\":null}],\"usage\":{\"prompt_tokens\":40,"
    "\"total_tokens\":44,\"completion_tokens\":4,\"prompt_tokens_details\":null}}";
static const char USAGE[] =
    "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,\"model\":\"tiny\","
    "\"choices\":[],\"usage\":{\"prompt_tokens\":40,\"total_tokens\":44,"
    "\"completion_tokens\":4}}\n\n";

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void drop(int fd) {
    struct connection *c = &connections[fd];
    c->open = c->streams = 0;
    close(fd);
}

static void put(int fd, const char *data, size_t size) {
    /* A reader that is behind loses the stream: the bench never lets one be. */
    if (connections[fd].open && send(fd, data, size, MSG_NOSIGNAL) != (ssize_t)size) drop(fd);
}

static int chunk(char *to, const char *payload) {
    return sprintf(to, "%zx\r\n%s\r\n", strlen(payload), payload);
}

static void step(int fd, int64_t now) {
    struct connection *c = &connections[fd];
    char payload[512], out[2048];
    if (c->sent < chunks) {
        sprintf(payload,
                "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,"
                "\"model\":\"tiny\",\"choices\":[{\"index\":0,\"text\":\"@%020lld\","
                "\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null}]}\n\n",
                (long long)now);
        put(fd, out, chunk(out, payload));
        c->sent++;
        c->due += interval_ns;
        return;
    }
    int size = c->wants_usage ? chunk(out, USAGE) : 0;
    size += chunk(out + size, "data: [DONE]\n\n");
    memcpy(out + size, "0\r\n\r\n", 5);
    c->streams = 0;
    put(fd, out, size + 5);
}

static void answer(int fd, const char *head, const char *body, size_t length) {
    struct connection *c = &connections[fd];
    char out[1024];
    if (!memcmp(head, "GET", 3)) {
        put(fd, out, sprintf(out, "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"
                                  "content-length: 0\r\n\r\n"));
        return;
    }
    if (memmem(body, length, "\"stream\":true", 13) || memmem(body, length, "\"stream\": true", 14)) {
        put(fd, out, sprintf(out, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; "
                                  "charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"));
        c->wants_usage = memmem(body, length, "include_usage", 13) != NULL;
        c->sent = 0;
        c->streams = 1;
        /* Streams do not tick together: each begins at its own part of the interval. */
        c->due = now_ns() + (interval_ns ? (fd * 7919LL * 1000) % interval_ns : 0);
        active[actives++] = fd;
        return;
    }
    put(fd, out, sprintf(out, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                              "content-length: %zu\r\n\r\n%s", strlen(WHOLE), WHOLE));
}

static void serve(int fd) {
    struct connection *c = &connections[fd];
    ssize_t got = recv(fd, c->input + c->have, INPUT_BYTES - 1 - c->have, 0);
    if (got <= 0) {
        if (got == 0 || errno != EAGAIN) drop(fd);
        return;
    }
    c->have += got;
    for (;;) {
        c->input[c->have] = 0;
        char *end = strstr(c->input, "\r\n\r\n");
        if (!end) return;
        char *length = strcasestr(c->input, "content-length:");
        size_t body = length && length < end ? strtoul(length + 15, NULL, 10) : 0;
        size_t size = end + 4 - c->input + body;
        if (c->have < size) return;
        answer(fd, c->input, end + 4, body);
        if (!c->open) return;
        memmove(c->input, c->input + size, c->have - size);
        c->have -= size;
    }
}

int main(int count, char **argument) {
    if (count != 4) return fprintf(stderr, "usage: engine PORT CHUNKS_PER_SECOND CHUNKS\n"), 2;
    double rate = atof(argument[2]);
    interval_ns = rate > 0 ? (int64_t)(1e9 / rate) : 0;
    chunks = atoi(argument[3]);
    int one = 1, listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(atoi(argument[1]))};
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listening, (void *)&where, sizeof where) || listen(listening, 4096))
        return perror("engine"), 1;
    int poll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listening}, events[EVENTS];
    epoll_ctl(poll, EPOLL_CTL_ADD, listening, &event);
    for (;;) {
        int ready = epoll_wait(poll, events, EVENTS, actives ? 1 : -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd != listening) {
                if (connections[fd].open) serve(fd);
                continue;
            }
            while ((fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                if (fd >= CONNECTIONS) { close(fd); continue; }
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                struct connection *c = &connections[fd];
                char *input = c->input ? c->input : malloc(INPUT_BYTES);
                *c = (struct connection){.open = 1, .input = input};
                struct epoll_event in = {.events = EPOLLIN, .data.fd = fd};
                epoll_ctl(poll, EPOLL_CTL_ADD, fd, &in);
            }
        }
        int kept = 0;
        for (int i = 0; i < actives; i++) {
            int fd = active[i];
            struct connection *c = &connections[fd];
            int64_t now = now_ns();
            if (c->streams && now >= c->due) step(fd, now);
            if (c->streams) active[kept++] = fd;
        }
        actives = kept;
    }
}
