"""One completion or chat request: from its body to the engine and back."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from e2e.double import protocol, transfer
from e2e.double.answers import Choice, Json, Reply, usage
from e2e.double.api_errors import ApiError, EngineDead, internal_error
from e2e.double.engine import Chunk, Engine, Stream
from e2e.double.protocol import Prompt, Request
from e2e.double.sequences import FinishReason, RemoteKV, Sequence, Times
from e2e.double.transfer import EngineKilled


@dataclass(frozen=True)
class Job:
    """A request whose sequences are in the engine, in the order of their choices."""

    request: Request
    reply: Reply
    streams: tuple[Stream, ...]

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of the request, each prompt once."""
        return sum(len(prompt.tokens) for prompt in self.request.prompts)


async def start(engine: Engine, body: Json, *, is_chat: bool, request_id: str | None) -> Job:
    """Check a body and queue its sequences.

    Raises:
        ApiError: it is refused; the prefill engine that holds its KV is told so.
        EngineDead: its transfer parameters broke the engine.
    """
    params = body.get("kv_transfer_params") if engine.moves_kv else None
    try:
        check_model(engine, body)
        choices = body.get("n")
        engine.check_admission(choices if isinstance(choices, int) and choices > 0 else 1)
        limit = engine.scheduler.limits.max_model_len
        request = protocol.read(body, engine.vocabulary, limit, is_chat=is_chat)
        reply = _reply(engine, request, _id(is_chat, request_id))
        sequences = _sequences(engine, request, limit, reply.id)
        remote = await _remote(engine, request)
    except ApiError:
        _release(engine, params)
        raise
    for sequence in sequences:
        sequence.remote = remote
        sequence.is_remote_pending = remote is not None
        sequence.hold = engine.moves_kv and transfer.keeps_blocks(request.kv_transfer_params)
    streams = tuple(engine.submit(sequence, request.choices) for sequence in sequences)
    return Job(request, reply, streams)


async def whole(engine: Engine, job: Job) -> Json:
    """Wait for all sequences and return the answer.

    Raises:
        ApiError: a sequence failed.
        EngineDead: the engine died.
    """
    try:
        choices = [await _collect(engine, job, index) for index in range(len(job.streams))]
    finally:
        _abandon(engine, job)
    first = job.streams[0].sequence
    params = transfer.answer(first, engine.exchange.source) if first.held_blocks else None
    return job.reply.whole(choices, job.prompt_tokens, params)


async def chunks(engine: Engine, job: Job) -> AsyncGenerator[Json]:
    """Yield the chunks of a streamed answer; the last one may be an error."""
    made = [0] * len(job.streams)
    wants_usage = job.request.wants_usage or engine.config.forces_usage
    try:
        async for index, chunk in _merge(job.streams):
            if chunk.finish is FinishReason.ERROR:
                raise internal_error()
            if not made[index] and job.request.is_chat:
                yield _with_usage(job, job.reply.opening(index), index, 0)
            part = _part(job, index, chunk, is_first=not made[index])
            made[index] += len(chunk.tokens)
            body = job.reply.chunk(part, chunk.finish, is_last=not wants_usage)
            yield _with_usage(job, body, index, made[index])
        if wants_usage:
            yield job.reply.usage_chunk(job.prompt_tokens, sum(made))
    except ApiError as failure:
        yield failure.body()
    finally:
        _abandon(engine, job)


def aborted(
    engine: Engine, body: Json, *, is_chat: bool, request_id: str | None
) -> tuple[Job, Json]:
    """Return the answer of a draining server: 200, no text, finish reason `abort`.

    Raises:
        ApiError: the body is refused.
    """
    limit = engine.scheduler.limits.max_model_len
    request = protocol.read(body, engine.vocabulary, limit, is_chat=is_chat)
    job = Job(request, _reply(engine, request, _id(is_chat, request_id)), ())
    count = len(request.prompts) * request.choices
    empty = [Choice(index, "", (), (), FinishReason.ABORT, None) for index in range(count)]
    return job, job.reply.whole(empty, job.prompt_tokens, None)


def check_model(engine: Engine, body: Json) -> None:
    """Refuse a body that names a model which is not served.

    Raises:
        ApiError: 404, with the names that are.
    """
    names, name = engine.config.served_names, body.get("model")
    if isinstance(name, str) and name not in names:
        aliases = ", ".join(names)
        message = f"The model `{name}` does not exist. Valid aliases: {aliases}."
        raise ApiError(404, "NotFoundError", message, "model")


