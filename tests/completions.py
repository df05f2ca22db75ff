"""A completions server on loopback that also misbehaves on demand."""

import contextlib
import json
import socket
import threading
import time
from collections import Counter

import pytest

fastapi = pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")
torch = pytest.importorskip("torch")


def spoil(response, fault):
    """An answer with something missing."""
    if fault == "silent":
        response["choices"][0]["text"] = ""
    if fault == "generated only":
        response["choices"][0] = {"text": " and", "logprobs": {"token_logprobs": [-1.0], "tokens": [" and"]}}
        response["usage"]["completion_tokens"] = 1
    if fault == "missing":
        response["choices"][0]["logprobs"] = None
    if fault == "count":
        response["choices"][0]["logprobs"]["token_logprobs"].pop()
    if fault == "hole":
        response["choices"][0]["logprobs"]["token_logprobs"][1:] = [None] * (response["usage"]["prompt_tokens"] - 1)


class Server:
    """An OpenAI-compatible server of a tiny model; `faults` gives what to do with a prompt's next requests."""

    def __init__(self, model, tokenizer):
        self.model, self.tokenizer = model, tokenizer
        self.asked, self.answered, self.keys = Counter(), Counter(), set()
        self.faults, self.cut_at, self.lock = {}, None, threading.Lock()
        self.n_tokens = 0
        self.longest, self.usage, self.tokens, self.retry_after = None, True, False, "0.01"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def app(self):
        app = fastapi.FastAPI()

        @app.post("/v1/completions")
        def completions(body: dict, authorization: str = fastapi.Header(default="")):
            return self.answer(body, authorization)

        return app

    def answer(self, body, authorization):
        prompt = body["prompt"]
        with self.lock:
            self.asked[prompt] += 1
            self.keys.add(authorization)
            fault = self.faults.get(prompt, []).pop(0) if self.faults.get(prompt) else None
            if self.cut_at is not None and sum(self.answered.values()) >= self.cut_at:
                self.server.should_exit = self.server.force_exit = True
                fault = 500
        if fault == 429:
            return fastapi.Response(status_code=429, headers={"retry-after": self.retry_after})
        if fault == "no echo":  # as llama-server says it
            return fastapi.Response('{"error": {"code": 500, "message": "Only no echo is supported"}}', status_code=500)
        if isinstance(fault, int):
            return fastapi.Response("no", status_code=fault)
        if self.longest is not None and len(prompt) > self.longest:
            return fastapi.Response("This model's maximum context length is 40 characters.", status_code=400)
        result = self.completion(prompt[: len(prompt) // 2] if fault == "cut" else prompt, body)
        if fault == "truncated":
            return fastapi.Response(json.dumps(result)[:-20], media_type="application/json")
        spoil(result, fault)
        with self.lock:
            self.answered[prompt] += fault is None
        return result

    def completion(self, prompt, body):
        assert body["echo"]
        assert body["logprobs"]
        ids = self.tokenizer(prompt)["input_ids"]
        self.n_tokens += len(ids)
        with torch.no_grad():
            logp = self.model(torch.tensor([ids])).logits[0].log_softmax(-1)
        logprobs = {"token_logprobs": [None, *(logp[i, token].item() for i, token in enumerate(ids[1:]))]}
        if self.tokens:
            spans = self.tokenizer(prompt, return_offsets_mapping=True)["offset_mapping"]
            logprobs["tokens"] = [prompt[start:end] for start, end in spans]
        usage = {"usage": {"prompt_tokens": len(ids), "completion_tokens": 1}} if self.usage else {}  # as vLLM does
        return {"choices": [{"text": prompt, "logprobs": logprobs}], **usage}

    @contextlib.contextmanager
    def running(self):
        config = uvicorn.Config(self.app(), host="127.0.0.1", port=self.port, log_level="critical", lifespan="off")
        self.server = uvicorn.Server(config)
        thread = threading.Thread(target=self.server.run)
        thread.start()
        while not self.server.started and thread.is_alive():
            time.sleep(0.01)
        try:
            yield self
        finally:
            self.server.should_exit = True
            thread.join(timeout=20)
