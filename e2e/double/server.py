"""The HTTP server of the double, and its end: draining, abort and the engine's death."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from e2e.double import answers, completions, faults, logs, protocol
from e2e.double.answers import Json
from e2e.double.api_errors import ApiError, EngineDead, invalid
from e2e.double.engine import Engine
from e2e.double.faults import Faults

MAX_BODY_BYTES = 512 * 2**20
EXPOSITION_TYPE = "text/plain; version=1.0.0; charset=utf-8"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """The API of one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.is_draining = False
        self.is_unhealthy = False
        self.is_hanging = False
        self.faults = Faults()
        self.torn_down = asyncio.Event()
        self.ended = asyncio.Event()
        self.open_requests = 0
        self._started = int(time.time())

    def application(self) -> web.Application:
        """Return the routes."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._guard])
        app.router.add_get("/health", self.health)
        for method in ("GET", "POST"):
            app.router.add_route(method, "/ping", self.health)
        app.router.add_get("/version", self.version)
        app.router.add_get("/load", self.load)
        app.router.add_get("/metrics", self.metrics)
        app.router.add_get("/v1/models", self.models)
        app.router.add_post("/v1/completions", self.completion)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_post("/tokenize", self.tokenize)
        app.router.add_post("/detokenize", self.detokenize)
        app.router.add_put("/double/faults", self.fail)
        app.router.add_get("/double/pool", self.pool)
        return app

    # --- endpoints

    async def health(self, request: web.Request) -> web.Response:
        """Answer 200 while the engine lives, also while it drains."""
        if self.is_hanging:
            await self.ended.wait()
        return web.Response(status=503 if self.engine.is_dead or self.is_unhealthy else 200)

    async def version(self, request: web.Request) -> web.Response:
        """Name the vLLM version."""
        return _json({"version": self.engine.config.settings.vllm_version})

    async def load(self, request: web.Request) -> web.Response:
        """Answer 0, as vLLM does where it is not told to count its load."""
        return _json({"server_load": 0})

    async def metrics(self, request: web.Request) -> web.Response:
        """Expose the metrics."""
        if self.faults.metrics:
            return await faults.page(self.faults.metrics, self._exposed, self.ended)
        return web.Response(
            body=self._exposed().encode(), headers={"Content-Type": EXPOSITION_TYPE}
        )

    async def models(self, request: web.Request) -> web.Response:
        """List the served names."""
        config, limits = self.engine.config, self.engine.scheduler.limits
        root, names = config.model.name, config.served_names
        return _json(answers.models(names, root, limits.max_model_len, self._started))

    async def completion(self, request: web.Request) -> web.StreamResponse:
        """Complete prompts."""
        return await self._generate(request, is_chat=False)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Answer a chat."""
        return await self._generate(request, is_chat=True)

    async def tokenize(self, request: web.Request) -> web.Response:
        """Return the token ids of a prompt or chat."""
        body, vocabulary = await _body(request), self.engine.vocabulary
        completions.check_model(self.engine, body)
        if "messages" in body:
            adds = body.get("add_generation_prompt", True)
            pairs = protocol.chat_messages(body)
            tokens = vocabulary.encode_chat(pairs, add_generation_prompt=adds)
        elif isinstance(body.get("prompt"), str):
            tokens = vocabulary.encode(body["prompt"])
        else:
            raise invalid("missing", "body.prompt", "Field required", body)
        texts = [vocabulary.decode([token]) for token in tokens]
        return _json(
            {
                "count": len(tokens),
                "max_model_len": self.engine.scheduler.limits.max_model_len,
                "tokens": tokens,
                "token_strs": texts if body.get("return_token_strs") else None,
            }
        )

    async def detokenize(self, request: web.Request) -> web.Response:
        """Return the text of token ids."""
        tokens = (await _body(request)).get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
            raise invalid("list_type", "body.tokens", "Input should be a valid list", tokens)
        return _json({"prompt": self.engine.vocabulary.decode(tokens)})

    async def fail(self, request: web.Request) -> web.Response:
        """Go wrong from now on as the body says, or be well again."""
        self.faults = faults.read(await _body(request))
        return _json({"answers": self.faults.answers, "metrics": self.faults.metrics})

    async def pool(self, request: web.Request) -> web.Response:
        """Tell what the KV pool has held at most, and whether it was ever too small."""
        cache = self.engine.scheduler.cache
        return _json(
            {
                "blocks": cache.pool.block_count - 1,
                "peakBlocks": cache.pool.peak_used,
                "shortages": cache.shortages,
                "preemptions": self.engine.scheduler.totals.preemptions,
                "open": self.engine.open_count,
            }
        )

    def _exposed(self) -> str:
        self.engine.metrics.update(self.engine.scheduler)
        return self.engine.metrics.text()

    async def _generate(self, request: web.Request, *, is_chat: bool) -> web.StreamResponse:
        body, request_id = await _body(request), request.headers.get("X-Request-Id")
        if self.torn_down.is_set():
            await self.ended.wait()
            raise EngineDead
        if self.is_draining or self.faults.answers == faults.ABORT:
            return await self._refuse(request, body, is_chat, request_id)
        if self.faults.replaces_answers:
            return await faults.answer(self.faults.answers, self.ended)
        job = await completions.start(self.engine, body, is_chat=is_chat, request_id=request_id)
        if not job.request.is_streamed:
            return _json(await completions.whole(self.engine, job))
        response, sent = await _open_stream(request), 0
        async with contextlib.aclosing(completions.chunks(self.engine, job)) as chunks:
            async for chunk in chunks:
                if self.faults.breaks_streams and sent >= faults.CHUNKS_BEFORE:
                    await faults.break_off(self.faults.answers, request, response, self.ended)
                    return response
                await _send(response, chunk)
                sent += 1
        return await _close_stream(response)

    async def _refuse(
        self, request: web.Request, body: Json, is_chat: bool, request_id: str | None
    ) -> web.StreamResponse:
        """Answer as a draining vLLM does: 200, no text, finish reason `abort`."""
        job, whole = completions.aborted(self.engine, body, is_chat=is_chat, request_id=request_id)
        if not job.request.is_streamed:
            return _json(whole)
        response = await _open_stream(request)
        for index, choice in enumerate(whole["choices"]):
            part = answers.Choice(index, "", (), (), choice["finish_reason"], None)
            await _send(response, job.reply.chunk(part, part.finish, is_last=True))
        if job.request.wants_usage:
            await _send(response, job.reply.usage_chunk(job.prompt_tokens, 0))
        return await _close_stream(response)

    # --- around each request

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        keys = self.engine.config.api_keys
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if keys and request.path.startswith(("/v1", "/v2", "/inference")) and token not in keys:
            return _json({"error": "Unauthorized"}, status=401)
        self.open_requests += 1
        try:
            return await handler(request)
        except ApiError as failure:
            return _json(failure.body(), status=failure.status)
        except web.HTTPException as failure:
            return _json({"detail": failure.reason}, status=failure.status)
        finally:
            self.open_requests -= 1


def _json(body: Json, status: int = 200) -> web.Response:
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return web.Response(text=text, status=status, content_type="application/json")


async def _body(request: web.Request) -> Json:
    if "json" not in request.content_type:
        problem = "Unsupported Media Type: Only 'application/json' is allowed"
        raise ApiError(400, "Bad Request", f"1 validation error:\n  {problem}")
    return protocol.decode(await request.read())


async def _open_stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    return response


async def _send(response: web.StreamResponse, body: Json) -> None:
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    await response.write(f"data: {text}\n\n".encode())


async def _close_stream(response: web.StreamResponse) -> web.StreamResponse:
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


def log_shutdown(message: str, process: str = "APIServer") -> None:
    """Print one of the lines that tell a clean stop from a crash."""
    logs.info("launcher.py:254", f"[shutdown] {message}", process=process)