def _sequences(engine: Engine, request: Request, limit: int, request_id: str) -> list[Sequence]:
    return [
        Sequence(
            id=f"{request_id}-{position}-{uuid.uuid4().hex[:8]}",
            prompt=prompt.tokens,
            sampling=request.sampling_of(prompt, choice, limit),
            times=Times(engine.now()),
            priority=request.priority,
            cache_salt=request.cache_salt,
        )
        for position, prompt in enumerate(request.prompts)
        for choice in range(request.choices)
    ]


async def _remote(engine: Engine, request: Request) -> RemoteKV | None:
    if not engine.moves_kv:
        return None
    try:
        return transfer.remote(request.kv_transfer_params)
    except EngineKilled as killed:
        engine.die(killed.error, is_silent=killed.is_silent)
        if killed.is_silent:
            await asyncio.Event().wait()  # no answer comes; the connection ends with the process
        raise EngineDead from killed


def _release(engine: Engine, params: object) -> None:
    """Free the blocks that a prefill engine keeps for a refused request."""
    try:
        remote = transfer.remote(params if isinstance(params, dict) else None)
    except EngineKilled:
        return
    if remote is not None:
        engine.exchange.release(remote)


def _reply(engine: Engine, request: Request, reply_id: str) -> Reply:
    config = engine.config
    return Reply(
        id=reply_id,
        created=int(time.time()),
        model=request.model or config.served_names[0],
        fingerprint=fingerprint(engine),
        is_chat=request.is_chat,
        returns_token_ids=request.returns_token_ids,
    )


def fingerprint(engine: Engine) -> str:
    """Return the system_fingerprint of an engine."""
    config = engine.config
    parts = [f"vllm-{config.settings.vllm_version}"]
    for name, size in (("tp", config.tensor_parallel), ("pp", config.pipeline_parallel)):
        if size > 1:
            parts.append(f"{name}{size}")
    return "-".join([*parts, config.identity.digest()[:8]])


def _id(is_chat: bool, request_id: str | None) -> str:
    return f"{'chatcmpl' if is_chat else 'cmpl'}-{request_id or uuid.uuid4().hex}"


def _abandon(engine: Engine, job: Job) -> None:
    for stream in job.streams:
        engine.abort(stream)


async def _collect(engine: Engine, job: Job, index: int) -> Choice:
    stream = job.streams[index]
    async for chunk in stream.chunks():
        if chunk.finish is FinishReason.ERROR:
            raise internal_error()
    sequence = stream.sequence
    assert sequence.finish is not None
    prompt = _prompt(job, index)
    text = prompt.text + stream.text if job.request.echoes else stream.text
    made = tuple(sequence.output)
    return Choice(index, text, made, prompt.tokens, sequence.finish, sequence.stop_reason)


def _part(job: Job, index: int, chunk: Chunk, *, is_first: bool) -> Choice:
    prompt, shows_prompt = _prompt(job, index), is_first and job.request.returns_token_ids
    text = prompt.text + chunk.text if is_first and job.request.echoes else chunk.text
    reason = job.streams[index].sequence.stop_reason if chunk.finish else None
    finish = chunk.finish or FinishReason.STOP
    return Choice(index, text, chunk.tokens, prompt.tokens if shows_prompt else (), finish, reason)


def _prompt(job: Job, index: int) -> Prompt:
    return job.request.prompts[index // job.request.choices]


def _with_usage(job: Job, body: Json, index: int, made: int) -> Json:
    if job.request.wants_continuous_usage:
        body["usage"] = usage(len(_prompt(job, index).tokens), made)
    return body


async def _merge(streams: tuple[Stream, ...]) -> AsyncIterator[tuple[int, Chunk]]:
    """Yield the chunks of several streams as they come."""
    if len(streams) == 1:
        async for chunk in streams[0].chunks():
            yield 0, chunk
        return
    merged: asyncio.Queue[tuple[int, Chunk] | ApiError | None] = asyncio.Queue()

    async def pump(index: int, stream: Stream) -> None:
        try:
            async for chunk in stream.chunks():
                merged.put_nowait((index, chunk))
        except ApiError as failure:
            merged.put_nowait(failure)
        else:
            merged.put_nowait(None)

    pumps = [asyncio.create_task(pump(index, stream)) for index, stream in enumerate(streams)]
    try:
        left = len(pumps)
        while left:
            item = await merged.get()
            if isinstance(item, ApiError):
                raise item
            if item is None:
                left -= 1
            else:
                yield item
    finally:
        for task in pumps:
            task.cancel()
