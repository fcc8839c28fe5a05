"""The JSON of completions and chats, whole and as stream chunks, with the fields of vLLM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from e2e.double.sequences import FinishReason

Json = dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """One finished sequence of a request."""

    index: int
    text: str
    tokens: tuple[int, ...]
    prompt_tokens: tuple[int, ...]
    finish: FinishReason
    stop_reason: int | str | None


@dataclass(frozen=True)
class Reply:
    """What all parts of one answer have in common."""

    id: str
    created: int
    model: str
    fingerprint: str
    is_chat: bool
    returns_token_ids: bool

    def whole(
        self, choices: list[Choice], prompt_tokens: int, kv_transfer_params: Json | None
    ) -> Json:
        """Return the answer without streaming."""
        made = sum(len(choice.tokens) for choice in choices)
        details = {"prompt_tokens_details": None, "completion_tokens_details": None}
        body: Json = {
            "id": self.id,
            "object": "chat.completion" if self.is_chat else "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": [self._choice(choice) for choice in choices],
            "service_tier": None,
            "system_fingerprint": self.fingerprint,
            "usage": usage(prompt_tokens, made) | details,
            "kv_transfer_params": kv_transfer_params,
            "ec_transfer_params": None,
            "metrics": None,
        }
        if self.is_chat:
            ids = list(choices[0].prompt_tokens) if self.returns_token_ids else None
            body |= {"prompt_logprobs": None, "prompt_token_ids": ids, "prompt_text": None}
        return body

    def opening(self, index: int) -> Json:
        """Return the chunk that names the role of a streamed chat's choice."""
        delta = {"role": "assistant", "content": ""}
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        return self._chunk(choice) | {"prompt_token_ids": None, "prompt_text": None}

    def chunk(self, choice: Choice, finish: FinishReason | None, *, is_last: bool) -> Json:
        """Return a chunk with new text of a choice; `is_last` where no usage chunk follows."""
        tokens = list(choice.tokens) if self.returns_token_ids else None
        part: Json = {"index": choice.index, "logprobs": None, "finish_reason": finish}
        if self.is_chat:
            part |= {"delta": {"content": choice.text}, "token_ids": tokens}
        else:
            prompt = list(choice.prompt_tokens) if choice.prompt_tokens else None
            part |= {"text": choice.text, "token_ids": tokens, "prompt_token_ids": prompt}
        if finish is not None or not self.is_chat:
            part["stop_reason"] = choice.stop_reason
        body = self._chunk(part)
        if finish is not None and is_last:
            body["system_fingerprint"] = self.fingerprint
        return body

    def usage_chunk(self, prompt_tokens: int, made: int) -> Json:
        """Return the chunk with the usage, before `[DONE]`."""
        body = self._chunk(None) | {"usage": usage(prompt_tokens, made)}
        return body | {"system_fingerprint": self.fingerprint}

    def _chunk(self, choice: Json | None) -> Json:
        return {
            "id": self.id,
            "object": "chat.completion.chunk" if self.is_chat else "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": [] if choice is None else [choice],
        }

    def _choice(self, choice: Choice) -> Json:
        tokens = list(choice.tokens) if self.returns_token_ids else None
        body: Json = {
            "index": choice.index,
            "logprobs": None,
            "finish_reason": choice.finish,
            "stop_reason": choice.stop_reason,
            "token_ids": tokens,
            "routed_experts": None,
        }
        if self.is_chat:
            empty = ("refusal", "annotations", "audio", "function_call", "reasoning")
            message = {"role": "assistant", "content": choice.text} | dict.fromkeys(empty)
            return body | {"message": message}
        prompt = list(choice.prompt_tokens) if self.returns_token_ids else None
        return body | {"text": choice.text, "prompt_logprobs": None, "prompt_token_ids": prompt}


def usage(prompt_tokens: int, made: int) -> Json:
    """Return the token counts of an answer."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + made,
        "completion_tokens": made,
    }


def models(names: tuple[str, ...], root: str, max_model_len: int, created: int) -> Json:
    """Return the list of served names."""
    return {"object": "list", "data": [_card(name, root, max_model_len, created) for name in names]}


def _card(name: str, root: str, max_model_len: int, created: int) -> Json:
    permission = {
        "id": f"modelperm-{abs(hash(name)):016x}",
        "object": "model_permission",
        "created": created,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": root,
        "parent": None,
        "max_model_len": max_model_len,
        "permission": [permission],
    }
